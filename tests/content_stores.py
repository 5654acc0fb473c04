"""A store for content on each engine, as fixtures."""

from pathlib import Path

import pytest

from tests.bundles import Store
from tests.databases import prepare_sqlite


@pytest.fixture
def store(ready_url: str, tmp_path: Path) -> Store:
    return Store(ready_url, tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> Store:
    """For what is decided before a database is asked."""
    prepare_sqlite(tmp_path / "carrel.db")
    return Store("sqlite:///carrel.db", tmp_path)


@pytest.fixture
def empty_sqlite(tmp_path: Path) -> Store:
    """Where there is no database yet."""
    return Store("sqlite:///carrel.db", tmp_path)
