"""Bundles for tests of the way in, and the whole of the content tables to compare before and after."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from carrel.content.bundle.faults import ContentRefused
from carrel.content.bundle.importer import Report, import_content
from carrel.storage.database import Location, SqliteLocation, locate
from carrel.storage.schema import metadata
from tests.databases import queries, query

Bundle = Mapping[str, Any]

CONTENT_TABLES = [name for name in metadata.tables if name != "task"]


def uid(number: int) -> str:
    return f"00000000-0000-4000-a000-{number:012x}"


def project(slug: str = "reef", **more: Any) -> dict[str, Any]:
    return {"slug": slug, "name": slug.title(), **more}


def entity(ref: str, **more: Any) -> dict[str, Any]:
    kind, _, slug = ref.partition(":")
    return {"project": "reef", "entityType": kind, "slug": slug, "title": f"The {slug}", **more}


def relation(start: str, name: str, end: str, **more: Any) -> dict[str, Any]:
    return {"project": "reef", "from": start, "relationType": name, "to": end, **more}


def performance(query: str = "tide", **more: Any) -> dict[str, Any]:
    return {
        "project": "reef",
        "query": query,
        "pageUrl": "https://reef.example/tide",
        "impressions": 200,
        "clicks": 10,
        "ctr": 0.05,
        "avgPosition": 3.5,
        "dateStart": "2026-01-01",
        "dateEnd": "2026-01-31",
        **more,
    }


WORDS = " ".join(["word"] * 30)


def block(ref: str = "concept:tide", **more: Any) -> dict[str, Any]:
    return {"project": "reef", "entity": ref, "text": WORDS, "claimType": "definition", **more}


def small() -> dict[str, list[dict[str, Any]]]:
    """A little of everything, every record with an id and times, as an export has them."""
    times = {"createdAt": "2026-01-02T03:04:05.678Z", "updatedAt": "2026-01-03T00:00:00.000Z"}
    created = {"createdAt": times["createdAt"]}
    return {
        "projects": [project(id=uid(1), description="All about it", **times)],
        "entities": [
            entity("guide:intro", id=uid(2), title="Él Íntro", summary="A Summary", status="published", **times),
            entity("concept:tide", id=uid(3), conceptKind="comparison", comparisonTargets=[uid(2)], **times),
        ],
        "sources": [
            {"project": "reef", "id": uid(4), "url": "https://a.example/x", "title": "Atlas", "year": 1998, **times}
        ],
        "videos": [{"project": "reef", "id": uid(5), "title": "The night shift", "tags": ["a", {"b": None}], **times}],
        "distributions": [{"project": "reef", "id": uid(6), "url": "https://b.example/", "channel": "letter", **times}],
        "relations": [
            relation("guide:intro", "GUIDE_USES_CONCEPT", "concept:tide", id=uid(7), notes="why", **created),
            relation("guide:intro", "GUIDE_REFERENCES_SOURCE", "sourceItem:https://a.example/x", id=uid(8), **created),
            relation("video:The night shift", "VIDEO_EXPLAINS_GUIDE", "guide:intro", id=uid(9), **created),
            relation(
                "distributionEvent:https://b.example/",
                "DISTRIBUTION_PROMOTES_CONCEPT",
                "concept:tide",
                id=uid(10),
                **created,
            ),
        ],
        "searchPerformance": [
            performance(id=uid(11), entity="concept:tide", capturedAt="2026-02-03"),
            performance("Ébbe", id=uid(12), capturedAt="2026-02-03"),
        ],
        "quotableBlocks": [block(id=uid(13), topicTag="Tides", verifiedUntil="2027-01-01", **times)],
    }


def written(path: Path, bundle: Bundle | Iterable[Mapping[str, Any]]) -> Path:
    """The bundle in a file: a mapping as JSON, anything else as JSON Lines."""
    if isinstance(bundle, Mapping):
        path.write_text(json.dumps(bundle, ensure_ascii=False), encoding="utf-8")
    else:
        path.write_text("".join(f"{json.dumps(line)}\n" for line in bundle), encoding="utf-8")
    return path


class Store:
    """A database to bring content into."""

    def __init__(self, url: str, folder: Path) -> None:
        self.location: Location = locate(url, folder)
        self.url = url
        self.folder = folder

    def load(self, bundle: Bundle | Iterable[Mapping[str, Any]], *, dry_run: bool = False) -> Report:
        name = "bundle.json" if isinstance(bundle, Mapping) else "bundle.jsonl"
        return import_content(self.location, [written(self.folder / name, bundle)], dry_run=dry_run)

    def faults(self, bundle: Bundle | Iterable[Mapping[str, Any]]) -> list[str]:
        """What is wrong with the bundle; the database is as before."""
        before = self.state()
        try:
            self.load(bundle)
        except ContentRefused as refused:
            assert self.state() == before
            prefix = f"{self.folder}/"
            return [f"{fault.place.removeprefix(prefix)}: {fault.message}" for fault in refused.faults]
        raise AssertionError("nothing was wrong with it")

    def query(self, sql: str) -> list[Any]:
        return query(self.location, sql)

    def state(self) -> dict[str, list[Any]]:
        """Every row of every table of content."""
        if not self.query(self._there()):
            return {name: [] for name in CONTENT_TABLES}
        tables = queries(self.location, *(f"SELECT * FROM {name}" for name in CONTENT_TABLES))
        return {name: sorted(found, key=repr) for name, found in zip(CONTENT_TABLES, tables, strict=True)}

    def _there(self) -> str:
        if self.url.startswith("sqlite"):
            return "SELECT 1 FROM sqlite_master WHERE name = 'project'"
        return "SELECT 1 WHERE to_regclass('project') IS NOT NULL"


def total(report: Report) -> tuple[int, int, int]:
    counts = report.counts.values()
    return (
        sum(each.added for each in counts),
        sum(each.updated for each in counts),
        sum(each.unchanged for each in counts),
    )


def rows(location: Location) -> dict[str, list[Any]]:
    """Every row of content with ids in the place of the numbers that stay within the database."""
    found: dict[str, list[Any]] = {}
    kinds = ("project", "entity", "item")
    numbered = queries(location, *(f"SELECT pk, id FROM {name}" for name in kinds))
    ids = {name: dict(each) for name, each in zip(kinds, numbered, strict=True)}
    columns = {"project_pk": "project", "entity_pk": "entity", "from_pk": "entity", "to_pk": "entity"}
    columns |= {"from_item": "item", "to_item": "item"}
    named = {table: [name for name in each if name != "pk"] for table, each in _columns(location).items()}
    tables = queries(location, *(f"SELECT {', '.join(names)} FROM {table}" for table, names in named.items()))
    for (table, names), kept in zip(named.items(), tables, strict=True):
        found[table] = sorted(
            (
                tuple(
                    ids[columns[name]].get(value) if name in columns else value
                    for name, value in zip(names, row, strict=True)
                )
                for row in kept
            ),
            key=repr,
        )
    return found


def _columns(location: Location) -> dict[str, list[str]]:
    if isinstance(location, SqliteLocation):
        asked = queries(location, *(f"SELECT name FROM pragma_table_info('{table}')" for table in CONTENT_TABLES))
    else:
        sql = "SELECT column_name FROM information_schema.columns WHERE table_name = '{}' ORDER BY ordinal_position"
        asked = queries(location, *(sql.format(table) for table in CONTENT_TABLES))
    return {table: [name for (name,) in found] for table, found in zip(CONTENT_TABLES, asked, strict=True)}
