"""Runs the official conformance suite's server scenarios against a URL.

What a revision requires is the `server:` list of the suite's own requirements/<revision>.yaml, frozen
when the revision shipped; `--requirements <revision>` runs that list at the revision's own wire. It also
runs the server entries under `not_scored` (extensions, scenarios added later, scenarios the suite's
reference server fails), which are reported here with `required=False` and decide nothing.

Only a scenario with at least one success, no failure and no warning passes: some scenarios report even
an unreachable server as a warning, which the suite's own exit code forgives.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .nodejs import node, node_modules

REVISIONS = ("2026-07-28", "2025-11-25")
_RESULT_DIRECTORY = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


@dataclass
class Outcome:
    required: bool
    succeeded: int = 0
    failures: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])

    @property
    def passed(self) -> bool:
        return self.succeeded > 0 and not self.failures and not self.warnings


def run(url: str, spec_version: str, timeout: float = 120) -> dict[str, Outcome]:
    """The outcome of each server scenario by name; one process runs them all, in about three seconds."""
    package = node_modules() / "@modelcontextprotocol" / "conformance"
    outcomes = {name: Outcome(required=True) for name in required_scenarios(package, spec_version)}
    with tempfile.TemporaryDirectory() as directory:
        options = ["--requirements", spec_version, "--output-dir", directory]
        done = subprocess.run(
            [node(), str(package / "dist" / "index.js"), "server", "--url", url, *options],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        results = list(Path(directory).iterdir())
        if not results:
            raise RuntimeError(f"the conformance suite produced nothing:\n{done.stdout}{done.stderr}")
        for path in results:
            if match := _RESULT_DIRECTORY.fullmatch(path.name):
                outcome = outcomes.setdefault(match["scenario"], Outcome(required=False))
                _read_checks(path / "checks.json", outcome)
    return outcomes


def required_scenarios(package: Path, spec_version: str) -> list[str]:
    text = (package / "requirements" / f"{spec_version}.yaml").read_text()
    _, _, after = text.partition("\nserver:\n")
    listed, _, _ = after.partition("\n\n")
    return [line.strip().removeprefix("- ") for line in listed.splitlines()]


def _read_checks(path: Path, outcome: Outcome) -> None:
    if not path.exists():
        outcome.failures.append("the scenario ended without a result")
        return
    checks: list[dict[str, Any]] = json.loads(path.read_text())
    for check in checks:
        message = f"{check['id']}: {check.get('errorMessage') or check['description']}"
        match check["status"]:
            case "SUCCESS":
                outcome.succeeded += 1
            case "FAILURE":
                outcome.failures.append(message)
            case "WARNING":
                outcome.warnings.append(message)
            case _:
                pass
