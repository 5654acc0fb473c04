"""The connection to Neo4j, and the lock by which writers wait for each other.

Every write transaction first increments a counter on one `CarrelNotes` node. Neo4j locks that node until the
transaction ends, which serializes the writers of all processes, and the counter's value is the change's revision:
readers see by one look at it whether anything has changed.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString, NamedTuple, TypeVar

from carrel.errors import MissingExtra
from carrel.notes.note_store import NotesError

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncSession, AsyncTransaction

T = TypeVar("T")
Row = dict[str, Any]

CONNECT_TIMEOUT_SECONDS = 5.0
"""Seconds to connect, and to wait for a connection."""
TRANSACTION_TIMEOUT_SECONDS = 60.0
"""Seconds after which the server ends a transaction."""
POOL_SIZE = 20
READ_ATTEMPTS = 2
"""Tries of a read whose connection is lost."""
WRITE_ATTEMPTS = 12
"""Tries of a write that others get in the way of."""

log = logging.getLogger("carrel.notes")


class PermissionDenied(NotesError):
    """The database user lacks a permission."""


class AlreadyExists(NotesError):
    """A uniqueness constraint refuses a second node."""


class SchemaRefused(NotesError):
    """The database has a constraint or an index that conflicts."""


class Transaction:
    """A transaction; its statements take effect together or not at all."""

    def __init__(self, transaction: "AsyncTransaction") -> None:
        self._transaction = transaction

    async def run(self, statement: LiteralString, **parameters: Any) -> list[Row]:
        """Run a statement and return its rows."""
        result = await self._transaction.run(statement, parameters)
        return [record.data() async for record in result]


class Connection:
    """A lazy connection to one database. Raises `MissingExtra` at once, and `NotesError` later."""

    def __init__(self, url: str, *, user: str = "", password: str = "", database: str = "") -> None:
        if find_spec("neo4j") is None:
            raise MissingExtra("neo4j", "notes in Neo4j")
        self._url = url
        self._user = user
        self._password = password
        self._database = database or None
        self._driver: AsyncDriver | None = None
        self._write_lock = asyncio.Lock()

    async def close(self) -> None:
        """Close the driver."""
        if self._driver is not None:
            await self._driver.close()

    async def read(self, statement: LiteralString, **parameters: Any) -> list[Row]:
        """Run one statement, in one round trip."""

        async def work(session: "AsyncSession") -> list[Row]:
            from neo4j import Query

            result = await session.run(Query(statement, timeout=TRANSACTION_TIMEOUT_SECONDS), parameters)
            return [record.data() async for record in result]

        return await self._with_retries(work, "READ", READ_ATTEMPTS)

    async def define(self, statement: LiteralString) -> None:
        """Run a schema statement, which needs a transaction of its own."""

        async def work(session: "AsyncSession") -> None:
            await (await session.run(statement)).consume()

        await self._with_retries(work, "WRITE", WRITE_ATTEMPTS)

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run a transaction, again from its beginning if another process interferes."""

        async def attempt(session: "AsyncSession") -> T:
            async with await session.begin_transaction(timeout=TRANSACTION_TIMEOUT_SECONDS) as transaction:
                return await work(Transaction(transaction))

        async with self._write_lock:
            return await self._with_retries(attempt, "WRITE", WRITE_ATTEMPTS)

    async def _with_retries(
        self, work: "Callable[[AsyncSession], Awaitable[T]]", access: Literal["READ", "WRITE"], tries: int
    ) -> T:
        from neo4j.exceptions import ConstraintError, DriverError, Neo4jError, ServiceUnavailable

        for attempt in range(tries):
            try:
                async with self._session(access) as session:
                    return await work(session)
            except (DriverError, Neo4jError) as error:
                lost = isinstance(error, ServiceUnavailable)
                again = error.is_retryable() or isinstance(error, ConstraintError)  # who comes second sees the first
                if not again or attempt + 1 >= (READ_ATTEMPTS if lost else tries):
                    raise self._translated(error) from error
                await asyncio.sleep(random.uniform(0.005, 0.02) * 2 ** min(attempt, 5))  # noqa: S311 - so that two do not meet again
            except OSError as error:
                raise self._translated(error) from error
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def _session(self, access: Literal["READ", "WRITE"]) -> "AsyncGenerator[AsyncSession]":
        driver = self._open()
        async with driver.session(  # pyright: ignore[reportUnknownMemberType] - the driver leaves its options untyped
            database=self._database,
            default_access_mode=access,
            bookmark_manager=driver.execute_query_bookmark_manager,
        ) as session:
            yield session

    def _open(self) -> "AsyncDriver":
        if self._driver is None:
            from neo4j import AsyncGraphDatabase

            logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)  # an empty database has no labels yet
            self._driver = AsyncGraphDatabase.driver(  # pyright: ignore[reportUnknownMemberType] - the driver leaves its options untyped
                self._url,
                auth=(self._user, self._password) if self._password else None,
                connection_timeout=CONNECT_TIMEOUT_SECONDS,
                connection_acquisition_timeout=CONNECT_TIMEOUT_SECONDS * 2,
                max_connection_pool_size=POOL_SIZE,
                liveness_check_timeout=CONNECT_TIMEOUT_SECONDS * 6,
                user_agent="carrel",
            )
        return self._driver

    def _translated(self, error: Exception) -> NotesError:
        """Translate a driver error into one that says what to do."""
        from neo4j import exceptions

        place = f"Neo4j at {self._url.partition('://')[2].rpartition('@')[2]}"
        code: str = getattr(error, "code", None) or ""
        if isinstance(error, exceptions.AuthError) and "Security.Forbidden" not in code:
            return NotesError(
                f"{place} does not let the user {self._user!r} in; see to notes.neo4j_user, "
                "and to the password in the variable that notes.neo4j_password_env names"
            )
        if isinstance(error, exceptions.ConstraintError):
            return AlreadyExists(f"{place} has a note of that id already")
        if code.startswith("Neo.ClientError.Schema."):
            return SchemaRefused(f"{place} refused it ({code})")
        if code.endswith(("Security.Forbidden", "Statement.AccessMode", "ForbiddenOnReadOnlyDatabase")):
            return PermissionDenied(
                f"{place} does not let the user {self._user!r} do that; grant the role that it takes"
            )
        if code.endswith("DatabaseNotFound"):
            return NotesError(f"{place} has no database {self._database or ''!r}; set notes.neo4j_database")
        if code.endswith(("TransactionTimedOut", "TransactionTimedOutClientConfiguration")):
            return NotesError(
                f"{place} took longer than {TRANSACTION_TIMEOUT_SECONDS:g} seconds; try again when it has less to do"
            )
        if isinstance(error, exceptions.ServiceUnavailable | exceptions.SessionExpired | OSError):
            return NotesError(f"{place} cannot be reached; start it, or see to notes.neo4j_url")
        if isinstance(error, exceptions.TransientError):
            return NotesError(f"{place} has too much to do at once; nothing was changed, try again")
        log.warning("Neo4j failed", exc_info=error)
        return NotesError(f"{place} failed ({code or type(error).__name__}); its log and ours say why")


# --- the write lock
#
# One node holds what whoever changes the notes has to see of the others:
#
# revision      the number of the last change
# notes     how many notes there are
# listed    the revision at which a note last came, went, or got another id
# gone      the ids of notes that went, the last ones first, each behind its revision and a blank

ACQUIRE_WRITE_LOCK: Final = """
MERGE (m:CarrelNotes {name: 'notes'})
SET m.turn = coalesce(m.turn, 0) + 1
RETURN m.turn AS revision
"""
MAX_REMOVED_IDS = 100
RECORD_COUNT: Final = """
MATCH (n:Node) WITH count(n) AS total
MATCH (m:CarrelNotes {name: 'notes'})
WITH m, total,
     CASE WHEN size($gone) > 0 OR m.notes IS NULL OR m.notes <> total THEN m.turn ELSE m.listed END AS listed
SET m.notes = total, m.listed = listed, m.gone = ($gone + coalesce(m.gone, []))[0..$most]
"""
REMOVED_IDS: Final = "MATCH (m:CarrelNotes {name: 'notes'}) RETURN m.gone AS gone"
READ_STATE: Final = """
MATCH (n:Node) WITH count(n) AS total
OPTIONAL MATCH (m:CarrelNotes {name: 'notes'})
RETURN total, m.turn AS revision, m.listed AS listed, m.notes AS counted
"""


class ChangeState(NamedTuple):
    """The counters of the `CarrelNotes` node."""

    revision: int
    listed: int
    has_external_changes: bool
    """Whether notes came or went without our knowledge."""


async def acquire_write_lock(transaction: Transaction) -> int:
    """Block all other writers until this transaction ends; return the change's revision."""
    return (await transaction.run(ACQUIRE_WRITE_LOCK))[0]["revision"]


async def record_count(transaction: Transaction, revision: int, gone: Sequence[str] = ()) -> None:
    """Record how many notes there are, last in a transaction; `gone` are removed IDs."""
    await transaction.run(
        RECORD_COUNT, gone=[f"{revision} {note_id}" for note_id in gone[:MAX_REMOVED_IDS]], most=MAX_REMOVED_IDS
    )


async def removed_between(connection: Connection, after: int, until: int) -> list[str]:
    """Return the IDs removed after one revision and up to another, of the last `MAX_REMOVED_IDS`."""
    rows = await connection.read(REMOVED_IDS)
    entries = [entry.partition(" ") for row in rows for entry in row["gone"] or ()]
    return [note_id for when, _, note_id in entries if after < int(when) <= until]


async def read_state(connection: Connection) -> ChangeState:
    """Read the counters, and whether other programs have added or removed notes."""
    row = (await connection.read(READ_STATE))[0]
    return ChangeState(row["revision"] or 0, row["listed"] or 0, row["total"] != (row["counted"] or 0))
