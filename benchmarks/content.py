"""What reading content costs, with ten times the rows too: both toolsets, on SQLite and PostgreSQL.

    python3 dev.py bench content [--engine sqlite|postgres] [--scale FRACTION] [--seconds N] [--only TEXT] [--json FILE]

Builds two bundles, one with a tenth of the other's rows, imports them with `carrel import content`, and serves both at
once with `carrel serve --http`. One client then asks each server in turn, a few calls of each read, round after round;
the look-up by primary key that each read is held against is one of them. All figures are the client's, over HTTP.
Linux only. At full scale it needs some 5 GB of disk and 30 to 60 minutes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import content_import
import messages
import options
from contenders import ADDRESS
from content_data import FULL, Landmarks, Size, write_bundle
from content_import import Imported
from content_reads import WAYS, Read, Samples, found_rows, missed, reads, table
from http_client import connected
from process import Program

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

ENGINES = ("sqlite", "postgres")
SMALL, LARGE = "tenth", "full"
TENTH = 0.1
MOST_CALLS = 20
TURN_SECONDS = 0.15  # for one read in one round, unless a single call takes longer
START_TIMEOUT_SECONDS = 60.0
SETTLE_SECONDS = 12.0  # in which PostgreSQL's servers tell their statistics, also when idle
COUNTED = "hub"  # reads with this in their name have the rows counted that PostgreSQL reads for them


@dataclass(frozen=True, slots=True)
class Bundle:
    size: Size
    path: Path
    marks: Landmarks


@dataclass(frozen=True, slots=True)
class Site:
    """A server over the content of one size."""

    size: str
    address: tuple[str, int]
    database: str
    reads: list[Read]


def carrel(*words: str) -> list[str]:
    return [sys.executable, "-m", "carrel", *words]


def build(folder: Path, scale: float) -> dict[str, Bundle]:
    bundles: dict[str, Bundle] = {}
    for name, fraction in ((SMALL, TENTH * scale), (LARGE, scale)):
        size = FULL.scaled(fraction)
        options.say(f"writing the {name} bundle: {size}")
        path = folder / f"{name}.jsonl.gz"
        bundles[name] = Bundle(size, path, write_bundle(path, size))
    return bundles


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    words = ("serve", "--http", "--port", "0", "--workspace", str(folder))
    with Program(carrel(*words), folder / "server") as program:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while (told := ADDRESS.search(program.log.read_text())) is None:
            if time.monotonic() > deadline or program.ended():
                raise RuntimeError(f"the server did not start: {program.log.read_text()[-2000:]}")
            time.sleep(0.02)
        yield "127.0.0.1", int(told[1])


def ask(site: Site, read: Read, number: int, count: int) -> list[float]:
    """The milliseconds of so many calls in a row, after one that does not count."""
    call = read.calls[number % len(read.calls)]
    with connected(site.address, messages.http_call(call, site.address, f"/{read.toolset}/mcp")) as client:
        client.drive(1)
        return [seconds * 1000 for seconds in client.drive(count)]


def check(site: Site, read: Read) -> None:
    """Ask once and look at the answer: nothing is measured that finds nothing."""
    request = messages.http_call(read.calls[0], site.address, f"/{read.toolset}/mcp")
    with connected(site.address, request) as client:
        body = client.ask()
    rows = found_rows(json.loads(json.loads(body)["result"]["content"][0]["text"]))
    if rows == 0 or (read.found is not None and rows != read.found):
        raise RuntimeError(f"{site.size}, {read.toolset}, {read.name}: {rows} rows, not {read.found or 'some'}")


def measure(sites: list[Site], seconds: float, most_calls: int) -> Samples:
    for site in sites:
        for read in site.reads:
            check(site, read)
    samples = Samples()
    counts: dict[tuple[str, tuple[str, str]], int] = {}
    deadline = time.monotonic() + seconds
    number = 0
    while not number or number % WAYS or time.monotonic() < deadline:  # each of a read's calls as often as the others
        for key in dict.fromkeys(read.key for site in sites for read in site.reads):
            for site in sites:
                for read in site.reads:
                    if read.key == key:
                        if (site.size, key) not in counts:
                            (first,) = ask(site, read, number, 1)
                            counts[site.size, key] = max(1, min(most_calls, int(TURN_SECONDS * 1000 / first)))
                        samples.add(site.size, read, ask(site, read, number, counts[site.size, key]))
        number += 1
    options.say(f"{number} rounds")
    return samples


# --- how many rows a read reads


def rows_read(site: Site, read: Read, settle: float, calls: int = 5) -> dict[str, float]:
    """Rows and index entries that PostgreSQL counts for one call, by table and index."""
    before = _counters(site.database, settle)
    for _ in range(calls):
        ask(site, read, 0, 1)
    after = _counters(site.database, settle)
    asked = calls * 2  # each turn begins with a call that does not count
    return {name: (after[name] - before.get(name, 0)) / asked for name in after if after[name] > before.get(name, 0)}


def _counters(url: str, settle: float) -> dict[str, int]:
    import psycopg

    time.sleep(settle)
    with psycopg.connect(url, autocommit=True) as connection:
        indexes = connection.execute("SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes").fetchall()
        tables = connection.execute("SELECT relname, seq_tup_read FROM pg_stat_user_tables").fetchall()
    return {f"index {name}": count for name, count in indexes} | {f"scan of {name}": count for name, count in tables}


# --- the run


def run(
    engine: str, bundles: dict[str, Bundle], folder: Path, given: argparse.Namespace
) -> tuple[Samples, list[Imported], list[str]]:
    imports: list[Imported] = []
    lines: list[str] = []
    with ExitStack() as stack:
        url_of = _urls(engine, stack)
        sites: list[Site] = []
        for name, bundle in bundles.items():
            home, bare = folder / engine / name, folder / engine / f"{name}_bare"
            urls = [url_of(each.name) for each in (home, bare)]
            for each, url in zip((home, bare), urls, strict=True):
                each.mkdir(parents=True)
                (each / "carrel.toml").write_text(f'[database]\nurl = "{url}"\n', encoding="utf-8")
            imports.append(content_import.load(engine, name, bundle.path, home, bare))
            shutil.rmtree(bare)
            options.say(f"{engine}, {name}: imported in {imports[-1].seconds:.1f} s")
            address = stack.enter_context(serving(home))
            sites.append(Site(name, address, urls[0], reads(bundle.size, bundle.marks, given.only)))
        samples = measure(sites, given.seconds, given.most_calls)
        if engine == "postgres":
            for site in sites:
                for read in site.reads:
                    if given.counted in read.name:
                        counted = rows_read(site, read, given.settle)
                        parts = ", ".join(f"{what} {count:,.0f}" for what, count in sorted(counted.items()))
                        lines.append(f"- {site.size}, {read.toolset}, {read.name}: {parts}")
    return samples, imports, lines


def _urls(engine: str, stack: ExitStack) -> Callable[[str], str]:
    if engine == "sqlite":
        return lambda _name: "sqlite:///content.db"
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from tests.postgres import PostgresServer, recreate_database

    server: PostgresServer = PostgresServer()
    stack.callback(server.close)
    return lambda name: recreate_database(server.url(), f"content_{name}")


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="this engine only")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="FRACTION", help="of the full size; 0.01 for a look"
    )
    parser.add_argument("--seconds", type=float, default=240, help="to measure each engine for; default %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the reads with this in their name")
    parser.add_argument("--most-calls", type=int, default=MOST_CALLS, help="of a read in a turn; default %(default)s")
    parser.add_argument(
        "--counted", default=COUNTED, metavar="TEXT", help="count rows read by these; default %(default)s"
    )
    parser.add_argument(
        "--settle", type=float, default=SETTLE_SECONDS, help="seconds until PostgreSQL has counted them"
    )
    smoke = {"scale": 0.001, "seconds": 0, "most_calls": 1, "only": "depth 1", "counted": "hub, depth 1", "settle": 0.1}
    given = options.parse(parser, engine=["postgres"], **smoke)
    document: dict[str, Any] = {"scale": given.scale, "engines": {}}
    with tempfile.TemporaryDirectory(prefix="carrel-content-") as name:
        folder = Path(name)
        bundles = build(folder, given.scale)
        for engine in given.engine or ENGINES:
            samples, imports, rows = run(engine, bundles, folder, given)
            large = bundles[LARGE]
            lines = list(table(samples, reads(large.size, large.marks, given.only), SMALL, LARGE))
            print(f"\n### {engine}\n")
            sizes = {name: str(bundle.size.entities) for name, bundle in bundles.items()}
            print("\n".join(content_import.table(imports, sizes)))
            print("\n".join(["", *lines, "", f"{len(missed(lines))} of {len(lines) - 2} missed", *rows]), flush=True)
            document["engines"][engine] = {
                "imports": [asdict(each) for each in imports],
                "milliseconds": {
                    size: {" / ".join(key): taken for key, taken in found.items()}
                    for size, found in samples.taken.items()
                },
                "rows": rows,
            }
    options.write_json(given.json, document)


if __name__ == "__main__":
    main()
