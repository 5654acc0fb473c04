"""The servers of `note_servers` as fixtures, and a look at what they answer."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.content_servers import ok
from tests.note_servers import KINDS, NOTES, NoteServers
from tests.wire import Wire

WAIT_TIMEOUT_SECONDS = 15.0


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NoteServers]:
    servers = NoteServers(tmp_path_factory.mktemp("reading"), NOTES)
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NoteServers]:
    servers = NoteServers(tmp_path_factory.mktemp("writing"), {}, CARREL_EMBEDDINGS_PROVIDER="none")
    yield servers
    servers.close()


@pytest.fixture(params=KINDS, ids="-".join)
def wire(request: pytest.FixtureRequest, reading: NoteServers) -> Wire:
    """Over the vault that nobody changes, with search."""
    return reading.wire(*request.param)


@pytest.fixture(params=KINDS, ids="-".join)
def desk(request: pytest.FixtureRequest, writing: NoteServers) -> Wire:
    """Over the vault that every test has a folder of its own in."""
    return writing.wire(*request.param)


_folders = count(1)


@pytest.fixture
def folder(writing: NoteServers) -> Path:
    """This test's own; notes in it have names that no other test uses, if they begin with its name."""
    path = writing.vault / f"t{next(_folders)}"
    path.mkdir()
    return path


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [each["id"] for each in found]


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """Without what the watcher may have to say about other tests' notes."""
    return {name: each for name, each in found.items() if name != "_warnings"}


def becomes(desk: Wire, name: str, expected: Any, **arguments: Any) -> None:
    """Until a tool answers this: other servers have written, and this one is told soon after."""
    end = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while (found := ok(desk, name, **arguments)) != expected:
        assert time.monotonic() < end, (found, expected)
