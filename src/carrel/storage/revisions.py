"""The schema's revisions, oldest first: what a server compares its database with before it serves.

Kept apart from the migrations so that a server that has nothing to migrate never imports Alembic. A test
holds the two together.
"""

REVISIONS = ("0001", "0002", "0003")
HEAD = REVISIONS[-1]


def mismatch(revision: str | None) -> str | None:
    """What keeps this program from serving a database at `revision`, and the cure; None when nothing does."""
    if revision == HEAD:
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
