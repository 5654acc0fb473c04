"""Bulk reads and writes over one synchronous connection, with the same SQL for both engines.

SQL has `:name` parameters and no other colons. Staged rows are in temporary tables, which no other connection sees and
which end with this one.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

from carrel.errors import SchemaMismatch, StoreError, StoreUnavailable
from carrel.storage.database import Location, PostgresLocation, SqliteLocation
from carrel.storage.notifications import CHANNEL, CONTENT_CHANGE, NOTIFY, payload
from carrel.storage.schema_version import POSTGRES_REVISION, mismatch, prepare_sqlite
from carrel.storage.sqlite import Connection, roll_back, translate_errors, trust_triggers

if TYPE_CHECKING:
    import psycopg

Row = tuple[Any, ...]
Parameters = Mapping[str, object]

FETCH_BATCH_ROWS = 2000
BULK_CACHE_KILOBYTES = 32_000
INDEX_REBUILD_ROWS = 50_000
POSTGRES_SETTINGS = {
    "cursor_tuple_fraction": "1",  # rows are read to their end, or there are none
    "work_mem": "'64MB'",
    "temp_buffers": "'64MB'",
}
CONTENT_LOCK_KEY = 0x_CA_11_E2  # PostgreSQL advisory lock: one writer of content at a time

NO_PARAMETERS: Parameters = {}


class Bulk(ABC):
    """A connection for bulk work. Failures of the engine are `StoreError`."""

    distinct_operator: str
    """The null-safe operator for two values that differ."""
    inserts_sorted: bool
    """Whether to insert rows in index order, because indexes cannot be rebuilt afterwards."""

    @abstractmethod
    def begin_staging(self) -> None:
        """Start staging: until `begin_writing` only temporary tables are written, and no other connection waits."""

    @abstractmethod
    def begin_writing(self, *, really: bool = True) -> None:
        """Start the write transaction, which excludes other writers of content.

        Without `really` (a dry run) nobody is excluded, and the transaction can only be rolled back.
        """

    @abstractmethod
    def begin_reading(self) -> None:
        """Start a transaction in which every statement sees the same snapshot."""

    @abstractmethod
    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> int:
        """Execute a statement and return the number of changed rows."""

    @abstractmethod
    def rows(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> Iterator[Row]:
        """Yield rows, fetched in batches; between them only `execute` and `insert` may be called."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None: ...

    @abstractmethod
    def create_temporary(self, table: str, columns: Mapping[str, str]) -> None:
        """Create a temporary table whose rows are numbered `n`; types are `text`, `bigint` and `double precision`."""

    @abstractmethod
    def assign_keys(self, table: str, staged: str, where: str) -> None:
        """Assign a new `pk` of `table` to each staged row that meets the condition."""

    @abstractmethod
    def bulk_insert(self, table: str, rows: int) -> AbstractContextManager[None]:
        """Wrap the insertion of so many rows into a table, to make it faster if the engine can."""

    @abstractmethod
    def analyze_temporary(self, *tables: str) -> None:
        """Update the planner's statistics of temporary tables, if the engine keeps any."""

    @abstractmethod
    def vacuum(self, *tables: str) -> None:
        """Prepare tables for fast reads after a large write was committed."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def roll_back(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def first(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> Row | None:
        found = list(self.rows(sql, parameters))
        return found[0] if found else None

    def count(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> int:
        """Return the single number that a query yields."""
        row = self.first(sql, parameters)
        return int(row[0] or 0) if row else 0


@contextmanager
def open_bulk(location: Location, *, create: bool = True) -> Generator[Bulk]:
    """Open a database at this program's revision; a SQLite file is created and upgraded as needed.

    Without `create`, a missing file raises `StoreUnavailable`.
    """
    bulk = _open_sqlite(location, create=create) if isinstance(location, SqliteLocation) else _open_postgres(location)
    try:
        yield bulk
    except BaseException:
        bulk.roll_back()
        raise
    finally:
        bulk.close()


def _open_sqlite(location: SqliteLocation, *, create: bool) -> "Bulk":
    if not create and not location.path.exists():
        raise StoreUnavailable(f"there is no database {location.path.name}: nothing has been kept here yet")
    return SqliteBulk(trust_triggers(prepare_sqlite(location)))


def _open_postgres(location: PostgresLocation) -> "Bulk":
    from carrel.storage import postgres

    bulk = PostgresBulk(postgres.connect(location.direct), location.replica_url)
    try:
        found = bulk.first("SELECT to_regclass('alembic_version') IS NOT NULL")
        row = bulk.first(POSTGRES_REVISION) if found and found[0] else None
        if (problem := mismatch(*row or (None, None))) is not None:
            raise SchemaMismatch(problem)
        bulk.roll_back()
    except BaseException:
        bulk.close()
        raise
    return bulk


class SqliteBulk(Bulk):
    distinct_operator = "IS NOT"
    inserts_sorted = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        with translate_errors():
            connection.execute(f"PRAGMA cache_size = -{BULK_CACHE_KILOBYTES}")
            connection.execute("PRAGMA temp_store = FILE")

    def begin_staging(self) -> None:
        self.execute("BEGIN")

    def begin_writing(self, *, really: bool = True) -> None:
        if self._connection.in_transaction:
            self.execute("COMMIT")
        self.execute("BEGIN IMMEDIATE" if really else "BEGIN")

    def begin_reading(self) -> None:
        self.execute("BEGIN")

    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> int:
        with translate_errors():
            return self._connection.execute(sql, parameters).rowcount

    def rows(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> Iterator[Row]:
        with translate_errors():
            cursor = self._connection.execute(sql, parameters)
            while batch := cursor.fetchmany(FETCH_BATCH_ROWS):
                yield from batch

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - constants
        with translate_errors():
            self._connection.executemany(sql, rows)

    def create_temporary(self, table: str, columns: Mapping[str, str]) -> None:
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self.execute(f"CREATE TEMP TABLE {table} (n INTEGER PRIMARY KEY, {listed})")

    def assign_keys(self, table: str, staged: str, where: str) -> None:
        last = self.count("SELECT max(seq) FROM sqlite_sequence WHERE name = :table", {"table": table})
        self.execute(f"UPDATE {staged} SET pk = n + :last WHERE {where}", {"last": last})  # noqa: S608 - constants

    @contextmanager
    def bulk_insert(self, table: str, rows: int) -> Generator[None]:
        """Drop the indexes and rebuild them after many rows: a fraction of the time of maintaining them."""
        if rows < INDEX_REBUILD_ROWS or rows < self.count(f"SELECT count(*) FROM {table}"):  # noqa: S608 - a constant
            yield
            return
        made = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = :table AND sql IS NOT NULL"
        aside = [
            (kind, name, sql)
            for kind, name, sql in list(self.rows(made, {"table": table}))
            if kind == "index" or (kind == "trigger" and name == f"{table}_trigrams_insert")
        ]
        for kind, name, _ in aside:
            self.execute(f"DROP {kind} {name}")
        yield
        for kind, _, sql in aside:
            if kind == "trigger":
                self.execute(f"INSERT INTO {table}_trigrams ({table}_trigrams) VALUES ('rebuild')")  # noqa: S608 - a constant
            self.execute(sql)

    def analyze_temporary(self, *tables: str) -> None:
        pass  # it takes the indexes there are

    def vacuum(self, *tables: str) -> None:
        pass  # its statistics from a sample are worse than none: statements name their index where it matters

    def commit(self) -> None:
        self.execute("COMMIT")

    def roll_back(self) -> None:
        with translate_errors():
            roll_back(self._connection)

    def close(self) -> None:
        self._connection.close()


class PostgresBulk(Bulk):
    """Bulk work on PostgreSQL: one transaction from first to last statement, as a pooler in between requires."""

    distinct_operator = "IS DISTINCT FROM"
    inserts_sorted = True

    def __init__(self, connection: "psycopg.Connection[Row]", replica_url: str = "") -> None:
        from carrel.storage.postgres import to_psycopg

        self._to_psycopg = to_psycopg
        self._connection = connection
        self._replica_url = replica_url
        self._has_written = False
        self._names = count()
        connection.prepare_threshold = None

    def begin_staging(self) -> None:
        for setting, value in POSTGRES_SETTINGS.items():
            self.execute(f"SET LOCAL {setting} = {value}")

    def begin_writing(self, *, really: bool = True) -> None:
        if really:
            self.execute(f"SELECT pg_advisory_xact_lock({CONTENT_LOCK_KEY})")
            self.execute(NOTIFY, {"channel": CHANNEL, "notice": payload(CONTENT_CHANGE, "")})
            self._has_written = True

    def begin_reading(self) -> None:
        self.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> int:
        with self._errors():
            return self._connection.execute(self._to_psycopg(sql), parameters).rowcount

    def rows(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> Iterator[Row]:
        with self._errors(), self._connection.cursor(f"bulk_{next(self._names)}") as cursor:
            cursor.execute(self._to_psycopg(sql), parameters)
            while batch := cursor.fetchmany(FETCH_BATCH_ROWS):
                yield from batch

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        with self._errors(), self._connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def create_temporary(self, table: str, columns: Mapping[str, str]) -> None:
        collated = {"text": 'text COLLATE "C"'}
        listed = ", ".join(f"{name} {collated.get(kind, kind)}" for name, kind in columns.items())
        self.execute(f"CREATE TEMP TABLE {table} (n bigint PRIMARY KEY, {listed}) ON COMMIT DROP")

    def assign_keys(self, table: str, staged: str, where: str) -> None:
        self.execute(
            f"UPDATE {staged} SET pk = nextval(pg_get_serial_sequence(:table, 'pk')) WHERE {where}",  # noqa: S608 - constants
            {"table": table},
        )

    def bulk_insert(self, table: str, rows: int) -> AbstractContextManager[None]:
        return nullcontext()  # other connections need the indexes meanwhile

    def analyze_temporary(self, *tables: str) -> None:
        self.execute(f"ANALYZE {', '.join(tables)}")

    def vacuum(self, *tables: str) -> None:
        """Run VACUUM ANALYZE: it also marks pages all-visible, without which no index-only scan happens."""
        self._connection.autocommit = True
        try:
            self.execute(f"VACUUM (ANALYZE) {', '.join(tables)}")
        finally:
            self._connection.autocommit = False

    def commit(self) -> None:
        with self._errors():
            self._connection.commit()
            if self._has_written and self._replica_url:
                from carrel.storage.postgres import CONNECT_OPTIONS
                from carrel.storage.replica import wait_for_replica

                wait_for_replica(self._connection, self._replica_url, **CONNECT_OPTIONS)

    def roll_back(self) -> None:
        if not self._connection.closed:
            with self._errors():
                self._connection.rollback()

    def close(self) -> None:
        self._connection.close()

    def _errors(self) -> AbstractContextManager[None]:
        return _postgres_errors(self._connection)


@contextmanager
def _postgres_errors(connection: "psycopg.Connection[Row]") -> Generator[None]:
    import psycopg

    try:
        yield
    except (psycopg.Error, UnicodeError) as error:
        kind = StoreUnavailable if connection.closed else StoreError
        raise kind(f"PostgreSQL: {error}") from error
