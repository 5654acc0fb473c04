"""The schema's revisions, oldest first: what a server compares its database with before it serves.

Kept apart from the migrations so that a server that has nothing to migrate never imports Alembic. A test holds the two
together.
"""

REVISIONS = ("0001",)
HEAD = REVISIONS[-1]
