"""The loader of settings: `carrel.toml`, then the environment, then the command line."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from carrel.errors import SettingsError
from carrel.settings.definitions import ENVIRONMENT_PREFIX, Setting, Settings, all_settings, sections

FILE_NAME = "carrel.toml"
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

Overrides = Mapping[str, Mapping[str, object]]


def load(folder: Path, environment: Mapping[str, str], overrides: Overrides) -> Settings:
    """Load the settings of a workspace: its file, then the environment, then `overrides`; later sources win."""
    known = {setting.name: setting for setting in all_settings()}
    path = folder / FILE_NAME
    values = {
        **dict(_from_tables(_document(path), known, f"{path}: ")),
        **dict(_from_environment(environment, known)),
        **dict(_from_tables(overrides, known, "")),
    }
    given: dict[str, dict[str, object]] = {name: {} for name in sections()}
    for name, value in values.items():
        given[known[name].section][known[name].key] = value
    return Settings(**{name.replace(".", "_"): type(each)(**given[name]) for name, each in sections().items()})


def _document(path: Path) -> dict[str, object]:
    if not os.path.isfile(path):
        return {}
    from carrel.untrusted import load_toml

    try:
        return load_toml(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError) as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error


def _from_tables(
    document: Mapping[str, object], known: Mapping[str, Setting], place: str
) -> Iterator[tuple[str, object]]:
    """Yield the values of a document of sections; `place` is the prefix of error messages."""
    names = {setting.key: setting.name for setting in reversed(list(known.values()))}  # of two alike, the first
    sections = {setting.section: f"[{setting.section}]" for setting in known.values()}
    for section, table in document.items():
        if section not in sections:
            if isinstance(table, Mapping):
                raise SettingsError(f"{place}unknown section [{section}]{_nearest(section, sections)}")
            raise SettingsError(f"{place}unknown key {section}, outside any section{_nearest(section, names)}")
        if not isinstance(table, Mapping):
            raise SettingsError(f"{place}[{section}] must be a section, not {table!r}")
        for key, value in cast("Mapping[str, object]", table).items():
            if f"{section}.{key}" in sections:
                yield from _from_tables({f"{section}.{key}": value}, known, place)
                continue
            setting = known.get(f"{section}.{key}")
            if setting is None:
                here = {each.key: each.name for each in known.values() if each.section == section}
                near = here if _near(key, here) else names | here
                raise SettingsError(f"{place}unknown key {section}.{key}{_nearest(key, near)}")
            yield setting.name, _checked(setting, value, f"{place}{setting.name}")


def _from_environment(environment: Mapping[str, str], known: Mapping[str, Setting]) -> Iterator[tuple[str, object]]:
    variables = {setting.variable: setting for setting in known.values()}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        setting = variables.get(variable)
        if setting is None:
            nearest = _nearest(variable, {each: each for each in variables})
            raise SettingsError(f"environment: unknown variable {variable}{nearest}")
        yield setting.name, _checked(setting, _from_text(setting, text), f"environment: {variable}")


def _from_text(setting: Setting, text: str) -> object:
    """Parse a variable's text; return the text itself if it cannot be parsed, for `_checked` to refuse."""
    if isinstance(setting.default, bool):
        return BOOLEANS.get(text.strip().lower(), text)
    if isinstance(setting.default, int):
        try:
            return int(text)
        except ValueError:
            return text
    if isinstance(setting.default, tuple):
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _checked(setting: Setting, value: object, place: str) -> object:
    """Return the value if it is valid for the setting, else raise `SettingsError` naming `place`."""
    if isinstance(setting.default, bool):
        if isinstance(value, bool):
            return value
        raise SettingsError(f"{place} must be true or false, not {value!r}")
    if isinstance(setting.default, int):
        if isinstance(value, int) and not isinstance(value, bool) and setting.low <= value <= setting.high:
            return value
        raise SettingsError(f"{place} must be a whole number from {setting.low} to {setting.high}, not {value!r}")
    if isinstance(setting.default, tuple):
        if isinstance(value, list | tuple):
            items = cast("list[object] | tuple[object, ...]", value)
            if all(isinstance(item, str) for item in items):
                return tuple(items)
        raise SettingsError(f"{place} must be a list of strings, not {value!r}")
    return _checked_text(setting, value, place)


def _checked_text(setting: Setting, value: object, place: str) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{place} must be a string, not {value!r}")
    if setting.choices and value not in setting.choices:
        nearest = _nearest(value, {choice: choice for choice in setting.choices})
        raise SettingsError(f"{place} must be one of {', '.join(setting.choices)}, not {value!r}{nearest}")
    if setting.pattern:
        if re.fullmatch(setting.pattern, value) is None:
            raise SettingsError(f"{place} has a value that cannot be used. {setting.doc}")
    elif setting.default and not value:
        raise SettingsError(f"{place} must not be empty")
    return value


def _near(word: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(word, known, n=1, cutoff=cutoff)


def _nearest(word: str, known: Mapping[str, str]) -> str:
    """Return a hint at the nearest known word; `known` maps words to how they are displayed."""
    found = _near(word, known, cutoff=0.5)
    return f"; did you mean {known[found[0]]}?" if found else f"; known: {', '.join(sorted(known.values()))}"
