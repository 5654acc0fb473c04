"""Python, the packages, and `rg`."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

from carrel.doctor.checks import Finding, Subject, ok, one_line, problem, warning
from carrel.storage.location import PostgresLocation
from carrel.version import __version__

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
    from carrel.code.grep.program import INSTALL, find_program

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
