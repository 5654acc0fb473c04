"""What importing content costs, beside a bare `executemany` of the same rows with the same indexes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carrel.storage.admin import upgrade
from carrel.storage.database import Location, SqliteLocation
from carrel.workspace import find_workspace

TABLES = ("project", "entity", "item", "relation", "search_performance", "quotable_block")
MOST_TIMES_BARE = 6.0
BATCH = 5000
LOOK_SECONDS = 0.05
IMPORT = """
import sys
from pathlib import Path
from carrel.content.bundle.importer import import_content
from carrel.workspace import find_workspace
import_content(find_workspace(Path(sys.argv[1])).location, [Path(sys.argv[2])])
"""
BARE = """
import pickle, sys, time
url, dump = sys.argv[1:]
if url.startswith("postgres"):
    import psycopg
    connection, mark = psycopg.connect(url), "%s"
else:
    import sqlite3
    connection, mark = sqlite3.connect(url), "?"
    connection.execute("PRAGMA cache_size = -32000")
taken = 0.0
with open(dump, "rb") as file:
    cursor = connection.cursor()
    while (batch := pickle.load(file)) is not None:
        table, columns, rows = batch
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"
        began = time.process_time()
        cursor.executemany(sql, rows)
        taken += time.process_time() - began
began = time.process_time()
connection.commit()
print(taken + time.process_time() - began)
"""


@dataclass(frozen=True, slots=True)
class Imported:
    engine: str
    size: str
    seconds: float
    cpu_seconds: float
    """The program's and, of PostgreSQL, the server's."""
    peak_megabytes: float
    database_megabytes: float
    bare_cpu_seconds: float

    @property
    def times_bare(self) -> float:
        return self.cpu_seconds / self.bare_cpu_seconds


def load(engine: str, size: str, bundle: Path, folder: Path, bare_folder: Path) -> Imported:
    """Import the bundle into the workspace `folder`, then its rows once more into the other."""
    location, other = (find_workspace(each, environment={}).location for each in (folder, bare_folder))
    upgrade(location)
    seconds, cpu, peak = _measured([IMPORT, str(folder), str(bundle)], folder, location)
    return Imported(engine, size, seconds, cpu, peak, _megabytes(location), _bare(location, other, bare_folder))


def table(imports: list[Imported], sizes: dict[str, str]) -> Iterator[str]:
    yield "| engine | size, entities | s | CPU s | memory, MB | database, MB | bare, CPU s | times bare | goal | |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for each in imports:
        cells = [
            each.engine,
            f"{each.size}: {sizes[each.size]}",
            f"{each.seconds:.1f}",
            f"{each.cpu_seconds:.1f}",
            f"{each.peak_megabytes:.0f}",
            f"{each.database_megabytes:.0f}",
            f"{each.bare_cpu_seconds:.1f}",
            f"{each.times_bare:.1f}",
            f"{MOST_TIMES_BARE:g}",
            "met" if each.times_bare <= MOST_TIMES_BARE else "MISSED",
        ]
        yield f"| {' | '.join(cells)} |"


def _measured(words: list[str], folder: Path, location: Location) -> tuple[float, float, float]:
    """Seconds, seconds of CPU, and the most memory in megabytes of a program, from its text and its arguments."""
    before, started = _server_cpu(location), time.perf_counter()
    with (folder / "import.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    peak = 0.0
    try:
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            peak = max(peak, _peak_megabytes(process.pid))
            time.sleep(LOOK_SECONDS)
    except BaseException:
        process.kill()
        raise
    seconds = time.perf_counter() - started
    _, status, used = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"the import failed: {(folder / 'import.log').read_text()[-2000:]}")
    return seconds, used.ru_utime + used.ru_stime + _server_cpu(location) - before, peak


def _bare(source: Location, target: Location, folder: Path) -> float:
    """The seconds of CPU that inserting the rows takes, in one transaction, and nothing else."""
    dump = folder / "rows.pickle"
    with dump.open("wb") as file:
        for batch in _batches(source):
            pickle.dump(batch, file)
        pickle.dump(None, file)
    upgrade(target)
    before = _server_cpu(target)
    words = [sys.executable, "-c", BARE, _plain_url(target), str(dump)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"inserting the rows failed: {done.stderr[-2000:]}")
    dump.unlink()
    return float(done.stdout) + _server_cpu(target) - before


def _batches(source: Location) -> Iterator[tuple[str, list[str], list[Any]]]:
    with closing(_connected(source)) as connection:
        for name in TABLES:
            cursor = connection.cursor() if isinstance(source, SqliteLocation) else connection.cursor(f"all_{name}")
            cursor.execute(f"SELECT * FROM {name} ORDER BY pk")  # noqa: S608 - constants
            while rows := cursor.fetchmany(BATCH):
                yield name, [column[0] for column in cursor.description], rows


def _connected(location: Location) -> Any:
    if isinstance(location, SqliteLocation):
        import sqlite3

        return sqlite3.connect(location.path)
    import psycopg

    return psycopg.connect(location.url)


def _plain_url(location: Location) -> str:
    return str(location.path) if isinstance(location, SqliteLocation) else location.url


def _megabytes(location: Location) -> float:
    if isinstance(location, SqliteLocation):
        return sum(file.stat().st_size for file in location.path.parent.glob(f"{location.path.name}*")) / 2**20
    with closing(_connected(location)) as connection:
        return connection.execute("SELECT pg_database_size(current_database())").fetchone()[0] / 2**20


def _server_cpu(location: Location) -> float:
    """The seconds of CPU that PostgreSQL's processes took so far, those that ended too; 0 for SQLite."""
    if isinstance(location, SqliteLocation):
        return 0.0
    with closing(_connected(location)) as connection:
        postmaster = int(connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()[0].split()[0])
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(stat.parent.name) == postmaster:
            ticks += sum(map(int, fields[11:15]))  # with the processes it has waited for
        elif int(fields[1]) == postmaster:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak_megabytes(pid: int) -> float:
    """The most that a process held so far. The figure that wait4 gives has in it what its parent held when it began."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
