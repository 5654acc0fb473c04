"""The schema's revisions, oldest first: what a server compares its database with before it serves.

Kept apart from the migrations so that a server that has nothing to migrate never imports Alembic. A test
holds the two together.
"""

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
HEAD = REVISIONS[-1]
SERVES_SINCE = "0010"
"""The oldest revision whose servers this schema serves: 0009 and 0010 drop tables that older ones read. Move it up with
each release to the revision of the release before, and further where a migration takes something away."""

POSTGRES_REVISION = "SELECT version_num, obj_description('alembic_version'::regclass, 'pg_class') FROM alembic_version"
"""The revision, and what `mark` has written beside it."""


def mark(revision: str) -> str:
    """What an upgrade writes into the database for the servers of older releases."""
    return f"revision {revision} serves {SERVES_SINCE} and newer"


def mismatch(revision: str | None, mark: str | None = None) -> str | None:
    """What keeps this program from serving a database at `revision`, and the cure; None when nothing does."""
    if revision == HEAD or (is_newer(revision) and _serves(revision, mark)):
        return None
    if revision is None:
        return "the database has no Carrel tables yet: run carrel db upgrade"
    if revision in REVISIONS:
        return f"the database is at revision {revision}, this Carrel needs {HEAD}: run carrel db upgrade"
    return (
        f"the database is at revision {revision}, which this Carrel does not know: a newer one made it; "
        "run pip install -U carrel"
    )


def is_newer(revision: str | None) -> bool:
    return revision is not None and revision not in REVISIONS


def _serves(revision: str | None, mark: str | None) -> bool:
    """Whether a newer release has marked its schema as one that this program can go on with."""
    match (mark or "").split():
        case ["revision", marked, "serves", oldest, *_]:
            return marked == revision and oldest in REVISIONS
        case _:
            return False
