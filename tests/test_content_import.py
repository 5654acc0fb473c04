"""Bundles on their way in: their formats, and what makes an upsert."""

import gzip
import json
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest

from carrel.content.bundle import importer
from carrel.content.bundle.importer import import_content
from tests.bundles import Store, block, entity, performance, project, relation, small, total, uid, written
from tests.content_stores import empty_sqlite, store
from tests.databases import prepare_sqlite, url_of

__all__ = ["empty_sqlite", "store"]

USES = "GUIDE_USES_CONCEPT"


def lines(bundle: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"kind": kind, **record} for kind, records in bundle.items() for record in records]


# --- formats


@pytest.mark.rule("content.format.kinds")
def test_a_bundle_brings_in_every_kind_of_record(store: Store) -> None:
    report = store.load(small())
    assert {key: each.added for key, each in report.counts.items()} == {
        "projects": 1,
        "entities": 2,
        "sources": 1,
        "videos": 1,
        "distributions": 1,
        "relations": 4,
        "searchPerformance": 2,
        "quotableBlocks": 1,
    }
    assert store.query("SELECT id, slug, name, name_fold, description, created_at, updated_at FROM project") == [
        (uid(1), "reef", "Reef", "reef", "All about it", 1767323045678, 1767398400000)
    ]
    assert store.query(
        "SELECT entity_type, slug, title, title_key, head_fold, summary_fold, status, comparison_targets "
        "FROM entity ORDER BY entity_type DESC"
    ) == [
        (
            "guide",
            "intro",
            "Él Íntro",
            f"él íntro\x01{uid(2)}",
            "él íntro\x01intro",
            "a summary",
            "published",
            None,
        ),
        ("concept", "tide", "The tide", f"the tide\x01{uid(3)}", "the tide\x01tide", None, "draft", f'["{uid(2)}"]'),
    ]
    assert store.query("SELECT kind, url, title, details FROM item ORDER BY kind") == [
        ("distributionEvent", "https://b.example/", None, '{"channel":"letter"}'),
        ("sourceItem", "https://a.example/x", "Atlas", '{"year":1998}'),
        ("video", None, "The night shift", '{"tags":["a",{"b":null}]}'),
    ]
    assert store.query(
        "SELECT r.relation_type, f.slug, r.from_title_key = f.title_key, fi.kind, t.slug, "
        "r.to_title_key = t.title_key, ti.kind, r.notes FROM relation r "
        "LEFT JOIN entity f ON f.pk = r.from_pk LEFT JOIN item fi ON fi.pk = r.from_item "
        "LEFT JOIN entity t ON t.pk = r.to_pk LEFT JOIN item ti ON ti.pk = r.to_item ORDER BY r.id"
    ) == [
        (USES, "intro", True, None, "tide", True, None, "why"),
        ("GUIDE_REFERENCES_SOURCE", "intro", True, None, None, None, "sourceItem", None),
        ("VIDEO_EXPLAINS_GUIDE", None, None, "video", "intro", True, None, None),
        ("DISTRIBUTION_PROMOTES_CONCEPT", None, None, "distributionEvent", "tide", True, None, None),
    ]
    assert store.query(
        "SELECT query, query_fold, page_url_fold, clicks, ctr, date_start, date_end, entity_pk IS NULL "
        "FROM search_performance ORDER BY id"
    ) == [
        ("tide", "tide", "https://reef.example/tide", 10, 0.05, 1767225600000, 1769817600000, False),
        ("Ébbe", "ébbe", "https://reef.example/tide", 10, 0.05, 1767225600000, 1769817600000, True),
    ]
    assert store.query("SELECT topic_tag, topic_fold, length(text_digest), claim_type FROM quotable_block") == [
        ("Tides", "tides", 64, "definition")
    ]


@pytest.mark.rule("content.format.json", "content.format.lines", "content.format.gzip", "content.format.bom")
@pytest.mark.parametrize("is_lines", [False, True], ids=["json", "lines"])
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("start", [b"", BOM_UTF8, b"\r\n \n"], ids=["", "bom", "blank"])
def test_what_a_file_is_shows_in_its_content_not_its_name(
    tmp_path: Path, empty_sqlite: Store, is_lines: bool, is_packed: bool, start: bytes
) -> None:
    prepare_sqlite(tmp_path / "carrel.db")
    empty_sqlite.load(small())
    expected = _without_keys(empty_sqlite)
    other = Store(url_of(prepare_sqlite(tmp_path / "other.db")), tmp_path)
    content = written(tmp_path / "x", lines(small()) if is_lines else small()).read_bytes().replace(b"\n", b"\r\n")
    path = tmp_path / "strange.name"
    path.write_bytes(gzip.compress(start + content) if is_packed else start + content)
    import_content(other.location, [path])
    assert _without_keys(other) == expected


def _without_keys(store: Store) -> list[Any]:
    return [
        store.query(f"SELECT {columns} FROM {table} ORDER BY id")
        for table, columns in {
            "project": "id, slug, created_at",
            "entity": "id, title_key, created_at, updated_at",
            "item": "id, details",
            "relation": "id, relation_type, notes, created_at",
            "search_performance": "id, query, captured_at",
            "quotable_block": "id, text, verified_until",
        }.items()
    ]


@pytest.mark.rule("content.format.lines")
def test_a_line_may_call_its_kind_by_one_or_by_many(empty_sqlite: Store) -> None:
    report = empty_sqlite.load(
        [
            {"kind": "quotableBlock", **block()},
            {"kind": "entity", **entity("concept:tide")},
            {"kind": "entities", **entity("guide:intro")},
            {"kind": "project", **project()},
            {"kind": "source", "project": "reef", "title": "s"},
            {"kind": "video", "project": "reef", "title": "v"},
            {"kind": "distribution", "project": "reef", "title": "d"},
            {"kind": "relation", **relation("guide:intro", USES, "concept:tide")},
            {"kind": "searchPerformance", **performance()},
        ]
    )
    assert total(report) == (9, 0, 0)


@pytest.mark.rule("content.format.files")
def test_several_files_are_one_bundle_in_any_order(store: Store, tmp_path: Path) -> None:
    parts = [
        written(tmp_path / "1.jsonl", [{"kind": "relations", **relation("guide:intro", USES, "concept:tide")}]),
        written(tmp_path / "2.json", {"entities": [entity("guide:intro")]}),
        written(tmp_path / "3.json", {"entities": [entity("concept:tide")], "projects": [project()]}),
    ]
    assert total(import_content(store.location, parts)) == (4, 0, 0)


@pytest.mark.rule("content.format.streaming")
def test_a_document_is_read_in_pieces_wherever_they_are_cut(
    empty_sqlite: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = small()
    bundle["entities"] += [entity(f"concept:c{n}", summary="é" * n + '\\"{[' * (n % 7)) for n in range(200)]
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps(bundle, ensure_ascii=False, indent=1), encoding="utf-8")
    for chunk in (1, 7, 100):
        monkeypatch.setattr("carrel.content.bundle.bundle_reader.CHUNK_BYTES", chunk)
        store = Store(f"sqlite:///chunk{chunk}.db", tmp_path)
        assert import_content(store.location, [path]).counts["entities"].added == 202
        summaries = store.query("SELECT slug, summary FROM entity")
        assert dict(summaries) == {each["slug"]: each.get("summary") for each in bundle["entities"]}


# --- upsert


@pytest.mark.rule("content.upsert.twice", "content.tally.exact")
@pytest.mark.parametrize("with_ids", [True, False], ids=["ids", "no-ids"])
def test_the_same_import_again_changes_nothing_at_all(store: Store, with_ids: bool) -> None:
    bundle = small()
    if not with_ids:
        for record in (each for records in bundle.values() for each in records):
            for name in ("id", "createdAt", "updatedAt", "capturedAt"):
                record.pop(name, None)
        bundle["entities"][1]["comparisonTargets"] = []
    store.load(bundle)
    before = store.state()
    assert total(store.load(bundle)) == (0, 0, 13)
    assert store.state() == before


@pytest.mark.rule("content.upsert.given")
def test_what_is_given_replaces_and_what_is_left_out_stays(store: Store) -> None:
    store.load(small())
    report = store.load(
        {
            "entities": [entity("guide:intro", title="New", summary=None)],
            "projects": [{"slug": "reef", "name": "Grand Reef"}],
            "relations": [relation("guide:intro", USES, "concept:tide", notes=None)],
            "searchPerformance": [performance(clicks=11)],
            "sources": [{"project": "reef", "url": "https://a.example/x", "year": None, "pages": 3}],
            "quotableBlocks": [block(topicTag=None)],
        }
    )
    assert total(report) == (0, 6, 0)
    ((title, key, summary, fold, status, created),) = store.query(
        "SELECT title, title_key, summary, summary_fold, status, created_at FROM entity WHERE slug = 'intro'"
    )
    assert (title, key, summary, fold, status, created) == (
        "New",
        f"new\x01{uid(2)}",
        None,
        None,
        "published",
        1767323045678,
    )
    assert store.query("SELECT from_title_key FROM relation WHERE from_pk IS NOT NULL GROUP BY 1") == [(key,)]
    assert store.query("SELECT name, name_fold, description FROM project") == [
        ("Grand Reef", "grand reef", "All about it")
    ]
    assert store.query("SELECT notes FROM relation WHERE relation_type = 'GUIDE_USES_CONCEPT'") == [(None,)]
    assert store.query("SELECT clicks, impressions FROM search_performance WHERE query = 'tide'") == [(11, 200)]
    assert store.query("SELECT title, details FROM item WHERE kind = 'sourceItem'") == [("Atlas", '{"pages":3}')]
    assert store.query("SELECT topic_tag, topic_fold FROM quotable_block") == [(None, "")]


@pytest.mark.rule("content.upsert.times")
def test_the_time_of_a_change_is_now_unless_it_is_given(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.load({"projects": [project()], "entities": [entity("guide:intro"), entity("guide:other")]})
    monkeypatch.setattr(importer, "time_now", lambda: 9_999)
    given = "2020-01-01T00:00:00.001Z"
    store.load({"entities": [entity("guide:intro", title="New"), entity("guide:other", title="New", updatedAt=given)]})
    assert store.query("SELECT slug, updated_at FROM entity ORDER BY slug") == [
        ("intro", 9_999),
        ("other", 1577836800001),
    ]
    assert store.query("SELECT count(*) FROM entity WHERE created_at > 1700000000000") == [(2,)]
    report = store.load({"entities": [entity("guide:intro", title="New", updatedAt=given, createdAt="1999-01-01")]})
    assert total(report) == (0, 1, 0)
    assert store.query("SELECT created_at, updated_at FROM entity WHERE slug = 'intro'") == [
        (915148800000, 1577836800001)
    ]


@pytest.mark.rule("content.upsert.id_first")
def test_with_an_id_a_record_may_change_its_key_and_leave_out_everything_else(store: Store) -> None:
    store.load(small())
    report = store.load(
        {
            "entities": [{"id": uid(2).upper(), "slug": "start"}],
            "projects": [{"id": uid(1), "slug": "coral"}],
            "relations": [{"id": uid(7), "notes": "other"}],
            "searchPerformance": [{"id": uid(11), "query": "ebb", "entityId": None}],
            "quotableBlocks": [{"id": uid(13), "text": "short"}],
            "videos": [{"id": uid(5), "url": "https://v.example/"}],
        }
    )
    assert total(report) == (0, 6, 0)
    assert store.query("SELECT slug, title, head_fold FROM entity WHERE entity_type = 'guide'") == [
        ("start", "Él Íntro", "él íntro\x01start")
    ]
    assert store.query("SELECT slug, name FROM project") == [("coral", "Reef")]
    assert store.query("SELECT count(*) FROM relation WHERE notes = 'other'") == [(1,)]
    assert store.query("SELECT clicks, entity_pk FROM search_performance WHERE query = 'ebb'") == [(10, None)]
    assert store.query("SELECT text, claim_type FROM quotable_block") == [("short", "definition")]
    assert store.query("SELECT url, title FROM item WHERE kind = 'video'") == [
        ("https://v.example/", "The night shift")
    ]


@pytest.mark.rule("content.upsert.id_first")
def test_rows_can_change_places(store: Store) -> None:
    two = {
        "projects": [project(id=uid(1)), project("other", id=uid(2))],
        "entities": [entity("guide:a", id=uid(3)), entity("guide:b", id=uid(4)), entity("concept:c", id=uid(5))],
        "sources": [{"project": "reef", "id": uid(6), "url": "u:1"}, {"project": "reef", "id": uid(7), "url": "u:2"}],
        "relations": [
            relation("guide:a", USES, "concept:c", id=uid(8)),
            relation("guide:b", USES, "concept:c", id=uid(9)),
        ],
        "searchPerformance": [performance("x", id=uid(10)), performance("y", id=uid(11))],
    }
    store.load(two)
    store.load(
        {
            "projects": [{"id": uid(1), "slug": "other"}, {"id": uid(2), "slug": "reef"}],
            "entities": [{"id": uid(3), "slug": "b"}, {"id": uid(4), "slug": "a"}],
            "sources": [{"id": uid(6), "url": "u:2"}, {"id": uid(7), "url": "u:1"}],
            "relations": [
                {**relation("guide:a", USES, "concept:c", id=uid(8)), "project": "other"},
                {**relation("guide:b", USES, "concept:c", id=uid(9)), "project": "other"},
            ],
            "searchPerformance": [{"id": uid(10), "query": "y"}, {"id": uid(11), "query": "x"}],
        }
    )
    assert store.query("SELECT slug FROM project ORDER BY id") == [("other",), ("reef",)]
    assert store.query("SELECT slug FROM entity ORDER BY id") == [("b",), ("a",), ("c",)]
    assert store.query("SELECT url FROM item ORDER BY id") == [("u:2",), ("u:1",)]
    ends = "SELECT r.id, e.id FROM relation r JOIN entity e ON e.pk = r.from_pk ORDER BY r.id"
    assert store.query(ends) == [(uid(8), uid(4)), (uid(9), uid(3))]
    assert store.query("SELECT id, query FROM search_performance ORDER BY id") == [(uid(10), "y"), (uid(11), "x")]


@pytest.mark.rule("content.upsert.id_first")
def test_a_key_that_one_record_gives_up_can_be_another_new_ones(store: Store) -> None:
    store.load(small())
    report = store.load(
        {
            "projects": [{"id": uid(1), "slug": "old"}, project()],
            "entities": [
                {"id": uid(2), "slug": "start"},
                {**entity("guide:intro", title="Fresh"), "project": "old"},
            ],
            "videos": [{"id": uid(5), "title": "Renamed"}, {"project": "old", "title": "The night shift"}],
        }
    )
    assert total(report) == (3, 3, 0)
    assert store.query("SELECT slug, title FROM entity WHERE entity_type = 'guide' ORDER BY slug") == [
        ("intro", "Fresh"),
        ("start", "Él Íntro"),
    ]


@pytest.mark.rule("content.upsert.keys")
def test_records_without_an_id_are_found_by_their_natural_key(store: Store) -> None:
    item = {"project": "reef", "title": "Film"}
    bundle = {
        "projects": [project()],
        "entities": [entity("guide:tide"), entity("concept:tide")],
        "videos": [item, {**item, "url": "u:1"}],
        "sources": [item],
        "relations": [
            relation("guide:tide", USES, "concept:tide"),
            relation("guide:tide", "GUIDE_EXPLAINS_CONCEPT", "concept:tide"),
        ],
        "searchPerformance": [
            performance(),
            performance(dateEnd="2026-02-01"),
            performance(pageUrl=""),
            performance("TIDE"),
        ],
        "quotableBlocks": [block(), block(claimType="statistic"), block("guide:tide")],
    }
    store.load(bundle)
    before = store.state()
    assert total(store.load(bundle)) == (0, 0, 15)
    assert store.state() == before


@pytest.mark.rule("content.upsert.refs")
def test_an_end_is_named_by_id_with_or_without_its_type_or_by_type_and_key(store: Store) -> None:
    store.load(small())
    same = {
        "relations": [
            {"project": "reef", "relationType": USES, "fromEntityId": uid(2), "toEntityId": uid(3)},
            {
                "projectId": uid(1).upper(),
                "relationType": USES,
                "fromEntityType": "guide",
                "fromEntityId": uid(2).upper(),
                "to": "concept:tide",
            }
            | {"relationType": "GUIDE_EXPLAINS_CONCEPT"},
            {"project": "reef", "relationType": "VIDEO_EXPLAINS_GUIDE", "fromEntityId": uid(5), "to": "guide:intro"},
            relation("guide:intro", "GUIDE_REFERENCES_SOURCE", "sourceItem:Atlas"),
        ],
        "searchPerformance": [performance(entityId=uid(3))],
        "quotableBlocks": [{**block(), "entityId": uid(3)} | {"entity": "x"}],
    }
    del same["quotableBlocks"][0]["entity"]
    assert total(store.load(same)) == (1, 0, 5)


@pytest.mark.rule("content.upsert.refs")
def test_a_reference_finds_what_the_records_will_be_called_not_what_they_were(store: Store) -> None:
    store.load(small())
    renamed = {"entities": [{"id": uid(2), "slug": "start"}]}
    faults = store.faults({**renamed, "quotableBlocks": [block("guide:intro")]})
    assert faults == ["bundle.json: quotableBlocks[0]: entity: there is no guide:intro in the project reef"]
    assert total(store.load({**renamed, "quotableBlocks": [block("guide:start")]})) == (1, 1, 0)


# --- tallies


@pytest.mark.rule("content.tally.exact")
def test_tallies_are_what_counting_gives_after_every_import(store: Store) -> None:
    def check() -> None:
        counted = {
            "entity": "entity_type, status, coalesce(concept_kind, '')",
            "search_performance": "date_start, date_end",
        }
        for table, columns in counted.items():
            expected = f"SELECT project_pk, {columns}, count(*) FROM {table} GROUP BY project_pk, {columns}"
            assert sorted(store.query(f"SELECT * FROM {table}_tally")) == sorted(store.query(expected))
        blocks = "SELECT project_pk, claim_type, {} FROM {} GROUP BY project_pk, claim_type ORDER BY 1, 2"
        expected = store.query(blocks.format("count(*)", "quotable_block"))
        assert store.query(blocks.format("sum(total)", "quotable_block_expiry_tally")) == expected

    store.load(small())
    check()
    store.load({"projects": [project("other")], "entities": [{**entity("news:one"), "project": "other"}]})
    check()
    store.load({"entities": [{"id": uid(3), "conceptKind": None, "status": "archived"}]})
    store.load({"searchPerformance": [{"id": uid(11), "dateEnd": "2026-03-01"}]})
    store.load({"quotableBlocks": [{"id": uid(13), "topicTag": "ÉBB"}]})
    check()
    assert store.query("SELECT topic_fold FROM quotable_block") == [("ébb",)]
