"""The settings: what there is to set, and how `carrel.toml`, the environment and the command line set it."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from carrel.errors import SettingsError

FILE_NAME = "carrel.toml"
ENVIRONMENT_PREFIX = "CARREL_"

Overrides = Mapping[str, Mapping[str, object]]


def _setting(default: Any, doc: str, *, choices: tuple[str, ...] = (), low: int = 0, high: int = 2**31) -> Any:
    return field(default=default, metadata={"doc": doc, "choices": choices, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What is served, and where."""

    toolsets: tuple[str, ...] = _setting((), "Toolsets to serve. Empty: every one that is configured.")
    read_only: bool = _setting(False, "Leave out every tool that writes.")
    host: str = _setting("127.0.0.1", "Address that `carrel serve --http` listens on.")
    port: int = _setting(8765, "Port that it listens on; 0 takes a free one.", high=65535)
    workers: int = _setting(1, "Processes that share the port.", low=1, high=256)
    allowed_hosts: tuple[str, ...] = _setting((), "Host headers to accept besides the loopback names.")
    allowed_origins: tuple[str, ...] = _setting((), "Origin headers to accept besides loopback pages.")
    call_timeout: int = _setting(30, "Seconds after which a tool call is given up.", low=1, high=3600)
    rate_limit: int = _setting(0, "Calls a minute for each client and tool; 0 sets no limit.")
    log_format: str = _setting(
        "auto",
        "Log lines on stderr; auto is text on a terminal, else json.",
        choices=("auto", "text", "json"),
    )
    log_level: str = _setting(
        "info", "Least level that is logged.", choices=("debug", "info", "warning", "error")
    )


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Where things are kept."""

    url: str = _setting(
        "sqlite:///.carrel/carrel.db", "sqlite:///FILE (from the workspace), or postgresql://USER@HOST/NAME."
    )
    pool_size: int = _setting(10, "PostgreSQL connections of one process.", low=1, high=1000)


@dataclass(frozen=True, slots=True)
class TasksSettings:
    """Each user's tasks."""

    user: str = _setting("", "The one user whose tasks are served. Empty: whoever a call names.")


@dataclass(frozen=True, slots=True)
class Settings:
    server: ServerSettings = field(default_factory=ServerSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    tasks: TasksSettings = field(default_factory=TasksSettings)


@dataclass(frozen=True, slots=True)
class Setting:
    """One key, as the reference and `carrel init` show it."""

    section: str
    key: str
    default: Any
    doc: str
    choices: tuple[str, ...]
    low: int
    high: int

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"{ENVIRONMENT_PREFIX}{self.section}_{self.key}".upper()


def _sections() -> dict[str, Any]:
    defaults = Settings()
    return {section.name: getattr(defaults, section.name) for section in fields(defaults)}


def all_settings() -> Iterator[Setting]:
    for section, defaults in _sections().items():
        for entry in cast("tuple[Field[Any], ...]", fields(defaults)):
            yield Setting(section, entry.name, getattr(defaults, entry.name), **entry.metadata)


def load(folder: Path, environment: Mapping[str, str], overrides: Overrides) -> Settings:
    """The settings of a workspace: its file, then the environment, then `overrides`, the last word winning."""
    known = {setting.name: setting for setting in all_settings()}
    values: dict[str, object] = {}
    values.update(_from_file(folder / FILE_NAME, known))
    values.update(_from_environment(environment, known))
    for section, keys in overrides.items():
        for key, value in keys.items():
            setting = known[f"{section}.{key}"]
            values[setting.name] = _checked(setting, value, f"--{key.replace('_', '-')}")
    sections = {
        name: type(defaults)(**{key.key: values[key.name] for key in known.values() if key.section == name and key.name in values})
        for name, defaults in _sections().items()
    }
    return Settings(**sections)


def _from_file(path: Path, known: Mapping[str, Setting]) -> Iterator[tuple[str, object]]:
    if not path.is_file():
        return
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error
    sections = {setting.section for setting in known.values()}
    for section, table in document.items():
        if section not in sections:
            raise SettingsError(f"{path}: unknown section [{section}]{_nearest(section, sections)}")
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: [{section}] must be a section, not a value")
        for key, value in cast("dict[str, object]", table).items():
            setting = known.get(f"{section}.{key}")
            if setting is None:
                keys = [entry.key for entry in known.values() if entry.section == section]
                raise SettingsError(f"{path}: unknown key {section}.{key}{_nearest(key, keys, f'{section}.')}")
            yield setting.name, _checked(setting, value, f"{path}: {setting.name}")


def _from_environment(
    environment: Mapping[str, str], known: Mapping[str, Setting]
) -> Iterator[tuple[str, object]]:
    variables = {setting.variable: setting for setting in known.values()}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        setting = variables.get(variable)
        if setting is None:
            raise SettingsError(f"environment: unknown variable {variable}{_nearest(variable, variables)}")
        yield setting.name, _checked(setting, _from_text(setting, text), f"environment: {variable}")


def _from_text(setting: Setting, text: str) -> object:
    """The value that a variable's text stands for; the text itself where it stands for none."""
    if isinstance(setting.default, bool):
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(text.lower(), text)
    if isinstance(setting.default, int):
        return int(text) if text.strip().removeprefix("-").isdecimal() else text
    if isinstance(setting.default, tuple):
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _checked(setting: Setting, value: object, place: str) -> object:
    """`value`, if the setting can take it; `place` says where it was given."""
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
    if not isinstance(value, str):
        raise SettingsError(f"{place} must be a string, not {value!r}")
    if setting.choices and value not in setting.choices:
        raise SettingsError(
            f"{place} must be one of {', '.join(setting.choices)}, not {value!r}{_nearest(value, setting.choices)}"
        )
    return value


def _nearest(word: str, words: Any, prefix: str = "") -> str:
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f"; did you mean {prefix}{found[0]}?" if found else f"; known: {', '.join(sorted(words))}"
