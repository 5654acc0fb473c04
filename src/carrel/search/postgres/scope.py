"""The collection and the filters of a document as numbers, which one index holds beside the words."""

import json
from collections.abc import Mapping
from hashlib import blake2b

from psycopg import sql

from carrel.search.store import Filters


def scope_of(collection: int, filters: Mapping[str, str]) -> list[int]:
    return [collection, *sorted(_number(key, value) for key, value in filters.items())]


def within(collection: int, filters: Filters) -> sql.Composed:
    """The condition that a row's scope fits."""
    conditions = [sql.SQL("scope @> {}::bigint[]").format([collection])]
    for key, values in filters.items():
        conditions.append(sql.SQL("scope && {}::bigint[]").format([_number(key, value) for value in values]))
    return sql.SQL(" AND ").join(conditions)


def _number(key: str, value: str) -> int:
    """Below 0, where no collection's number is."""
    text = json.dumps([key, value])
    return -1 - (int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1)
