"""Checks of the environment: settings, Python, packages, the code folder, and ripgrep."""

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

from carrel.doctor.checks import CheckContext, Finding, ok, one_line, problem, warning
from carrel.errors import SettingsError
from carrel.settings import ENVIRONMENT_PREFIX, FILE_NAME, Settings, all_settings, load
from carrel.storage.database import PostgresLocation
from carrel.untrusted import load_toml
from carrel.version import __version__
from carrel.workspace import Workspace

SETTINGS_CHECK = "settings"
NO_FOLDER = Path(os.devnull)
"""A folder that cannot have a settings file, so that `load` reads only the values that it is passed."""

Tables = dict[str, Any]


@dataclass(slots=True)
class _SettingsReport:
    """The valid values of a settings file and an environment, their origins, and the faults of the others."""

    values: Tables = field(default_factory=dict[str, Any])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[Finding] = field(default_factory=list[Finding])


def read_settings(folder: Path, environment: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """Return the valid settings, and findings on the others."""
    report = _SettingsReport()
    _read_file(folder / FILE_NAME, report)
    usable = _read_environment(environment, report)
    settings = load(NO_FOLDER, usable, report.values)
    # `load` lets the table override the environment, as the command line does. Here the table holds the file's values,
    # which the environment overrides, so `_read_environment` has removed from it what a variable sets.
    report.faults += _combined_faults(Workspace(folder, settings))
    return settings, [*report.faults, *([] if report.faults else [ok(SETTINGS_CHECK, _summary(folder, report))])]


def _read_file(path: Path, report: _SettingsReport) -> None:
    if not os.path.lexists(path):
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
        document = load_toml(text)
    except ValueError as error:
        report.faults.append(
            problem(SETTINGS_CHECK, f"{path} is not valid TOML: {one_line(error)}", f"correct that place in {path}")
        )
        return
    except OSError as error:
        cure = f"give the user that runs Carrel read access to {path}"
        report.faults.append(problem(SETTINGS_CHECK, f"{path} cannot be read: {error.strerror}", cure))
        return
    for names, value in _leaves(document):
        nested = _nested(names, value)
        try:
            load(NO_FOLDER, {}, nested)
        except SettingsError as error:
            place = f"{path}{_line(text, names)}"
            report.faults.append(
                problem(SETTINGS_CHECK, f"{place}: {error}", f"correct or remove {'.'.join(names)} in {path}")
            )
        else:
            _merge(report.values, nested)
            report.origins[".".join(names)] = FILE_NAME


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
    """Return `, line N` for a key, or nothing if its line cannot be found."""
    section, target = "", ".".join(names)
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            section = header[1].replace(" ", "").replace('"', "")
        key = re.match(r"\s*\"?([A-Za-z0-9_.-]+)\"?\s*=", line)
        path = ".".join(part for part in (section, key[1]) if part) if key else section
        if path == target:
            return f", line {number}"
    return ""


def _read_environment(environment: Mapping[str, str], report: _SettingsReport) -> dict[str, str]:
    """Return the valid variables, and remove from the report the values of the file that they override."""
    names = {setting.variable: setting for setting in all_settings()}
    usable: dict[str, str] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        try:
            load(NO_FOLDER, {variable: text}, {})
        except SettingsError as error:
            report.faults.append(problem(SETTINGS_CHECK, str(error), f"unset {variable}, or correct its value"))
            continue
        usable[variable] = text
        setting = names[variable]
        report.origins[setting.name] = variable
        _remove(report.values, (*setting.section.split("."), setting.key))
    return usable


def _remove(table: Tables, names: tuple[str, ...]) -> None:
    *above, key = names
    for name in above:
        table = table.get(name, {})
    table.pop(key, None)


def _combined_faults(workspace: Workspace) -> Iterator[Finding]:
    """Find faults of several settings together, or of what a setting names."""
    for attribute, cure in (
        ("named_toolsets", "correct server.toolsets"),
        ("location", "set database.url to sqlite:///FILE or postgresql://USER@HOST/NAME"),
    ):
        try:
            getattr(workspace, attribute)
        except SettingsError as error:
            yield problem(SETTINGS_CHECK, str(error), cure)


def _summary(folder: Path, report: _SettingsReport) -> str:
    """List the settings that are set and their origins; never their values, which may contain a password."""
    if not report.origins:
        return f"all defaults; {folder} has no {FILE_NAME} with settings (carrel init writes one)"
    return f"{folder}: " + ", ".join(f"{name} ({origin})" for name, origin in sorted(report.origins.items()))


MIN_PYTHON_VERSION = (3, 11)
SHOWN_PACKAGES = ("mcp", "starlette", "uvicorn", "onnxruntime", "tantivy")
RG_TIMEOUT_SECONDS = 4


def python(_context: CheckContext) -> Iterator[Finding]:
    found = f"Python {'.'.join(map(str, sys.version_info[:3]))}, carrel {__version__}"
    if sys.version_info < MIN_PYTHON_VERSION:
        yield problem("python", found, "install Carrel with Python 3.11 or later")
        return
    yield ok("python", f"{found} in {sys.prefix}")


def packages(context: CheckContext) -> Iterator[Finding]:
    """Check that required packages are installed, and the extras that the settings need."""
    missing = [each for each in _required_packages() if find_spec(each[1]) is None]
    for name, _ in missing:
        yield problem("packages", f"{name} is not installed", f"pip install --upgrade 'carrel=={__version__}'")
    settings = context.workspace.settings
    extras = {"postgres": ("psycopg", "psycopg_pool"), "neo4j": ("neo4j",), "otel": ("opentelemetry.sdk",)}
    needed = {
        "postgres": settings.database.url.startswith(("postgresql://", "postgres://")),
        "neo4j": settings.notes.store == "neo4j",
        "otel": bool(context.setting("server", "tracing")),
    }
    for extra, modules in extras.items():
        if needed[extra] and not all(_is_importable(module) for module in modules):
            yield problem(
                "packages",
                f"the settings need the extra {extra}, which is not installed",
                f"pip install 'carrel[{extra}]'",
            )
            missing.append((extra, extra))
    if not missing:
        yield ok("packages", ", ".join(f"{name} {_version(name)}" for name in SHOWN_PACKAGES))


def _required_packages() -> list[tuple[str, str]]:
    """List the distributions that Carrel requires, each with a module of it."""
    return [
        ("mcp", "mcp"),
        ("tantivy", "tantivy"),
        ("numpy", "numpy"),
        ("watchfiles", "watchfiles"),
        ("PyYAML", "yaml"),
    ]


def _is_importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def rg(context: CheckContext) -> Iterator[Finding]:
    from carrel.code.grep.ripgrep import INSTALL_COMMAND, find_program

    if not context.serves("code") or not context.workspace.settings.code.root:
        yield ok("rg", "not needed, since code is not served")
        return
    program = find_program()
    if program is None:
        yield problem("rg", "ripgrep is not installed: grep_codebase fails", INSTALL_COMMAND)
        return
    try:
        done = subprocess.run(  # noqa: S603 - the program that was found
            [program, "--version"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=RG_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield problem(
            "rg", f"{program} does not run: {one_line(error)}", f"pip install --force-reinstall {INSTALL_COMMAND[12:]}"
        )
        return
    if done.returncode != 0:
        reason = one_line(done.stderr) or f"exit status {done.returncode}"
        yield problem(
            "rg", f"{program} does not run: {reason}", f"pip install --force-reinstall {INSTALL_COMMAND[12:]}"
        )
        return
    yield ok("rg", f"{done.stdout.splitlines()[0]}, {program}")


def code(context: CheckContext) -> Iterator[Finding]:
    workspace = context.workspace
    if not context.serves("code") or not workspace.settings.code.root:
        yield ok("code", "not served")
    elif not workspace.code_root.is_dir():
        found = f"code.root: {workspace.code_root} is not a folder"
        yield (problem if "code" in context.toolsets else warning)("code", found, "set code.root to the code's folder")
    else:
        shared = f", called {workspace.code_base}" if isinstance(workspace.location, PostgresLocation) else ""
        yield ok("code", f"{workspace.code_root}{shared}")
