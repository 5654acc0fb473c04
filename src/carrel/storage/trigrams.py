"""Finding a part of a text on SQLite: a full-text table of every three characters in a row."""

from collections.abc import Iterator, Sequence


def sqlite_trigrams(table: str, columns: Sequence[str]) -> Iterator[str]:
    """The statements that make `{table}_trigrams` over a table's columns, and the triggers that keep it in step.

    It tells which rows have all the trigrams of a needle, a quarter of the size of an index that also knew their
    places; whether a row has the needle itself is then seen in the row. The text stays in the table; rows to forget
    are named with the text that they were indexed with.
    """
    name, listed = f"{table}_trigrams", ", ".join(columns)
    old = ", ".join(f"old.{column}" for column in columns)
    new = ", ".join(f"new.{column}" for column in columns)
    forget = f"INSERT INTO {name} ({name}, rowid, {listed}) VALUES ('delete', old.pk, {old});"
    add = f"INSERT INTO {name} (rowid, {listed}) VALUES (new.pk, {new});"
    yield f"DROP TABLE IF EXISTS {name}"
    yield (
        f"CREATE VIRTUAL TABLE {name} USING fts5({listed}, content='{table}', content_rowid='pk', "
        "columnsize=0, detail=none, tokenize='trigram case_sensitive 1')"
    )
    yield f"CREATE TRIGGER {name}_insert AFTER INSERT ON {table} BEGIN {add} END"
    yield f"CREATE TRIGGER {name}_delete AFTER DELETE ON {table} BEGIN {forget} END"
    yield f"CREATE TRIGGER {name}_update AFTER UPDATE OF {listed} ON {table} BEGIN {forget} {add} END"
