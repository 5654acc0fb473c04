"""What is asked of the content, what each read may cost, and the table of what it did."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from content_data import (
    COMMON_THREE,
    COMMON_TWENTY,
    COMMON_TWO,
    HOST,
    MAIN,
    PLANTED,
    THREE,
    TWENTY,
    TWO,
    Landmarks,
    Size,
)
from messages import Call

LOOK_UP = "get_entity"
_TEXTS = {"search", "query", "pageUrl", "topicTag"}


@dataclass(frozen=True, slots=True)
class Goals:
    look_ups: float = inf
    """How many times a look-up by primary key a read may take,"""
    growth: float = inf
    """and how many times as long at ten times the rows;"""
    milliseconds: tuple[float, float] = (inf, inf)
    """or how long at either size."""

    def __str__(self) -> str:
        if self.look_ups < inf:
            return f"{self.look_ups:g} / {self.growth:g}"
        return " / ".join(f"{each:g} ms" for each in self.milliseconds)


ORDINARY, WIDE, SUBSTRING = Goals(20, 1.5), Goals(100, 4), Goals(milliseconds=(60, 300))
WAYS = 10
"""In which a thing is asked, where there are several."""
PAGE = 5_000
LIMIT = 20
ENOUGH_FOR_A_WORD = 10_000  # entities: with fewer one of two thousand words may be in none


@dataclass(frozen=True, slots=True)
class Read:
    """A thing to ask, in one or several ways that take turns."""

    toolset: str
    name: str
    calls: list[Call]
    goals: Goals = ORDINARY
    found: int | None = None
    """How many rows the first of the calls finds in all, where that is known."""

    @property
    def key(self) -> tuple[str, str]:
        return self.toolset, self.name


def reads(size: Size, marks: Landmarks, only: str = "") -> list[Read]:
    """All of them, or the look-ups and those with this in their name."""
    return [
        read for read in (*_catalog(size, marks), *_bridge(size, marks)) if only in read.name or read.name == LOOK_UP
    ]


def _call(tool: str, **arguments: Any) -> Call:
    return Call(tool, {"projectId": MAIN, **arguments})


def _by_id(tool: str, ids: list[str], name: str = "entityId", **more: Any) -> list[Call]:
    return [_call(tool, **{name: each}, **more) for each in ids[:WAYS]]


def _graphs(toolset: str, marks: Landmarks) -> Iterator[Read]:
    tool = "get_entity_graph"
    for depth in (1, 2):
        yield Read(toolset, f"graph, depth {depth}", _by_id(tool, marks.ordinary, depth=depth))
    for depth in (1, 2):
        yield Read(toolset, f"graph of the hub, depth {depth}", _by_id(tool, [marks.hub], depth=depth), WIDE)
    types: list[str] | str = ["GUIDE_USES_CONCEPT"] if toolset == "catalog" else "GUIDE_USES_CONCEPT"
    hub = _by_id(tool, [marks.hub], depth=2, relationshipTypes=types)
    yield Read(toolset, "graph of the hub, one type, depth 2", hub, WIDE)


def _catalog(size: Size, marks: Landmarks) -> Iterator[Read]:
    def search(name: str, query: str, **more: Any) -> Read:
        planted = PLANTED if query in (TWO, THREE, TWENTY) and not more else None
        return Read("catalog", f"search, {name}", [_call("search_entities", query=query, **more)], SUBSTRING, planted)

    yield Read("catalog", LOOK_UP, _by_id("get_entity", marks.ordinary))
    yield Read("catalog", "list_projects", [Call("list_projects", {})])
    yield search("20 characters", TWENTY)
    yield search("3 characters", THREE)
    yield search("3 characters, one type", THREE, entityTypes=["concept"])
    yield search("2 characters, rare", TWO)
    yield search("2 characters, common", COMMON_TWO)
    yield search("1 character", COMMON_TWO[0])
    yield search("2 characters, rare, one type", TWO, entityTypes=["concept"])
    yield search("3 characters, common", COMMON_THREE)
    yield search("20 characters, common", COMMON_TWENTY)
    yield search("20 characters, common, one type", COMMON_TWENTY, entityTypes=["concept"])
    if size.entities >= ENOUGH_FOR_A_WORD:
        yield search("one word of many", marks.word)
    yield from _graphs("catalog", marks)


def _bridge(size: Size, marks: Landmarks) -> Iterator[Read]:
    def listing(tool: str, name: str, goals: Goals = ORDINARY, **filters: Any) -> Read:
        if not _TEXTS.isdisjoint(filters):
            goals = SUBSTRING
        planted = PLANTED if len(filters) == 1 and {*filters.values()} <= {TWO, THREE, TWENTY} else None
        return Read("bridge", name, [_call(tool, **filters)], goals, planted)

    yield Read("bridge", LOOK_UP, _by_id("get_entity", marks.ordinary))
    yield Read("bridge", "list_projects", [Call("list_projects", {})])

    tool = "search_entities"
    yield listing(tool, "entities, page 1")
    yield listing(tool, "entities, entityType", entityType="guide")
    yield listing(tool, "entities, status", status="published")
    yield listing(tool, "entities, conceptKind", conceptKind="model")
    yield listing(tool, "entities, all three filters", entityType="concept", status="draft", conceptKind="model")
    yield listing(tool, "entities, 20 characters", search=TWENTY)
    yield listing(tool, "entities, 3 characters", search=THREE)
    yield listing(tool, "entities, 3 characters and two filters", search=THREE, entityType="guide", status="draft")
    yield listing(tool, "entities, 2 characters, rare", search=TWO)
    yield listing(tool, "entities, 2 characters, common", search=COMMON_TWO)
    yield listing(tool, "entities, 2 characters, rare, of one status", search=TWO, status="draft")
    yield listing(tool, "entities, 3 characters, common", search=COMMON_THREE)
    yield listing(tool, "entities, 20 characters, common", search=COMMON_TWENTY)
    yield listing(tool, "entities, 20 characters, common, of one status", search=COMMON_TWENTY, status="draft")
    if size.entities >= ENOUGH_FOR_A_WORD:
        yield listing(tool, "entities, one word of many", search=marks.word)
    if size.entities >= PAGE * LIMIT:
        yield listing(tool, f"entities, page {PAGE:,}", WIDE, page=PAGE, limit=LIMIT)
        yield listing(
            tool, f"entities, page {PAGE // 4:,} of one status", WIDE, page=PAGE // 4, limit=LIMIT, status="draft"
        )
    yield from _graphs("bridge", marks)

    tool = "list_search_performance"
    dates: dict[str, Any] = {"dateStart": "2025-03-01", "dateEnd": "2025-03-28"}
    yield listing(tool, "performance, page 1")
    yield Read("bridge", "performance, one entity", _by_id(tool, marks.with_performance))
    yield listing(tool, "performance, 28 days", **dates)
    yield listing(tool, "performance, from a day on", dateStart="2025-03-01")
    yield listing(tool, "performance, query of 20 characters", query=TWENTY)
    yield listing(tool, "performance, query of 3 characters", query=THREE)
    yield listing(tool, "performance, query of 3 in 28 days", query=THREE, **dates)
    yield listing(tool, "performance, pageUrl of 3 characters", pageUrl=THREE)
    yield listing(tool, "performance, query of 2 characters, rare", query=TWO)
    yield listing(tool, "performance, query of 2 characters, common", query=COMMON_TWO)
    yield listing(tool, "performance, query of 2 characters, common, in 28 days", query=COMMON_TWO, **dates)
    yield listing(tool, "performance, query of 2 and page of 2 characters", query=COMMON_TWO, pageUrl=COMMON_TWO)
    two = {"query": COMMON_TWO, "pageUrl": COMMON_TWO}
    yield listing(tool, "performance, query of 2 and page of 2 characters, in 28 days", **two, **dates)
    yield listing(tool, "performance, query of 3 characters, common, in 28 days", query=COMMON_THREE, **dates)
    yield listing(tool, "performance, query of 3 characters, common", query=COMMON_THREE)
    yield listing(tool, "performance, query of 20 characters, common", query=COMMON_TWENTY)
    yield listing(tool, "performance, query of 20 characters, common, in 28 days", query=COMMON_TWENTY, **dates)
    yield listing(tool, "performance, query of one word of many", query=marks.word)
    yield listing(tool, "performance, pageUrl of 20 characters, in every row", pageUrl=HOST)
    yield listing(tool, "performance, pageUrl of 23 characters, one page", pageUrl=f"{HOST}12/")
    both = {"query": COMMON_TWENTY, "pageUrl": HOST}
    yield listing(tool, "performance, query of 20 and page of 20 characters, in 28 days", **both, **dates)
    if size.performance >= PAGE * LIMIT:
        yield listing(tool, f"performance, page {PAGE:,}", WIDE, page=PAGE, limit=LIMIT)

    tool = "list_quotable_blocks"
    yield listing(tool, "blocks, page 1")
    yield Read("bridge", "blocks, one entity", _by_id(tool, marks.with_blocks))
    yield listing(tool, "blocks, claimType", claimType="statistic")
    yield listing(tool, "blocks, topicTag of 20 characters", topicTag=TWENTY)
    yield listing(tool, "blocks, topicTag of 3 characters", topicTag=THREE)
    yield listing(tool, "blocks, topicTag of 2 characters, rare", topicTag=TWO)
    yield listing(tool, "blocks, topicTag of 3 characters, common", topicTag=COMMON_THREE)
    yield listing(tool, "blocks, topicTag of 20 characters, common", topicTag=COMMON_TWENTY)
    yield listing(
        tool,
        "blocks, topicTag of 20 characters, common, verified after a day",
        topicTag=COMMON_TWENTY,
        verifiedUntilAfter="2025-03-01",
    )
    yield listing(
        tool, "blocks, verified in 28 days", verifiedUntilAfter="2025-03-01", verifiedUntilBefore="2025-03-28"
    )
    yield listing(tool, "blocks, verified after a day", verifiedUntilAfter="2025-03-01")
    yield listing(tool, "blocks, all filters", claimType="statistic", topicTag=THREE, verifiedUntilAfter="2024-11-01")


@dataclass(slots=True)
class Samples:
    """The milliseconds that each read took, by size and read."""

    taken: dict[str, dict[tuple[str, str], list[float]]] = field(
        default_factory=dict[str, dict[tuple[str, str], list[float]]]
    )

    def add(self, size: str, read: Read, milliseconds: list[float]) -> None:
        self.taken.setdefault(size, {}).setdefault(read.key, []).extend(milliseconds)

    def median(self, size: str, key: tuple[str, str]) -> float | None:
        found = self.taken.get(size, {}).get(key)
        return statistics.median(found) if found else None

    def high(self, size: str, key: tuple[str, str]) -> float | None:
        """The 95th percentile."""
        found = sorted(self.taken.get(size, {}).get(key, []))
        return found[min(len(found) - 1, round(0.95 * len(found)))] if found else None


def table(samples: Samples, asked: list[Read], small: str, large: str) -> Iterator[str]:
    """One line for each read at the larger size, with its goals and whether it keeps them."""
    columns = "p50 ms | p95 ms | look-ups"
    yield f"| toolset | read | {small}: {columns} | {large}: {columns} | at 10 times the rows | goals | |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for read in asked:
        ratios = [_ratio(samples, size, read) for size in (small, large)]
        medians = [samples.median(size, read.key) for size in (small, large)]
        growth = medians[1] / medians[0] if medians[0] and medians[1] else None
        cells = [read.toolset, read.name]
        for size, median, ratio in zip((small, large), medians, ratios, strict=True):
            cells += [_number(median), _number(samples.high(size, read.key)), _number(ratio)]
        goals = read.goals
        held = [*((ratio, goals.look_ups) for ratio in ratios), (growth, goals.growth)]
        held += zip(medians, goals.milliseconds, strict=True)
        missed = [f"{_number(figure)} > {goal:g}" for figure, goal in held if figure is not None and figure > goal]
        verdict = "MISSED: " + ", ".join(missed) if missed else "met"
        yield _line([*cells, _number(growth), str(goals), verdict])


def missed(lines: list[str]) -> list[str]:
    return [line for line in lines if "MISSED" in line]


def _ratio(samples: Samples, size: str, read: Read) -> float | None:
    taken, base = samples.median(size, read.key), samples.median(size, (read.toolset, LOOK_UP))
    return taken / base if taken and base else None


def _number(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.2f}" if figure < 10 else f"{figure:.0f}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def found_rows(value: Mapping[str, Any]) -> int:
    """How many rows an answer says there are, or has."""
    if "totalCount" in value:
        return value["totalCount"]
    if "pagination" in value:
        return value["pagination"]["total"]
    for name in ("projects", "nodes"):
        if name in value:
            return len(value[name])
    data = value.get("data", value)
    return len(data["relationships"]) if "relationships" in data else 1
