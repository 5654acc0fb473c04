"""What a check is given and what it finds, and running them side by side."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Literal

from carrel.workspace import Workspace

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: State
    seen: str
    cure: str = ""
    """The command or the setting that helps, on one line; empty where all is well."""


def ok(check: str, seen: str) -> Finding:
    return Finding(check, "ok", seen)


def warning(check: str, seen: str, cure: str) -> Finding:
    return Finding(check, "warning", seen, cure)


def problem(check: str, seen: str, cure: str) -> Finding:
    return Finding(check, "problem", seen, cure)


@dataclass(frozen=True, slots=True)
class Subject:
    workspace: Workspace
    """With the settings that can be used; those that cannot are as if they were not there."""
    environment: Mapping[str, str]

    @property
    def toolsets(self) -> tuple[str, ...]:
        """Those that the settings name."""
        return self.workspace.settings.server.toolsets

    def serves(self, toolset: str) -> bool:
        """Whether the settings let it be served."""
        return not self.toolsets or toolset in self.toolsets

    def setting(self, section: str, key: str, default: Any = None) -> Any:
        """A setting by its name; `default` where this version has none of that name."""
        return getattr(getattr(self.workspace.settings, section, None), key, default)


def may(path: str | os.PathLike[str], mode: int) -> bool:
    """As `os.access`, for the user that this process acts as."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def megabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.1f} MB"


def lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def one_line(error: object) -> str:
    """What an error says, on one line."""
    return " ".join(lines(str(error)))


SECONDS = 5.0
HINT_SECONDS = 1.0

log = logging.getLogger("carrel.doctor")

Look = Callable[[Subject], Iterable[Finding]]
Waiting = Callable[[Sequence[str]], None]
"""Is told, once a second, the checks that are not done yet."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    look: Look
    if_stuck: str = "look at what the machine waits for: its disk or its network"
    """The cure where it takes longer than its time."""


def run(checks: Sequence[Check], subject: Subject, waiting: Waiting, *, seconds: float = SECONDS) -> list[Finding]:
    """What they find, in their order. A check that takes longer is left behind, and is a finding itself."""
    done: SimpleQueue[tuple[str, list[Finding]]] = SimpleQueue()
    for check in checks:
        threading.Thread(target=_look, args=(check, subject, done), name=f"doctor-{check.name}", daemon=True).start()
    found: dict[str, list[Finding]] = {}
    started = time.monotonic()
    next_hint = started + HINT_SECONDS
    while len(found) < len(checks) and (now := time.monotonic()) < started + seconds:
        try:
            name, findings = done.get(timeout=max(0.0, min(next_hint, started + seconds) - now))
            found[name] = findings
        except Empty:
            if time.monotonic() >= next_hint:
                next_hint += HINT_SECONDS
                waiting([check.name for check in checks if check.name not in found])
    for check in checks:
        if check.name not in found:
            found[check.name] = [problem(check.name, f"no answer within {seconds:g} seconds", check.if_stuck)]
    return [finding for check in checks for finding in found[check.name]]


def _look(check: Check, subject: Subject, done: "SimpleQueue[tuple[str, list[Finding]]]") -> None:
    """Whatever is broken in a way that nobody thought of is a finding too, and the others go on."""
    try:
        findings = list(check.look(subject))
    except Exception as error:
        log.debug("the check of %s failed", check.name, exc_info=True)
        findings = [
            problem(
                check.name,
                f"could not be checked: {type(error).__name__}: {one_line(error)}",
                "see to what it names; if it is none of your doing, report it with the output of carrel doctor --json",
            )
        ]
    done.put((check.name, findings))
