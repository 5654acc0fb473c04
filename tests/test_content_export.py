"""Bundles on their way out: what is exported can be imported, and is then the same."""

import gzip
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from carrel.content.bundle.exporter import Format, export_content
from carrel.content.bundle.importer import import_content
from carrel.errors import StoreError, StoreUnavailable, UsageError
from carrel.storage.database import SqliteLocation
from tests.bundles import Store, block, entity, performance, project, relation, rows, small, total, uid
from tests.databases import prepare_postgres, prepare_sqlite, url_of

NewStore = Callable[[str], Store]


@pytest.fixture
def new_store(tmp_path: Path, postgres_server_url: str, worker_id: str) -> NewStore:
    """Makes empty databases, by engine."""
    count = iter(range(10))

    def make(engine: str) -> Store:
        if engine == "sqlite":
            return Store(url_of(prepare_sqlite(tmp_path / f"{next(count)}.db")), tmp_path)
        return Store(url_of(prepare_postgres(postgres_server_url, f"carrel_{worker_id}_{next(count)}")), tmp_path)

    return make


def odd() -> dict[str, list[dict[str, Any]]]:
    """The small bundle with all that is hard to keep the same."""
    bundle = small()
    bundle["projects"].append(project("empty"))
    bundle["projects"].append(
        project("zwei", name="Größe \u00a0 😀", description='tab\t "quoted" \\ \r\n\u2028 e\u0301')
    )
    bundle["entities"] += [
        {**entity("guide:same"), "project": "zwei"},
        entity("project:all", **ALL_FIELDS),
        entity("news:n\u0301", summary="", comparisonTargets=[]),
        *(entity(f"concept:{slug}") for slug in ("a-b", "aB", "ab", "a_b", "é", "z", "😀")),
    ]
    bundle["relations"] += [
        relation(f"concept:{a}", "CONCEPT_RELATES_TO_CONCEPT", f"concept:{a}") for a in ("ab", "😀")
    ]
    bundle["videos"] += [{"project": "reef", "url": "u", "z": 0.1, "a": [1e300, -0.0, 10**15], "é": {"": None}}]
    bundle["searchPerformance"] += [
        performance("", ctr=1 / 3, avgPosition=1e-9, capturedAt="0001-01-01"),
        performance("q", pageUrl="", impressions=2**53, clicks=0, dateStart="2025-12-31T23:59:59.999Z"),
    ]
    bundle["quotableBlocks"] += [block(claimType="howto_step", text="Two\nlines\t" * 13)]
    return bundle


ALL_FIELDS = {
    "summary": "S",
    "difficulty": "advanced",
    "conceptKind": "standard",
    "comparisonTargets": [uid(3)],
    "repoUrl": "https://r.example",
    "repoDefaultBranch": "main",
    "license": "MIT",
    "status": "archived",
    "canonicalUrl": "https://c.example/",
    "contentRef": "content/all.md",
    "publishedAt": "2020-02-29",
    "archivedAt": "2021-01-01T01:02:03.004Z",
    "lastVerifiedAt": "1969-12-31T23:59:59.999Z",
    "createdAt": "2019-01-01",
    "updatedAt": "2022-01-01",
}


@pytest.mark.rule("content.export.same", "content.export.deterministic")
@pytest.mark.parametrize("source", ["sqlite", "postgres"])
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_an_export_imported_elsewhere_gives_the_same_rows_and_the_same_export(
    tmp_path: Path, new_store: NewStore, source: str, target: str, form: Format
) -> None:
    first, second = new_store(source), new_store(target)
    first.load(odd())
    counts = export_content(first.location, tmp_path / "1", form=form)
    report = import_content(second.location, [tmp_path / "1"])
    assert {key: each.added for key, each in report.counts.items()} == counts
    assert rows(second.location) == rows(first.location)
    export_content(second.location, tmp_path / "2", form=form)
    assert (tmp_path / "2").read_bytes() == (tmp_path / "1").read_bytes()


@pytest.mark.rule("content.export.same")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_an_export_put_over_what_was_changed_since_brings_every_field_back(
    tmp_path: Path, new_store: NewStore, engine: str
) -> None:
    store = new_store(engine)
    store.load(small())
    before = rows(store.location)
    export_content(store.location, tmp_path / "1.json")
    store.load(
        {
            "projects": [{"id": uid(1), "slug": "other", "description": "changed"}],
            "entities": [{"id": uid(2), "title": "New", "license": "MIT", "publishedAt": "2026-01-01"}],
            "relations": [{"id": uid(8), "notes": "new"}],
            "searchPerformance": [{"id": uid(12), "entityId": uid(2)}],
            "quotableBlocks": [{"id": uid(13), "sourceCitation": "new"}],
        }
    )
    assert rows(store.location) != before
    assert total(import_content(store.location, [tmp_path / "1.json"])) == (0, 5, 8)
    assert rows(store.location) == before


@pytest.mark.rule("content.export.fields")
def test_every_field_of_an_entity_is_exported_as_it_was_given(tmp_path: Path) -> None:
    store = Store("sqlite:///carrel.db", tmp_path)
    store.load(odd())
    export_content(store.location, tmp_path / "1.json")
    exported = json.loads((tmp_path / "1.json").read_bytes())
    (found,) = [each for each in exported["entities"] if each["slug"] == "all"]
    times = ("publishedAt", "archivedAt", "lastVerifiedAt", "createdAt", "updatedAt")
    expected = {**entity("project:all", **ALL_FIELDS), "id": found["id"]}
    assert {name: value for name, value in found.items() if name not in times} == {
        name: value for name, value in expected.items() if name not in times
    }
    assert [found[name] for name in times] == [
        "2020-02-29T00:00:00.000Z",
        "2021-01-01T01:02:03.004Z",
        "1969-12-31T23:59:59.999Z",
        "2019-01-01T00:00:00.000Z",
        "2022-01-01T00:00:00.000Z",
    ]
    assert list(exported) == [
        "projects",
        "entities",
        "sources",
        "videos",
        "distributions",
        "relations",
        "searchPerformance",
        "quotableBlocks",
    ]


@pytest.mark.rule("content.export.project")
def test_one_project_can_be_exported_alone(tmp_path: Path) -> None:
    store = Store("sqlite:///carrel.db", tmp_path)
    store.load(odd())
    counts = export_content(store.location, tmp_path / "1.json", project="zwei")
    assert {key: count for key, count in counts.items() if count} == {"projects": 1, "entities": 1}
    other = Store("sqlite:///other.db", tmp_path)
    assert total(import_content(other.location, [tmp_path / "1.json"])) == (2, 0, 0)
    with pytest.raises(UsageError, match="there is no project none"):
        export_content(store.location, tmp_path / "2.json", project="none")
    assert not (tmp_path / "2.json").exists()


@pytest.mark.rule("content.export.packed")
def test_a_name_that_ends_in_gz_packs_the_export_the_same_each_time(tmp_path: Path) -> None:
    store = Store("sqlite:///carrel.db", tmp_path)
    store.load(small())
    for name in ("1.json.gz", "2.json.gz", "3.json"):
        export_content(store.location, tmp_path / name)
    assert (tmp_path / "1.json.gz").read_bytes() == (tmp_path / "2.json.gz").read_bytes()
    assert gzip.decompress((tmp_path / "1.json.gz").read_bytes()) == (tmp_path / "3.json").read_bytes()


@pytest.mark.rule("content.export.file")
def test_a_file_that_exists_is_replaced_only_when_told_so_and_whole(tmp_path: Path) -> None:
    store = Store("sqlite:///carrel.db", tmp_path)
    store.load(small())
    target = tmp_path / "1.json"
    target.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        export_content(store.location, target)
    assert target.read_text(encoding="utf-8") == "mine"

    def fail(_rows: int) -> None:
        raise StoreError("lost")

    store.load({"entities": [entity(f"guide:g{n}") for n in range(1000)]})
    with pytest.raises(StoreError, match="lost"):
        export_content(store.location, target, replace=True, progress=fail)
    assert target.read_text(encoding="utf-8") == "mine"
    export_content(store.location, target, replace=True)
    assert len(json.loads(target.read_bytes())["entities"]) == 1002
    assert sorted(path.name for path in tmp_path.glob("1.json*")) == ["1.json"]
    with pytest.raises(StoreError, match="cannot write"):
        export_content(store.location, tmp_path / "none" / "1.json")


@pytest.mark.rule("content.export.snapshot")
def test_an_export_does_not_see_what_is_written_while_it_runs(new_store: NewStore) -> None:
    for engine in ("sqlite", "postgres"):
        store = new_store(engine)
        store.load({"projects": [project()], "entities": [entity(f"guide:g{n}") for n in range(1500)]})
        seen = io.BytesIO()

        def write(_rows: int, store: Store = store) -> None:
            sql = "UPDATE entity SET status = 'archived'"
            if isinstance(store.location, SqliteLocation):
                with sqlite3.connect(store.location.path) as other:
                    other.execute(sql)
                other.close()
            else:
                with psycopg.connect(store.location.url) as other:
                    other.execute(sql)

        export_content(store.location, None, output=seen, progress=write)
        assert {each["status"] for each in json.loads(seen.getvalue())["entities"]} == {"draft"}


@pytest.mark.rule("content.export.nothing")
def test_there_is_nothing_to_export_where_no_database_is(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no database"):
        export_content(SqliteLocation(tmp_path / "none.db"), tmp_path / "1.json")
    assert list(tmp_path.iterdir()) == []
