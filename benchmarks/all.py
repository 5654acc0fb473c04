"""Every benchmark at the size of a report, one after the other.

    python3 dev.py bench all [NAME ...] [--out DIR] [--write]

Without names all of them run, which takes about an hour on a quiet machine with 2 cores. Each writes DIR/NAME.md: its
date, commit and command, and what it printed. --write also puts that between the markers `<!-- bench:NAME -->` and
`<!-- /bench:NAME -->` of RESULTS.md and docs/compare.md. A benchmark that fails does not stop the others; the exit
status is then 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import options
import tables
from process import ROOT, environment

HERE = Path(__file__).resolve().parent
PAGES = (HERE / "RESULTS.md", ROOT / "docs" / "compare.md")


class Report(NamedTuple):
    """The arguments of a run for the report, and about how many minutes it takes."""

    arguments: Sequence[str]
    minutes: int


REPORTS = {
    "calls": Report(("--starts", "0"), 4),
    "cold_start": Report((), 2),
    "content": Report(("--seconds", "60", "--counted", "graph of the hub, depth 1"), 21),
    "notes": Report(("--sizes", "1000", "10000", "--idle", "30"), 3),
    "search": Report(("--sizes", "10000", "100000"), 4),
    "code": Report(("--sizes", "200", "5000"), 4),
    "fleet": Report(("--seconds", "90", "--scaling-seconds", "8"), 4),
    "fuzz": Report(("--inputs", "20000"), 5),
    "lost_updates": Report((), 4),
    "page": Report(("--rounds", "3"), 1),
    "compare": Report(("--rounds", "3"), 5),
    "size": Report((), 2),
    "retrieval": Report((), 4),
    "search_real": Report(("--passages", "8000", "--queries", "200"), 3),
    "search_text_engines": Report((), 1),
    "code_dependencies": Report((), 1),
}
"""Reduced to fit: content is read for 60 s on each engine instead of 150, and its rows are counted for two reads of the
hub; retrieval is without its sweeps of constants; notes without 100,000; search without a million
passages; code with 200 and 5,000 files instead of 500 and 20,000; 90 s of trouble for the fleet instead of 180; 20,000
inputs of fuzzing instead of 100,000; 8,000 real passages instead of 100,000."""


@dataclass(frozen=True, slots=True)
class Done:
    name: str
    seconds: float
    status: int


def commit() -> str:
    """What is measured: the commit, and whether something else than the reports differs from it."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    told = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if told.returncode:
        return "unknown"  # the sources of a release are no repository
    others = [f":!{page.relative_to(ROOT)}" for page in PAGES]
    command = ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", *others]
    changed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    return f"`{told.stdout.strip()}`{' with changes' if changed else ''}"


def run(name: str, arguments: Sequence[str], folder: Path, *, write: bool) -> Done:
    started = time.monotonic()
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - started
    shown = " ".join(("python3 dev.py bench", name, *(f'"{word}"' if " " in word else word for word in arguments)))
    about = f"*{datetime.now(UTC):%Y-%m-%d}, commit {commit()}, {seconds:,.0f} s: `{shown}`*"
    text = f"{about}\n\n{done.stdout.strip()}\n"
    if done.returncode:
        text += f"\nIt ended with status {done.returncode}.\n"
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    if write and "|" in done.stdout:
        insert(name, text)
    return Done(name, seconds, done.returncode)


def insert(name: str, text: str) -> None:
    """Put a report where the pages have its markers."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{text}{end}", old, flags=re.DOTALL)
        if new != old:
            page.write_text(new, encoding="utf-8")


def main() -> int:
    parser = options.parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(REPORTS)}; default all")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default a new temporary folder")
    parser.add_argument("--write", action="store_true", help="also put the reports into RESULTS.md and docs/compare.md")
    given = options.parse(parser)
    names = given.names or (["search_text_engines"] if given.smoke else list(REPORTS))
    if given.smoke and given.write:
        parser.error("figures of a smoke run mean nothing, and are not written")
    if unknown := set(names) - REPORTS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    folder = given.out or Path(tempfile.mkdtemp(prefix="carrel-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    options.say(f"{len(names)} benchmarks, about {sum(REPORTS[name].minutes for name in names)} minutes, into {folder}")
    found: list[Done] = []
    for name in names:
        options.say(f"--- {name}, about {REPORTS[name].minutes} minutes")
        arguments = ["--smoke"] if given.smoke else REPORTS[name].arguments
        found.append(run(name, arguments, folder, write=given.write))
        options.say(f"--- {name}: {found[-1].seconds:.0f} s, status {found[-1].status}")
    rows = ((each.name, f"{each.seconds:.0f}", REPORTS[each.name].minutes * 60, each.status) for each in found)
    print("\n".join(tables.table(("benchmark", "seconds", "expected", "exit status"), rows)))
    options.write_json(given.json, {each.name: each.seconds for each in found})
    return 1 if any(each.status for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
