"""Checks of a PostgreSQL database, in one read-only transaction, and of its replica."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, LiteralString

from carrel.doctor.checks import CheckContext, Finding, megabytes, ok, one_line, problem, warning
from carrel.doctor.sqlite_checks import migrations
from carrel.errors import CarrelError, MissingExtra, SettingsError
from carrel.storage.database import PostgresLocation
from carrel.storage.schema_version import POSTGRES_REVISION

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

MIN_SERVER_VERSION = 140_000
CLOCK_SKEW_WARNING_SECONDS = 2.0
MAX_CLOCK_SKEW_SECONDS = 60.0
MAX_REPLICA_LAG_SECONDS = 60.0
CONNECTIONS_OUTSIDE_POOL = 6
"""Connections of a process beside its pool: four for search, one for its background work, one for notifications."""


def database(context: CheckContext, location: PostgresLocation) -> Iterator[Finding]:
    try:
        connection = open_read_only(location.url)
    except MissingExtra as error:
        yield problem("database", str(error), "pip install 'carrel[postgres]'")
    except SettingsError as error:
        yield problem("database", str(error), "set database.url to postgresql://USER@HOST/NAME")
    except CarrelError as error:
        cure = "start PostgreSQL, or correct database.url (host, port, user, password, name)"
        yield problem("database", f"{location} cannot be reached: {one_line(error)}", cure)
    else:
        with connection:
            yield from _engine(connection, location)
            yield from _revision(connection)
            yield from _extensions(connection)
            yield from _connections(connection, context)
            yield _clock(connection)


def replica(context: CheckContext) -> Iterator[Finding]:
    """Check the other addresses of the same database, if any are set."""
    for key in ("replica_url", "direct_url"):
        url: str = context.setting("database", key) or ""
        if not url:
            continue
        try:
            with open_read_only(url) as connection:
                is_replica = _scalar(connection, "SELECT pg_is_in_recovery()")
                lag = _scalar(connection, "SELECT extract(epoch FROM now() - pg_last_xact_replay_timestamp())")
        except CarrelError as error:
            yield problem(key, f"cannot be reached: {one_line(error)}", f"correct or remove database.{key}")
            continue
        if key == "replica_url" and is_replica and lag is not None and lag > MAX_REPLICA_LAG_SECONDS:
            seen = f"the replica last replayed a change {lag:.0f} s ago, so reads may be that stale"
            yield warning(key, seen, "see pg_stat_replication on the primary")
        elif key == "direct_url" and is_replica:
            yield problem(key, "is a replica and cannot be written", "set database.direct_url to the primary")
        else:
            yield ok(key, "reachable" + (", a replica" if is_replica else ", a primary"))


def open_read_only(url: str) -> "Connection":
    """Open a read-only connection with a statement timeout."""
    from carrel.storage.postgres import connect

    connection = connect(url)
    connection.read_only = True
    connection.execute(
        "SET LOCAL statement_timeout = 3000"
    )  # LOCAL: a pooler lends the connection to others afterwards
    return connection


def _scalar(connection: "Connection", query: LiteralString) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row else None


def _engine(connection: "Connection", location: PostgresLocation) -> Iterator[Finding]:
    number = connection.info.server_version
    version = _scalar(connection, "SHOW server_version")
    size = megabytes(_scalar(connection, "SELECT pg_database_size(current_database())"))
    seen = f"{location}, version {version}, {size}"
    if number < MIN_SERVER_VERSION:
        yield problem("database", seen, "upgrade PostgreSQL to 14 or later")
    elif _scalar(connection, "SELECT pg_is_in_recovery()"):
        yield problem("database", f"{seen}: it is a replica and cannot be written", "set database.url to the primary")
    elif _scalar(
        connection,
        "SELECT setting FROM pg_db_role_setting, unnest(setconfig) setting "
        "WHERE setting = 'default_transaction_read_only=on' AND setrole IN (0, current_user::regrole) "
        "AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))",
    ):
        yield problem(
            "database",
            f"{seen}: this user's transactions are read-only",
            "ALTER ROLE ... or ALTER DATABASE ... RESET default_transaction_read_only",
        )
    elif not _scalar(
        connection,
        "SELECT coalesce(bool_and(has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE')), true) "
        "FROM pg_class c WHERE c.relname IN ('task', 'project', 'discovery') AND c.relkind = 'r' "
        "AND pg_table_is_visible(c.oid)",
    ):
        yield problem(
            "database",
            f"{seen}: this user is not allowed to write to its tables",
            "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO the user in database.url",
        )
    else:
        yield ok("database", f"{seen}, writable")


def _revision(connection: "Connection") -> Iterator[Finding]:
    has_any = _scalar(connection, "SELECT to_regclass('alembic_version') IS NOT NULL")
    row = connection.execute(POSTGRES_REVISION).fetchone() if has_any else None
    revision, mark = row or (None, None)
    yield migrations(revision, mark, upgrades_itself=False)
    may_create = _scalar(connection, "SELECT has_schema_privilege(current_schema(), 'CREATE')")
    if revision is None and not may_create:
        cure = "GRANT CREATE ON SCHEMA public TO the user in database.url, then carrel db upgrade"
        yield problem("migrations", "this user is not allowed to create tables", cure)


def _extensions(connection: "Connection") -> Iterator[Finding]:
    from carrel.search.postgres.index_schema import EXTENSION, MIN_PGVECTOR_VERSION

    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT name, installed_version, default_version FROM pg_available_extensions WHERE name IN ('pg_trgm', %s)",
        (EXTENSION,),
    ).fetchall()
    found: dict[str, tuple[str | None, str]] = {name: (installed, offered) for name, installed, offered in rows}
    if "pg_trgm" not in found:
        yield problem(
            "extensions",
            "pg_trgm is not available on this server: carrel db upgrade fails",
            "install the package postgresql-contrib on the database server",
        )
    installed, offered = found.get(EXTENSION, (None, ""))
    if EXTENSION not in found:
        yield warning(
            "extensions",
            "pgvector is not available on this server: search is by words only",
            "install pgvector 0.8 or later on the database server, then CREATE EXTENSION vector",
        )
    elif installed is None:
        if _scalar(connection, "SELECT to_regnamespace('carrel_search_1') IS NOT NULL"):
            yield warning(
                "extensions",
                "pgvector is available but not installed in this database: search is by words only",
                "CREATE EXTENSION vector, as an administrator, in this database; then restart Carrel",
            )
        else:
            yield ok("extensions", f"pgvector {offered} is available; the first search installs it in the database")
    elif tuple(int(part) for part in installed.split(".")[:2]) < MIN_PGVECTOR_VERSION:
        yield warning(
            "extensions",
            f"pgvector {installed} is too old: search is by words only",
            "install pgvector 0.8 or later, then ALTER EXTENSION vector UPDATE",
        )
    elif "pg_trgm" in found:
        yield ok("extensions", f"pgvector {installed}, pg_trgm {found['pg_trgm'][0] or found['pg_trgm'][1]}")


def _connections(connection: "Connection", context: CheckContext) -> Iterator[Finding]:
    """Compare the connections that the workers may open with what the server allows."""
    settings = context.workspace.settings
    limit = int(_scalar(connection, "SHOW max_connections")) - int(
        _scalar(connection, "SHOW superuser_reserved_connections")
    )
    needed = settings.server.workers * (settings.database.pool_size + CONNECTIONS_OUTSIDE_POOL)
    used = _scalar(connection, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
    seen = f"{used} of {limit} in use; this server's {settings.server.workers} workers may open {needed}"
    if needed > limit:
        yield warning(
            "connections",
            seen,
            "lower database.pool_size or server.workers, raise max_connections, or use PgBouncer",
        )
    else:
        yield ok("connections", seen)


def _clock(connection: "Connection") -> Finding:
    """Compare the database's clock with the midpoint of the round trip that reads it."""
    before = time.time()
    database_time = float(_scalar(connection, "SELECT extract(epoch FROM clock_timestamp())"))
    after = time.time()
    skew = database_time - (before + after) / 2
    uncertain = (after - before) / 2
    seen = f"the database's clock is {abs(skew):.3f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) - uncertain > MAX_CLOCK_SKEW_SECONDS:
        return problem("clock", seen, "run timedatectl set-ntp true on both machines")
    if abs(skew) - uncertain > CLOCK_SKEW_WARNING_SECONDS:
        return warning("clock", seen, "run timedatectl set-ntp true on both machines")
    return ok("clock", seen)
