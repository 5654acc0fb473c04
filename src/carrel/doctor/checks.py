"""Checks, their findings, and the runner that executes them in parallel with a time limit."""

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
    """A line of the report: what a check saw and, unless it is ok, how to fix it."""

    check: str
    state: State
    seen: str
    cure: str = ""
    """The command or setting that fixes it, on one line; empty if the state is ok."""


def ok(check: str, seen: str) -> Finding:
    return Finding(check, "ok", seen)


def warning(check: str, seen: str, cure: str) -> Finding:
    return Finding(check, "warning", seen, cure)


def problem(check: str, seen: str, cure: str) -> Finding:
    return Finding(check, "problem", seen, cure)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The workspace and environment that a check examines."""

    workspace: Workspace
    """Has the valid settings only; an invalid one is treated as not set."""
    environment: Mapping[str, str]

    @property
    def toolsets(self) -> tuple[str, ...]:
        """Return the toolsets that the settings name; empty means all."""
        return self.workspace.settings.server.toolsets

    def serves(self, toolset: str) -> bool:
        """Whether the settings allow a toolset to be served."""
        return not self.toolsets or toolset in self.toolsets

    def setting(self, section: str, key: str, default: Any = None) -> Any:
        """Return a setting by name, or `default` if this version does not have it."""
        return getattr(getattr(self.workspace.settings, section, None), key, default)


def has_access(path: str | os.PathLike[str], mode: int) -> bool:
    """Whether the effective user of this process has access to a path; `os.access` asks for the real one."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def megabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.1f} MB"


def lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def one_line(error: object) -> str:
    """Return an error's message on one line."""
    return " ".join(lines(str(error)))


CHECK_TIMEOUT_SECONDS = 5.0
HINT_INTERVAL_SECONDS = 1.0

log = logging.getLogger("carrel.doctor")

CheckFunction = Callable[[CheckContext], Iterable[Finding]]
ProgressCallback = Callable[[Sequence[str]], None]
"""Called once a second with the names of the checks that are still running."""


@dataclass(frozen=True, slots=True)
class Check:
    """A named function that yields findings."""

    name: str
    function: CheckFunction
    timeout_cure: str = "check this machine's disk and network"
    """The cure to suggest if the check times out."""


def run(
    checks: Sequence[Check], context: CheckContext, on_wait: ProgressCallback, *, seconds: float = CHECK_TIMEOUT_SECONDS
) -> list[Finding]:
    """Run the checks in parallel and return their findings in order; a check that times out is a problem itself.

    Threads are daemons: one that hangs in a system call, such as on a dead network share, cannot be stopped, and must
    not keep the process from exiting.
    """
    done: SimpleQueue[tuple[str, list[Finding]]] = SimpleQueue()
    for check in checks:
        threading.Thread(
            target=_run_check, args=(check, context, done), name=f"doctor-{check.name}", daemon=True
        ).start()
    found: dict[str, list[Finding]] = {}
    started = time.monotonic()
    next_hint = started + HINT_INTERVAL_SECONDS
    while len(found) < len(checks) and (now := time.monotonic()) < started + seconds:
        try:
            name, findings = done.get(timeout=max(0.0, min(next_hint, started + seconds) - now))
            found[name] = findings
        except Empty:
            if time.monotonic() >= next_hint:
                next_hint += HINT_INTERVAL_SECONDS
                on_wait([check.name for check in checks if check.name not in found])
    for check in checks:
        if check.name not in found:
            found[check.name] = [problem(check.name, f"no answer within {seconds:g} seconds", check.timeout_cure)]
    return [finding for check in checks for finding in found[check.name]]


def _run_check(check: Check, context: CheckContext, done: "SimpleQueue[tuple[str, list[Finding]]]") -> None:
    """Run one check; an unexpected exception becomes a finding, so that the other checks go on."""
    try:
        findings = list(check.function(context))
    except Exception as error:
        log.debug("the check of %s failed", check.name, exc_info=True)
        findings = [
            problem(
                check.name,
                f"could not be checked: {type(error).__name__}: {one_line(error)}",
                "fix what the error names, or report it as a bug with the output of carrel doctor --json",
            )
        ]
    done.put((check.name, findings))
