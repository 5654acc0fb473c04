"""Programs that some tests drive and that no Python package brings.

Only the standard library is imported here: dev.py reads this list before anything is installed.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")
"""Where Debian keeps servers, which is not on everybody's PATH."""
REASON = "needs the program "


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    """Debian's package."""
    purpose: str
    elsewhere: str
    """How to get it where there is no apt-get."""
    other_names: tuple[str, ...] = ()
    variable: str = ""
    """An environment variable that may name the program's path."""

    def path(self) -> str | None:
        if self.variable and (named := os.environ.get(self.variable)):
            return named
        folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
        found = (shutil.which(name, path=folders) for name in (self.name, *self.other_names))
        return next(filter(None, found), None)


PROGRAMS = (
    Program(
        "bwrap",
        "bubblewrap",
        "stands in for a container engine",
        "on other Linux distributions the package bubblewrap",
    ),
    Program(
        "chromium",
        "chromium",
        "opens the page",
        "install Chromium or Chrome, or set CHROMIUM to its path",
        other_names=("chromium-browser", "google-chrome"),
        variable="CHROMIUM",
    ),
    Program("git", "git", "tells what a repository would commit", "https://git-scm.com/downloads"),
    Program("nginx", "nginx-light", "reads deploy/nginx.conf", "brew install nginx"),
    Program("pgbouncer", "pgbouncer", "pools connections to PostgreSQL", "brew install pgbouncer"),
    Program("redis-server", "redis-server", "keeps limits for several servers", "brew install redis"),
    Program("systemd-analyze", "systemd", "checks deploy/carrel.service", "comes with systemd, on Linux alone"),
)


def missing_programs() -> list[Program]:
    return [program for program in PROGRAMS if program.path() is None]


def path_of(name: str) -> str | None:
    """Return where the program is installed, if it is."""
    (program,) = (each for each in PROGRAMS if each.name == name)
    return program.path()


def required(name: str) -> str:
    """Return the program's path. Where it is not installed, the test that asks for it is skipped."""
    import pytest  # not installed yet when dev.py reads the list

    return path_of(name) or pytest.skip(REASON + name)


def summary(skip_reasons: Iterable[str]) -> Iterator[str]:
    """A line for each program that skipped tests wanted: how many they were, and how to get it."""
    wanted = Counter(reason.partition(REASON)[2] for reason in skip_reasons if REASON in reason)
    for program in PROGRAMS:
        if count := wanted[program.name]:
            tests = "1 test" if count == 1 else f"{count} tests"
            yield (
                f"{program.name} is not installed ({tests} skipped; it {program.purpose}): "
                f"apt-get install {program.package}; elsewhere: {program.elsewhere}"
            )
