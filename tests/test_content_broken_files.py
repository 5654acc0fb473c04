"""Files that are no bundle, faults in great number, and warnings."""

import gzip
from pathlib import Path

import pytest

from carrel.content.bundle.faults import MAX_KEPT_FAULTS, ContentRefused
from carrel.content.bundle.importer import import_content
from carrel.errors import UsageError
from tests.bundles import Store, block, entity, project, relation, total, uid
from tests.content_stores import sqlite, store

__all__ = ["sqlite", "store"]

BROKEN_FILES: list[tuple[bytes, str]] = [
    (b"", ", line 1: the file ends too early"),
    (b"[]", ", line 1: a bundle is a JSON object"),
    (b"5", ", line 1: a bundle is a JSON object"),
    (b'{"projects": [{"slug": "a"', ", line 1: projects[0] is not JSON"),
    (b'{"projects": [{"slug": "a"}\n {}]}', ", line 2: a comma or the end of the array must follow projects[0]"),
    (b'{"projects": {}}', ", line 1: projects must be an array"),
    (b'{"projects": [],\n"projects": []}', ", line 2: projects is there twice"),
    (b'{"projects": []}\n{}', ", line 2: there is more after the end of the object"),
    (b'{"projects": [],\n"entities": [\n{"a": "\xff"}]}', "is not UTF-8: there is a byte 0xFF"),
    (b'{"projects": [{"slug": "a", "slug": "b"}]}', ", line 1: projects[0]: slug is there twice"),
    (b'{"projects": [{"a": NaN}]}', ", line 1: projects[0]: NaN is no number of JSON"),
    (b'{"projects": [5]}', ": projects[0]: must be a JSON object"),
    (b"\x1f\x8b\x08\x00 no gzip at all, only its first bytes", "is damaged, or not gzip to its end"),
    (gzip.compress(b'{"projects": [' + b" " * 100_000)[:-20], "is damaged, or not gzip to its end"),
    (b'{"kind": "projects"\n', ":1: is not JSON"),
    (b'{"kind": "projects", "a": "\xff"}\n', ":1: is not UTF-8: byte 28 of the line is 0xFF"),
    (b'{"slug": "a"}\n', ":1: has no kind; it must be one of projects, entities,"),
    (b'{"kind": 5}\n', ":1: kind must be a string, one of projects, entities,"),
    (b'{"kind": "project", "slug": "a", "name": "b"}\n[]\n', ":2: must be a JSON object"),
    (b'{"kind": "project", "a": ' + b"[" * 100_000 + b"\n", ":1: is not JSON"),
    (b'{"projects": [{"a": ' + b"[" * 100_000 + b"\n", "is not JSON"),
]


@pytest.mark.rule("content.fault.malformed")
@pytest.mark.parametrize(("data", "message"), BROKEN_FILES, ids=[case[1][:40] for case in BROKEN_FILES])
def test_a_file_that_is_no_bundle_is_refused_with_the_place(
    sqlite: Store, tmp_path: Path, data: bytes, message: str
) -> None:
    path = tmp_path / "broken"
    path.write_bytes(data)
    with pytest.raises(ContentRefused) as refused:
        import_content(sqlite.location, [path])
    assert any(message in str(fault) for fault in refused.value.faults)


@pytest.mark.rule("content.fault.malformed")
def test_after_a_line_that_cannot_be_read_the_others_are_checked(sqlite: Store, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"kind": "project", "slug": "A"}\n{"kind\n\xff\n\n{"kind": "project", "slug": "B"}\n')
    with pytest.raises(ContentRefused) as refused:
        import_content(sqlite.location, [path])
    places = [fault.place.rpartition(":")[2] for fault in refused.value.faults]
    assert places == ["1", "1", "2", "3", "5", "5"]


@pytest.mark.rule("content.fault.malformed")
def test_a_zip_archive_and_a_file_that_is_not_there_are_misuse(sqlite: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(UsageError, match="unzip it first"):
        import_content(sqlite.location, [path])
    with pytest.raises(UsageError, match=r"cannot read .*none.json: No such file"):
        import_content(sqlite.location, [tmp_path / "none.json"])


@pytest.mark.rule("content.fault.capped")
def test_faults_are_counted_all_and_kept_up_to_a_limit(sqlite: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite.load({"projects": [project()]})
    assert MAX_KEPT_FAULTS == 10_000
    monkeypatch.setattr("carrel.content.bundle.faults.MAX_KEPT_FAULTS", 300)
    records = [entity(f"guide:g{n}", status="x") for n in range(250)]
    relations = [relation("guide:a", "GUIDE_USES_CONCEPT", f"concept:c{n}") for n in range(150)]
    with pytest.raises(ContentRefused) as refused:
        sqlite.load({"entities": records, "relations": relations})
    assert (refused.value.total, len(refused.value.faults)) == (550, 300)
    text = str(refused.value).splitlines()
    assert text[0] == "nothing was written: 550 faults"
    assert len(text) == 202
    assert text[-1] == "  and 350 more"


# --- warnings


@pytest.mark.rule("content.warning.words", "content.warning.targets", "content.warning.concept_kind")
def test_warnings_do_not_keep_anything_out(store: Store) -> None:
    report = store.load(
        {
            "projects": [project()],
            "entities": [
                entity("guide:a", conceptKind="model", comparisonTargets=[uid(50), uid(60)]),
                entity("concept:tide", id=uid(50)),
            ],
            "quotableBlocks": [block(text="word " * n, claimType="statistic") for n in (24, 25, 50, 51)],
        }
    )
    warnings = [str(each).partition("bundle.json: ")[2] for each in report.warnings]
    assert warnings == [
        "entities[0]: conceptKind is meant for concepts, and this is a guide",
        f"entities[0]: comparisonTargets: no entity of the project has the id {uid(60)}",
        "quotableBlocks[0]: a block should have 25 to 50 words, and this has 24",
        "quotableBlocks[3]: a block should have 25 to 50 words, and this has 51",
    ]
    assert report.warnings_in_all == 4
    assert total(report) == (7, 0, 0)
