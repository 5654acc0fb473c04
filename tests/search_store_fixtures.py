"""An index of each kind as fixtures, empty or filled."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from carrel.search.index_store import Store
from tests.search_stores import (
    BOOK,
    ROOT,
    Place,
    new_schema,
    others,
)

ROUNDING = 0.002
"""Between scores of exact vectors and of those at half precision, rounded to four digits."""


@pytest.fixture(params=["local", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "local":
        yield Place(str(tmp_path / "index"))
    else:
        for text in new_schema(request.getfixturevalue("postgres_url"), request.getfixturevalue("worker_id")):
            yield Place(text)


@pytest.fixture
def open_store(place: Place) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(place.open())
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()


@pytest.fixture
def filled(store: Store) -> Store:
    """With enough in it that a word says something."""
    store.put(BOOK, others())
    return store


def start(place: Place, work: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.search_stores", place.text, work, *map(str, arguments)]
    return subprocess.Popen(words, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
