"""A PostgreSQL database, looked at in one read-only transaction."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, LiteralString

from carrel.doctor.checks import Finding, Subject, megabytes, ok, one_line, problem, warning
from carrel.doctor.sqlite_checks import migrations
from carrel.errors import CarrelError, MissingExtra, SettingsError
from carrel.storage.database import PostgresLocation
from carrel.storage.schema_version import POSTGRES_REVISION

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

MIN_PGVECTOR_VERSION = 140_000
SKEW_SECONDS = 2.0
BAD_SKEW_SECONDS = 60.0
LAG_SECONDS = 60.0
OWN_CONNECTIONS = 6
"""That a process may have beside its pool: search has four, its background and the notices one each."""


def database(subject: Subject, location: PostgresLocation) -> Iterator[Finding]:
    try:
        connection = connected(location.url)
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
            yield from _room(connection, subject)
            yield _clock(connection)


def replica(subject: Subject) -> Iterator[Finding]:
    """The other ways to the same database, where there are any."""
    for key in ("replica_url", "direct_url"):
        url: str = subject.setting("database", key) or ""
        if not url:
            continue
        try:
            with connected(url) as connection:
                is_replica = _one(connection, "SELECT pg_is_in_recovery()")
                lag = _one(connection, "SELECT extract(epoch FROM now() - pg_last_xact_replay_timestamp())")
        except CarrelError as error:
            yield problem(key, f"cannot be reached: {one_line(error)}", f"correct database.{key}, or leave it out")
            continue
        if key == "replica_url" and is_replica and lag is not None and lag > LAG_SECONDS:
            seen = f"the replica's last change is {lag:.0f} s old: reads may be behind by that"
            yield warning(key, seen, "see pg_stat_replication on the primary")
        elif key == "direct_url" and is_replica:
            yield problem(key, "is a replica, which takes no writes", "set database.direct_url to the primary")
        else:
            yield ok(key, "answers" + (", a replica" if is_replica else ", a primary"))


def connected(url: str) -> "Connection":
    """Nothing can be written through it, and nothing takes long."""
    from carrel.storage.postgres import connect

    connection = connect(url)
    connection.read_only = True
    connection.execute("SET LOCAL statement_timeout = 3000")  # nothing is left on a connection that a pooler lends
    return connection


def _one(connection: "Connection", query: LiteralString) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row else None


def _engine(connection: "Connection", location: PostgresLocation) -> Iterator[Finding]:
    number = connection.info.server_version
    version = _one(connection, "SHOW server_version")
    size = megabytes(_one(connection, "SELECT pg_database_size(current_database())"))
    seen = f"{location}, version {version}, {size}"
    if number < MIN_PGVECTOR_VERSION:
        yield problem("database", seen, "upgrade PostgreSQL to 14 or later")
    elif _one(connection, "SELECT pg_is_in_recovery()"):
        yield problem("database", f"{seen}: a replica, which takes no writes", "set database.url to the primary")
    elif _one(
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
    elif not _one(
        connection,
        "SELECT coalesce(bool_and(has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE')), true) "
        "FROM pg_class c WHERE c.relname IN ('task', 'project', 'discovery') AND c.relkind = 'r' "
        "AND pg_table_is_visible(c.oid)",
    ):
        yield problem(
            "database",
            f"{seen}: this user may not write its tables",
            "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO the user in database.url",
        )
    else:
        yield ok("database", f"{seen}, can be written")


def _revision(connection: "Connection") -> Iterator[Finding]:
    has_any = _one(connection, "SELECT to_regclass('alembic_version') IS NOT NULL")
    row = connection.execute(POSTGRES_REVISION).fetchone() if has_any else None
    revision, mark = row or (None, None)
    yield migrations(revision, mark, upgrades_itself=False)
    may_create = _one(connection, "SELECT has_schema_privilege(current_schema(), 'CREATE')")
    if revision is None and not may_create:
        cure = "GRANT CREATE ON SCHEMA public TO the user in database.url, then carrel db upgrade"
        yield problem("migrations", "this user may not make tables", cure)


def _extensions(connection: "Connection") -> Iterator[Finding]:
    from carrel.search.postgres.index_schema import EXTENSION
    from carrel.search.postgres.index_schema import MIN_PGVECTOR_VERSION as OLDEST_VECTOR

    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT name, installed_version, default_version FROM pg_available_extensions WHERE name IN ('pg_trgm', %s)",
        (EXTENSION,),
    ).fetchall()
    found: dict[str, tuple[str | None, str]] = {name: (installed, offered) for name, installed, offered in rows}
    if "pg_trgm" not in found:
        yield problem(
            "extensions",
            "pg_trgm is not to be had on this server: carrel db upgrade fails",
            "install the package postgresql-contrib on the database server",
        )
    installed, offered = found.get(EXTENSION, (None, ""))
    if EXTENSION not in found:
        yield warning(
            "extensions",
            "pgvector is not to be had on this server: search compares words only",
            "install pgvector 0.8 or later on the database server, then CREATE EXTENSION vector",
        )
    elif installed is None:
        if _one(connection, "SELECT to_regnamespace('carrel_search_1') IS NOT NULL"):
            yield warning(
                "extensions",
                "pgvector is there but not in this database: search compares words only",
                "CREATE EXTENSION vector, as an administrator, in this database; then restart Carrel",
            )
        else:
            yield ok("extensions", f"pgvector {offered} can be had; the first search puts it into the database")
    elif tuple(int(part) for part in installed.split(".")[:2]) < OLDEST_VECTOR:
        yield warning(
            "extensions",
            f"pgvector is {installed}: search compares words only",
            "install pgvector 0.8 or later, then ALTER EXTENSION vector UPDATE",
        )
    elif "pg_trgm" in found:
        yield ok("extensions", f"pgvector {installed}, pg_trgm {found['pg_trgm'][0] or found['pg_trgm'][1]}")


def _room(connection: "Connection", subject: Subject) -> Iterator[Finding]:
    """Disk space is not to be seen from here; connections are."""
    settings = subject.workspace.settings
    most = int(_one(connection, "SHOW max_connections")) - int(_one(connection, "SHOW superuser_reserved_connections"))
    wanted = settings.server.workers * (settings.database.pool_size + OWN_CONNECTIONS)
    used = _one(connection, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
    seen = f"{used} of {most} in use; this server's {settings.server.workers} workers may take {wanted}"
    if wanted > most:
        yield warning(
            "connections",
            seen,
            "lower database.pool_size or server.workers, raise max_connections, or put pgbouncer between",
        )
    else:
        yield ok("connections", seen)


def _clock(connection: "Connection") -> Finding:
    """The database's clock against the middle of the time that asking took."""
    before = time.time()
    theirs = float(_one(connection, "SELECT extract(epoch FROM clock_timestamp())"))
    after = time.time()
    skew = theirs - (before + after) / 2
    uncertain = (after - before) / 2
    seen = f"the database's is {abs(skew):.3f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) - uncertain > BAD_SKEW_SECONDS:
        return problem("clock", seen, "run timedatectl set-ntp true on both machines")
    if abs(skew) - uncertain > SKEW_SECONDS:
        return warning("clock", seen, "run timedatectl set-ntp true on both machines")
    return ok("clock", seen)
