"""Checks of the environment: settings, Python, packages, and `rg`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from carrel.doctor.checks import Finding, Subject, ok, one_line, problem, warning
from carrel.errors import SettingsError
from carrel.settings import ENVIRONMENT_PREFIX, FILE_NAME, Settings, all_settings, load
from carrel.storage.database import PostgresLocation
from carrel.untrusted import load_toml
from carrel.version import __version__
from carrel.workspace import Workspace

CHECK = "settings"
NOWHERE = Path(os.devnull)
"""A folder without a settings file."""

Tables = dict[str, Any]


@dataclass(slots=True)
class _Read:
    """What can be used of a file and an environment."""

    values: Tables = field(default_factory=dict[str, Any])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[Finding] = field(default_factory=list[Finding])


def read(folder: Path, environment: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """The settings as far as they can be used, and what is to be said about them."""
    read = _Read()
    _read_file(folder / FILE_NAME, read)
    usable = _read_environment(environment, read)
    settings = load(NOWHERE, usable, read.values)
    # In `load` the last word is the tables'; here the environment's, so what it sets is left out of them.
    read.faults += _together(Workspace(folder, settings))
    return settings, [*read.faults, *([] if read.faults else [ok(CHECK, _seen(folder, read))])]


def _read_file(path: Path, read: _Read) -> None:
    if not os.path.lexists(path):
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
        document = load_toml(text)
    except ValueError as error:
        read.faults.append(problem(CHECK, f"{path} is no TOML: {one_line(error)}", f"mend that place in {path}"))
        return
    except OSError as error:
        cure = f"let the user that runs Carrel read {path}"
        read.faults.append(problem(CHECK, f"{path} cannot be read: {error.strerror}", cure))
        return
    for names, value in _leaves(document):
        nested = _nested(names, value)
        try:
            load(NOWHERE, {}, nested)
        except SettingsError as error:
            place = f"{path}{_line(text, names)}"
            read.faults.append(problem(CHECK, f"{place}: {error}", f"correct or remove {'.'.join(names)} in {path}"))
        else:
            _merge(read.values, nested)
            read.origins[".".join(names)] = FILE_NAME


def _leaves(table: Mapping[str, object], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves(cast("Mapping[str, object]", value), (*above, key))
        else:
            yield (*above, key), value


def _nested(names: tuple[str, ...], value: object) -> Tables:
    for name in reversed(names):
        value = {name: value}
    return cast("Tables", value)


def _merge(into: Tables, more: Tables) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], cast("Tables", value))
        else:
            into[key] = value


def _line(text: str, names: tuple[str, ...]) -> str:
    """Where a key stands, as far as that can be seen."""
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            section = header[1].replace(" ", "").replace('"', "")
        here = ".".join(names)
        key = re.match(r"\s*\"?([A-Za-z0-9_.-]+)\"?\s*=", line)
        named = ".".join(part for part in (section, key[1]) if part) if key else section
        if named == here:
            return f", line {number}"
    return ""


def _read_environment(environment: Mapping[str, str], read: _Read) -> dict[str, str]:
    """The variables that can be used; they beat the file."""
    names = {setting.variable: setting for setting in all_settings()}
    usable: dict[str, str] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        try:
            load(NOWHERE, {variable: text}, {})
        except SettingsError as error:
            read.faults.append(problem(CHECK, str(error), f"unset {variable}, or correct its value"))
            continue
        usable[variable] = text
        setting = names[variable]
        read.origins[setting.name] = variable
        _remove(read.values, (*setting.section.split("."), setting.key))
    return usable


def _remove(table: Tables, names: tuple[str, ...]) -> None:
    *above, key = names
    for name in above:
        table = table.get(name, {})
    table.pop(key, None)


def _together(workspace: Workspace) -> Iterator[Finding]:
    """What can only be seen of several settings, or by looking at what they name."""
    for what, cure in (
        ("named_toolsets", "correct server.toolsets"),
        ("location", "set database.url to sqlite:///FILE or postgresql://USER@HOST/NAME"),
    ):
        try:
            getattr(workspace, what)
        except SettingsError as error:
            yield problem(CHECK, str(error), cure)


def _seen(folder: Path, read: _Read) -> str:
    """Names and where they come from; never values, for there may be a password among them."""
    if not read.origins:
        return f"all defaults, for {folder} has no {FILE_NAME} that sets any (carrel init writes one)"
    return f"{folder}: " + ", ".join(f"{name} ({origin})" for name, origin in sorted(read.origins.items()))


OLDEST_PYTHON = (3, 11)
SHOWN = ("mcp", "starlette", "uvicorn", "onnxruntime", "tantivy")
RG_SECONDS = 4


def python(_subject: Subject) -> Iterator[Finding]:
    found = f"Python {'.'.join(map(str, sys.version_info[:3]))}, carrel {__version__}"
    if sys.version_info < OLDEST_PYTHON:
        yield problem("python", found, "install Carrel with Python 3.11 or later")
        return
    yield ok("python", f"{found} in {sys.prefix}")


def packages(subject: Subject) -> Iterator[Finding]:
    """Those that are required and not there, or too old; and the extras that the settings call for."""
    missing = [each for each in _wanted() if find_spec(each[1]) is None]
    for name, _ in missing:
        yield problem("packages", f"{name} is not installed", f"pip install --upgrade 'carrel=={__version__}'")
    settings = subject.workspace.settings
    extras = {"postgres": ("psycopg", "psycopg_pool"), "neo4j": ("neo4j",), "otel": ("opentelemetry.sdk",)}
    needed = {
        "postgres": settings.database.url.startswith(("postgresql://", "postgres://")),
        "neo4j": settings.notes.store == "neo4j",
        "otel": bool(subject.setting("server", "tracing")),
    }
    for extra, modules in extras.items():
        if needed[extra] and not all(_is_there(module) for module in modules):
            yield problem(
                "packages",
                f"the settings need the extra {extra}, which is not installed",
                f"pip install 'carrel[{extra}]'",
            )
            missing.append((extra, extra))
    if not missing:
        yield ok("packages", ", ".join(f"{name} {_version(name)}" for name in SHOWN))


def _wanted() -> list[tuple[str, str]]:
    """Distributions that come with Carrel and a module of each."""
    return [
        ("mcp", "mcp"),
        ("tantivy", "tantivy"),
        ("numpy", "numpy"),
        ("watchfiles", "watchfiles"),
        ("PyYAML", "yaml"),
    ]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def rg(subject: Subject) -> Iterator[Finding]:
    from carrel.code.grep.ripgrep import INSTALL, find_program

    if not subject.serves("code") or not subject.workspace.settings.code.root:
        yield ok("rg", "not needed: code is not served")
        return
    program = find_program()
    if program is None:
        yield problem("rg", "ripgrep is not installed: grep_codebase fails", INSTALL)
        return
    try:
        done = subprocess.run(  # noqa: S603 - the program that was found
            [program, "--version"], capture_output=True, text=True, encoding="utf-8", timeout=RG_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield problem(
            "rg", f"{program} does not run: {one_line(error)}", f"pip install --force-reinstall {INSTALL[12:]}"
        )
        return
    if done.returncode != 0:
        said = one_line(done.stderr) or f"exit status {done.returncode}"
        yield problem("rg", f"{program} does not run: {said}", f"pip install --force-reinstall {INSTALL[12:]}")
        return
    yield ok("rg", f"{done.stdout.splitlines()[0]}, {program}")


def code(subject: Subject) -> Iterator[Finding]:
    workspace = subject.workspace
    if not subject.serves("code") or not workspace.settings.code.root:
        yield ok("code", "not served")
    elif not workspace.code_root.is_dir():
        found = f"code.root: there is no folder {workspace.code_root}"
        yield (problem if "code" in subject.toolsets else warning)("code", found, "set code.root to the code's folder")
    else:
        shared = f", called {workspace.code_base}" if isinstance(workspace.location, PostgresLocation) else ""
        yield ok("code", f"{workspace.code_root}{shared}")
