"""Everything that can be wrong with a bundle: each is told, with its place, and nothing is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from carrel.content.bundle.exporter import export_content
from carrel.content.bundle.faults import ContentRefused
from carrel.content.bundle.importer import import_content
from tests.bundles import Store, block, entity, performance, project, relation, small, total, uid
from tests.content_stores import sqlite, store

__all__ = ["sqlite", "store"]

USES = "GUIDE_USES_CONCEPT"


@pytest.mark.rule("content.fault.all_together", "content.fault.place", "content.fault.nothing_written")
def test_all_faults_are_told_together_each_with_its_place(store: Store, tmp_path: Path) -> None:
    store.load(small())
    faults = store.faults(
        {
            "entities": [entity("guide:ok"), entity("guide:bad", status="live"), entity("guide:ok")],
            "relations": [relation("guide:ok", USES, "concept:none")],
        }
    )
    assert faults == [
        "bundle.json: entities[1]: status must be one of draft, publish_requested, published, archived, not 'live'",
        "bundle.json: entities[2]: guide:ok is there already, at "
        f"{tmp_path}/bundle.json: entities[0]: leave one of them out",
        "bundle.json: relations[0]: to: there is no concept:none in the project reef",
    ]
    faults = store.faults(
        [
            {"kind": "entities", **entity("guide:ok")},
            {"kind": "relations", **relation("guide:no", USES, "concept:tide")},
        ]
    )
    assert faults == ["bundle.jsonl:2: from: there is no guide:no in the project reef"]


@pytest.mark.rule("content.fault.unknown_kind", "content.fault.unknown_field")
def test_unknown_kinds_and_fields_are_faults_that_name_the_nearest(sqlite: Store) -> None:
    sqlite.load({"projects": [project()]})
    (first, second) = sqlite.faults([{"kind": "entites", "x": 1}, {"kind": "entity", **entity("guide:a", sumary="x")}])
    assert first.startswith("bundle.jsonl:1: unknown kind 'entites'; known are projects, entities, sources, videos")
    assert second == "bundle.jsonl:2: unknown field 'sumary'; did you mean summary?"
    (fault,) = sqlite.faults({"entity": [entity("guide:a")]})
    assert fault.startswith("bundle.json: entity[0]: unknown kind 'entity'")
    (fault,) = sqlite.faults({"relations": [relation("guide:a", USES, "concept:b", zzz=1)]})
    assert "unknown field 'zzz'; known are id, relationType, notes, createdAt, from" in fault


@pytest.mark.rule("content.item.open")
def test_items_keep_fields_that_nobody_knows(store: Store) -> None:
    source = {"project": "reef", "url": "u:1", "authors": ["Ana", None], "x": {"y": [1, 2.5, True, {"z": "é"}]}}
    store.load({"projects": [project()], "sources": [source]})
    ((details,),) = store.query("SELECT details FROM item")
    assert json.loads(details) == {"authors": ["Ana", None], "x": {"y": [1, 2.5, True, {"z": "é"}]}}
    (fault,) = store.faults({"sources": [{**source, "kind": "book"}]})
    assert fault == "bundle.json: sources[0]: a field of sources cannot be called kind: call it something else"


def test_a_field_may_be_nested_256_levels_deep(store: Store) -> None:
    store.load({"projects": [project()], "sources": [{"project": "reef", "url": "u:1", "deep": _nested(256)}]})
    ((details,),) = store.query("SELECT details FROM item")
    assert json.loads(details) == {"deep": _nested(256)}
    exported = store.folder / "exported.json"
    export_content(store.location, exported)
    (source,) = json.loads(exported.read_text(encoding="utf-8"))["sources"]
    assert source["deep"] == _nested(256)


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("entities", entity("guide:a", title=5), "title must be a string, not 5"),
    ("entities", entity("guide:a", title=None), "title must be a string, not null"),
    ("entities", entity("guide:a", title="  "), "title must not be empty"),
    ("entities", entity("guide:a", title="a\tb"), "title must not contain the character U+0009"),
    ("entities", entity("guide:a", title="a\u2028b"), "title must not contain the character U+2028"),
    ("entities", entity("guide:a", title="x" * 501), "title must have 500 characters or less, not 501"),
    ("entities", entity("guide:a", title="ᾷ" * 500), "title must have 2000 bytes or less in UTF-8, case aside"),
    ("entities", entity("guide:a b"), "slug must have no blanks, as 'a b' has"),
    ("entities", entity("guide:" + "x" * 201), "slug must have 200 characters or less, not 201"),
    ("entities", entity("guide:a", summary="a\0b"), "summary must not contain the character U+0000"),
    ("entities", entity("guide:a", summary="a\ud800b"), "summary must not contain the character U+D800"),
    ("entities", entity("guide:a", summary="a\x1bb"), "summary must not contain the character U+001B"),
    ("entities", entity("page:a"), "entityType must be one of guide, concept, project, news, not 'page'"),
    (
        "entities",
        entity("guide:a", difficulty=True),
        "difficulty must be one of beginner, intermediate, advanced, not true",
    ),
    ("entities", entity("guide:a", id="x"), "id must be a UUID such as 00000000-0000-4000-a000-000000000001, not 'x'"),
    ("entities", entity("guide:a", createdAt="2026-02-30"), "createdAt must be YYYY-MM-DD or YYYY-MM-DDTHH:mm:ss.sssZ"),
    ("entities", entity("guide:a", createdAt="2026-01-01T24:00:00Z"), "createdAt must be YYYY-MM-DD or"),
    ("entities", entity("guide:a", createdAt="2026-01-01T00:00:00+00:00"), "createdAt must be YYYY-MM-DD or"),
    ("entities", entity("guide:a", createdAt=5), "createdAt must be a string, not 5"),
    ("entities", entity("guide:a", comparisonTargets="x"), "comparisonTargets must be an array of UUIDs, not 'x'"),
    ("entities", entity("guide:a", comparisonTargets=["x"]), "comparisonTargets must be a UUID such as"),
    ("entities", {"project": "reef", "slug": "a", "title": "A"}, "entityType is missing"),
    ("entities", {**entity("guide:a"), "project": None}, "project is missing: give the project's slug, or projectId"),
    ("entities", entity("guide:a", projectId=uid(1)), "project and projectId are both given: leave one out"),
    (
        "entities",
        {**entity("guide:a"), "project": "A b"},
        "project must be lower-case letters, digits and single hyphens",
    ),
    ("projects", project("-x"), "slug must be lower-case letters, digits and single hyphens between them, not '-x'"),
    ("projects", project(name="x" * 201), "name must have 200 characters or less, not 201"),
    ("projects", {"name": "x"}, "slug is missing"),
    ("sources", {"project": "reef", "year": 5}, "url or title is missing: one of them must be there"),
    ("sources", {"project": "reef", "url": "x" * 2001}, "url must have 2000 bytes or less in UTF-8"),
    ("sources", {"project": "reef", "url": "x", "big": 2**53 + 1}, "'big' must hold whole numbers up to 2^53"),
    ("sources", {"project": "reef", "url": "x", "deep": _nested(257)}, "'deep' must not be nested so deeply"),
    ("sources", {"project": "reef", "url": "x", "deep": [{"a": "\0"}]}, "'deep' must not contain the character U+0000"),
    (
        "relations",
        {"project": "reef", "relationType": USES, "to": "concept:a"},
        "from is missing: give from, or fromEntityId",
    ),
    ("relations", relation("guide", USES, "concept:a"), 'from must be a type and a slug as in "guide:intro"'),
    ("relations", relation("guide:a", "USES", "concept:a"), "relationType must be one of GUIDE_USES_CONCEPT,"),
    ("relations", relation("guide:a", USES, "guide:b"), "GUIDE_USES_CONCEPT leads to a concept, not to a guide"),
    ("relations", relation("video:a", USES, "concept:b"), "GUIDE_USES_CONCEPT leads from a guide, not from a video"),
    ("relations", relation("guide:a", USES, "concept:b", fromEntityId=uid(1)), "from and fromEntityId are both given"),
    ("relations", {"id": uid(1), "relationType": USES, "to": "concept:a"}, "from is missing: give from, or"),
    ("relations", {"id": uid(1), "from": "guide:a", "to": "concept:a"}, "relationType is missing: a relation's ends"),
    ("searchPerformance", performance(ctr=1.01), "ctr must be between 0 and 1, not 1.01"),
    ("searchPerformance", performance(ctr="5%"), "ctr must be a number, not '5%'"),
    ("searchPerformance", performance(clicks=201), "clicks must not be more than impressions: 201 of 200"),
    ("searchPerformance", performance(clicks=1.5), "clicks must be a whole number, not 1.5"),
    ("searchPerformance", performance(clicks=True), "clicks must be a whole number, not true"),
    ("searchPerformance", performance(impressions=2**53 + 1), "impressions must be between 0 and 2^53"),
    ("searchPerformance", performance(clicks=-1), "clicks must be between 0 and 2^53, not -1"),
    ("searchPerformance", performance(avgPosition=0), "avgPosition must be greater than 0, not 0"),
    ("searchPerformance", performance(avgPosition=10**400), "avgPosition must be a number that can be kept"),
    ("searchPerformance", performance(dateStart="2026-02-01"), "dateStart must not be after dateEnd"),
    ("searchPerformance", performance(query="", pageUrl=""), "query and pageUrl must not both be empty"),
    ("searchPerformance", performance("é" * 500, pageUrl="é" * 760), "query and pageUrl must have 2500 bytes or less"),
    ("searchPerformance", performance("é" * 1001), "query must have 2000 bytes or less in UTF-8"),
    ("searchPerformance", performance(entity="video:x"), 'entity must be a type and a slug as in "guide:intro"'),
    (
        "quotableBlocks",
        block(claimType="fact"),
        "claimType must be one of statistic, comparison, definition, howto_step",
    ),
    ("quotableBlocks", block(text=" \n"), "text must not be empty"),
    ("quotableBlocks", block(topicTag="ΐ" * 200 * 2), "topicTag must have 200 characters or less, not 400"),
    ("quotableBlocks", {"project": "reef", "text": "x", "claimType": "statistic"}, "entity is missing: give entity,"),
]


@pytest.mark.rule(
    "content.fault.type",
    "content.fault.missing",
    "content.fault.enum",
    "content.fault.malformed",
    "content.fault.characters",
    "content.fault.limits",
    "content.fault.relation_type",
    "content.fault.performance",
)
@pytest.mark.parametrize(("key", "record", "message"), CASES, ids=[case[2][:60] for case in CASES])
def test_a_record_that_is_wrong_by_itself_is_refused_with_what_it_must_be(
    sqlite: Store, key: str, record: dict[str, Any], message: str
) -> None:
    bundle = {"projects": [project()], key: [record]}
    if key == "projects":
        bundle = {"projects": [record]}
    path = sqlite.folder / "bundle.json"
    path.write_text(json.dumps(bundle), encoding="utf-8")
    with pytest.raises(ContentRefused) as refused:
        import_content(sqlite.location, [path])
    (fault,) = refused.value.faults
    assert fault.place == f"{path}: {key}[0]"
    assert fault.message.startswith(message)


@pytest.mark.rule("content.fault.limits")
def test_what_is_just_within_the_limits_is_kept_by_both_engines(store: Store) -> None:
    bundle = {
        "projects": [project("x" * 200, name="ß" * 200)],
        "entities": [entity("guide:" + "é" * 200, title="é" * 500), entity("guide:b", title="\U0001f600" * 500)],
        "sources": [{"project": "x" * 200, "url": "é" * 1000, "title": "é" * 500}],
        "searchPerformance": [
            performance("é" * 1000, pageUrl="é" * 250, impressions=2**53, clicks=2**53, ctr=1, avgPosition=0.1),
            performance("", pageUrl="é" * 1000, clicks=0, impressions=0, ctr=0),
            performance("x" * 2000, pageUrl="", clicks=5.0, impressions=5.0),
        ],
        "quotableBlocks": [block("guide:b", topicTag="ΐ" * 200, text="x y " * 20000)],
    }
    for records in list(bundle.values())[1:]:
        for record in records:
            record["project"] = "x" * 200
    assert total(store.load(bundle)) == (8, 0, 0)
    assert store.query("SELECT max(clicks), min(clicks) FROM search_performance") == [(2**53, 0)]


@pytest.mark.rule("content.fault.ends", "content.fault.other_project", "content.fault.relation_type")
def test_ends_that_are_missing_or_elsewhere_or_of_another_type_are_faults(store: Store) -> None:
    store.load(small())
    store.load(
        {
            "projects": [project("other", id=uid(99))],
            "entities": [{**entity("guide:far", id=uid(98)), "project": "other"}],
        }
    )
    faults = store.faults(
        {
            "relations": [
                relation("guide:none", USES, "concept:tide"),
                {"project": "reef", "relationType": USES, "fromEntityId": uid(98), "to": "concept:tide"},
                relation("guide:far", USES, "concept:tide"),
                {"project": "reef", "relationType": USES, "fromEntityId": uid(3), "to": "concept:tide"},
                {"project": "reef", "relationType": USES, "fromEntityId": uid(77), "to": "concept:tide"},
                relation("guide:intro", "GUIDE_REFERENCES_SOURCE", "sourceItem:https://none.example"),
                {
                    "project": "other",
                    "from": "video:The night shift",
                    "relationType": "VIDEO_EXPLAINS_GUIDE",
                    "to": "guide:far",
                },
                {
                    "project": "reef",
                    "fromEntityId": uid(6),
                    "relationType": "VIDEO_EXPLAINS_GUIDE",
                    "to": "guide:intro",
                },
                {"project": "other", "fromEntityId": uid(5), "relationType": "VIDEO_EXPLAINS_GUIDE", "to": "guide:far"},
            ],
            "searchPerformance": [performance("new", entity="guide:none")],
            "quotableBlocks": [{"project": "reef", "entityId": uid(98), "text": "x", "claimType": "statistic"}],
        }
    )
    assert [fault.removeprefix("bundle.json: ") for fault in faults] == [
        "relations[0]: from: there is no guide:none in the project reef",
        f"relations[1]: from: there is no guide with the id {uid(98)} in the project reef; it is in another project",
        "relations[2]: from: there is no guide:far in the project reef; it is in another project",
        f"relations[3]: from: GUIDE_USES_CONCEPT leads from a guide, and {uid(3)} is a concept",
        f"relations[4]: from: there is no guide with the id {uid(77)} in the project reef",
        "relations[5]: to: there is no sourceItem:https://none.example in the project reef",
        "relations[6]: from: there is no video:The night shift in the project other; it is in another project",
        f"relations[7]: from: VIDEO_EXPLAINS_GUIDE leads from a video, and {uid(6)} is a distributionEvent",
        f"relations[8]: from: there is no video with the id {uid(5)} in the project other; it is in another project",
        "searchPerformance[0]: entity: there is no guide:none in the project reef",
        f"quotableBlocks[0]: entity: there is no entity with the id {uid(98)} in the project reef; it is in another "
        "project",
    ]


@pytest.mark.rule("content.fault.ends")
def test_a_title_that_several_items_have_is_not_enough(store: Store) -> None:
    film = {"project": "reef", "title": "Film"}
    store.load({"projects": [project()], "entities": [entity("guide:a")], "videos": [{**film, "url": "u:1"}]})
    bundle = {
        "videos": [{**film, "url": "u:2"}],
        "relations": [relation("video:Film", "VIDEO_EXPLAINS_GUIDE", "guide:a")],
    }
    (fault,) = store.faults(bundle)
    assert fault.endswith("several have the title 'Film' in the project reef: name the one by its url or id")
    bundle["relations"][0]["from"] = "video:u:1"
    assert total(store.load(bundle)) == (2, 0, 0)


@pytest.mark.rule("content.fault.missing_project")
def test_a_project_that_is_nowhere_is_a_fault_of_each_record_that_names_it(store: Store) -> None:
    faults = store.faults(
        {
            "entities": [{**entity("guide:a"), "project": "none"}],
            "relations": [{**relation("guide:a", USES, "concept:b"), "project": "none"}],
            "sources": [{"projectId": uid(5), "url": "x"}],
        }
    )
    assert faults == [
        "bundle.json: entities[0]: there is no project none: add it to projects, or create it first",
        f"bundle.json: sources[0]: there is no project with the id {uid(5)}: add it to projects, or create it first",
        "bundle.json: relations[0]: there is no project none: add it to projects, or create it first",
    ]


@pytest.mark.rule("content.fault.broken_key")
def test_what_points_at_a_broken_record_is_not_reported_too(store: Store) -> None:
    faults = store.faults(
        {
            "projects": [project(), project("half", name=5)],
            "entities": [
                entity("guide:bad", status="live"),
                entity("concept:bad", id=uid(4).upper(), title=5),
                {**entity("guide:a"), "project": "half"},
            ],
            "videos": [{"project": "reef", "url": "u:1", "title": 5}, {"project": "reef", "id": uid(6), "url": 5}],
            "relations": [
                relation("guide:bad", USES, "concept:bad"),
                {"project": "reef", "from": "guide:bad", "relationType": USES, "toEntityId": uid(4)},
                relation("video:u:1", "VIDEO_EXPLAINS_GUIDE", "guide:bad"),
                {"project": "reef", "fromEntityId": uid(6), "relationType": "VIDEO_EXPLAINS_GUIDE", "to": "guide:bad"},
                relation("guide:bad", USES, "concept:none"),
            ],
            "quotableBlocks": [block("guide:bad")],
        }
    )
    assert [fault.split(": ")[1] for fault in faults] == [
        "projects[1]",
        "entities[0]",
        "entities[1]",
        "videos[0]",
        "videos[1]",
        "relations[4]",
    ]


@pytest.mark.rule("content.fault.duplicates")
def test_a_key_or_an_id_that_comes_twice_is_a_fault(store: Store) -> None:
    store.load(small())
    faults = store.faults(
        {
            "projects": [project("a"), project("a")],
            "entities": [
                entity("guide:x"),
                entity("guide:x"),
                entity("guide:x"),
                {"id": uid(2)},
                entity("guide:intro"),
            ],
            "sources": [{"project": "reef", "url": "u"}, {"project": "reef", "url": "u"}],
            "videos": [
                {"project": "reef", "title": "u"},
                {"project": "reef", "title": "u"},
                {"project": "reef", "title": "u", "url": "v"},
            ],
            "relations": [relation("guide:intro", USES, "concept:tide"), {"id": uid(7), "notes": "x"}],
            "searchPerformance": [performance(id=uid(50)), performance("b", id=uid(50)), performance("b")],
            "quotableBlocks": [block("guide:x"), block("guide:x")],
        }
    )
    assert [fault.split(": ")[1] for fault in faults] == [
        "projects[1]",
        "entities[1]",
        "entities[2]",
        "entities[4]",
        "sources[1]",
        "videos[1]",
        "relations[1]",
        "searchPerformance[0]",
        "searchPerformance[1]",
        "quotableBlocks[1]",
    ]
    assert "it has the same id as" in faults[8]


@pytest.mark.rule("content.fault.other_id")
def test_an_id_that_differs_from_the_stored_one_of_the_same_key_is_a_fault(store: Store) -> None:
    store.load(small())
    faults = store.faults(
        {
            "projects": [project(id=uid(50))],
            "entities": [entity("guide:intro", id=uid(50))],
            "sources": [{"project": "reef", "url": "https://a.example/x", "id": uid(50)}],
            "videos": [{"project": "reef", "title": "The night shift", "id": uid(50)}],
            "relations": [relation("guide:intro", USES, "concept:tide", id=uid(50))],
            "searchPerformance": [performance(id=uid(50))],
            "quotableBlocks": [block(id=uid(50))],
        }
    )
    assert [fault.split(": ")[1] for fault in faults if "already: give that id, or none" in fault] == [
        "projects[0]",
        "entities[0]",
        "sources[0]",
        "videos[0]",
        "relations[0]",
        "searchPerformance[0]",
        "quotableBlocks[0]",
    ]
    taken = f"bundle.json: entities[0]: guide:intro has the id {uid(2)} already: give that id, or none"
    assert faults[1] == taken
    store.load({"entities": [entity("guide:free", id=uid(60))]})
    assert store.faults({"entities": [{"id": uid(60), "slug": "intro"}]}) == [taken]


@pytest.mark.rule("content.fault.home")
def test_an_id_does_not_move_to_another_project_or_kind(store: Store) -> None:
    store.load(small())
    faults = store.faults(
        {
            "projects": [project("other")],
            "entities": [{"id": uid(2), "project": "other"}],
            "videos": [{"id": uid(4), "url": "u"}],
        }
    )
    assert faults == [
        f"bundle.json: entities[0]: the id {uid(2)} is that of a record in another project: leave the id out",
        f"bundle.json: videos[0]: the id {uid(4)} is that of a sourceItem: leave the id out",
    ]


@pytest.mark.rule("content.fault.changed_type")
def test_an_entity_changes_its_type_only_while_no_relation_depends_on_it(store: Store) -> None:
    store.load(small())
    (fault,) = store.faults({"entities": [{"id": uid(3), "entityType": "news"}]})
    assert fault.endswith("concept:tide cannot become a news while relations depend on its type: remove them first")
    store.load({"entities": [entity("guide:free", id=uid(50))]})
    assert total(store.load({"entities": [{"id": uid(50), "entityType": "news"}]})) == (0, 1, 0)


@pytest.mark.rule("content.fault.missing")
def test_an_id_that_nothing_stored_has_needs_a_whole_record(store: Store) -> None:
    store.load(small())
    faults = store.faults({"entities": [{"id": uid(50), "title": "x"}], "relations": [{"id": uid(51), "notes": "x"}]})
    assert faults == [
        "bundle.json: entities[0]: entityType, slug, project are missing, and nothing with the id "
        f"{uid(50)} is stored yet",
        "bundle.json: relations[0]: relationType, from, to, project are missing, and nothing with the id "
        f"{uid(51)} is stored yet",
    ]


@pytest.mark.rule("content.fault.performance")
def test_a_part_of_a_row_must_fit_what_is_stored_of_it(store: Store) -> None:
    store.load(small())
    bundle = {"searchPerformance": [{"id": uid(11), "clicks": 201}, {"id": uid(12), "dateEnd": "2025-12-31"}]}
    assert store.faults(bundle) == [
        "bundle.json: searchPerformance[0]: clicks must not be more than impressions: 201 of 200",
        "bundle.json: searchPerformance[1]: dateStart must not be after dateEnd",
    ]
