"""Content of any size as a bundle for `carrel import content`, and what there is to ask of it.

The same size always gives the same bytes. Words are made of syllables without j, q, x and z, so that whatever is
planted with those letters is found in the rows it was planted in and nowhere else, however much else there is.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TextIO

from pydantic_core import to_json

PROJECT_IDS = [f"00000000-0000-4000-a000-{number:012d}" for number in range(1, 21)]
MAIN, SECOND = PROJECT_IDS[:2]
PLANTED = 30  # rows that hold each rare needle, whatever the size
DAYS = 500
FIRST_DAY = 20_000  # since 1970
MILLISECONDS_A_DAY = 86_400_000
TYPES = ("guide", "concept", "project", "news")
STATUSES = ("draft", "publish_requested", "published", "archived")
KINDS = ("standard", "model", "comparison")
CLAIMS = ("statistic", "comparison", "definition", "howto_step")
FITTING = {
    ("guide", "concept"): ("GUIDE_USES_CONCEPT", "GUIDE_EXPLAINS_CONCEPT"),
    ("concept", "concept"): ("CONCEPT_RELATES_TO_CONCEPT",),
    ("project", "concept"): ("PROJECT_IMPLEMENTS_CONCEPT",),
    ("project", "guide"): ("PROJECT_HAS_GUIDE",),
    ("news", "concept"): ("NEWS_REFERENCES_CONCEPT",),
}
TWO, THREE, TWENTY = "jq", "zxj", "quizzical jukebox qx"
COMMON_TWO, COMMON_THREE = "an", "ran"
COMMON_TWENTY = "the gardeners' guide"  # in every fifth title, query and topic
HOST = "https://example.org/"  # of every page, twenty characters too


@dataclass(frozen=True, slots=True)
class Size:
    entities: int
    relations: int
    hub: int
    performance: int
    blocks: int

    def scaled(self, fraction: float) -> Size:
        def part(number: int) -> int:
            return max(100, round(number * fraction))

        return Size(
            part(self.entities), part(self.relations), part(self.hub), part(self.performance), part(self.blocks)
        )


FULL = Size(entities=200_000, relations=1_000_000, hub=30_000, performance=1_000_000, blocks=200_000)


@dataclass(slots=True)
class Landmarks:
    """Ids to ask for. The ordinary ones have as many relations as most, and are more than a step from the hub."""

    hub: str
    word: str
    """Of which every query has three out of two thousand, and every title four."""
    ordinary: list[str] = field(default_factory=list[str])
    with_performance: list[str] = field(default_factory=list[str])
    with_blocks: list[str] = field(default_factory=list[str])


def write_bundle(path: Path, size: Size) -> Landmarks:
    """Write gzipped JSON Lines to `path`."""
    with gzip.open(path, "wt", compresslevel=1, encoding="utf-8") as file:
        return _Writer(file, size).write()


class _Writer:
    def __init__(self, file: TextIO, size: Size) -> None:
        self._rng = Random(size.entities)
        self._chance = Random(size.entities)
        self._file = file
        self._size = size
        self._words = list(dict.fromkeys(_word(self._rng) for _ in range(3000)))[:2000]
        self._ids = [self._id() for _ in range(size.entities)]
        self._types = [_type_of(number) for number in range(size.entities)]
        self._sources = [self._id() for _ in range(max(10, size.entities // 20))]

    def write(self) -> Landmarks:
        hub = next(number for number, kind in enumerate(self._types) if kind == "concept")
        marks = Landmarks(self._ids[hub], max(self._words, key=len))
        self._projects()
        self._entities()
        for number, source in enumerate(self._sources):
            self._line("source", id=source, projectId=MAIN, url=f"{HOST}source/{number}")
        degrees, near_hub = self._relations(hub)
        usual = [
            number
            for number, degree in enumerate(degrees)
            if degree == 2 * self._size.relations // self._size.entities and number not in near_hub
        ]
        marks.ordinary = [self._ids[number] for number in self._rng.sample(usual, min(20, len(usual)))]
        marks.with_performance = self._performance()
        marks.with_blocks = self._blocks()
        return marks

    # --- what goes in

    def _projects(self) -> None:
        for number, project in enumerate(PROJECT_IDS):
            self._line(
                "project",
                id=project,
                slug=f"project-{number}",
                name=f"Project {number}",
                description=self._text(8),
                **self._times(),
            )

    def _entities(self) -> None:
        planted = self._planted(self._size.entities)
        for number, (entity, kind) in enumerate(zip(self._ids, self._types, strict=True)):
            slug = f"{self._text(2).replace(' ', '-')}-{number}"
            self._line(
                "entity",
                id=entity,
                projectId=MAIN,
                entityType=kind,
                title=self._text(4) + self._common() + planted.get(number, ""),
                slug=slug,
                summary=self._text(12),
                difficulty=None,
                conceptKind=KINDS[number // 4 % 3] if kind == "concept" else None,
                status=STATUSES[self._rng.randrange(4)],
                canonicalUrl=f"{HOST}{slug}",
                **self._times(),
            )

    def _relations(self, hub: int) -> tuple[list[int], set[int]]:
        """How many relations each entity has, and which are related to the hub."""
        rng, size = self._rng, self._size
        by_type = {kind: [n for n, each in enumerate(self._types) if each == kind] for kind in TYPES}
        degrees = [0] * size.entities
        near_hub = {hub}
        pairs = {(hub, hub)}
        lines = 0
        sources = min(size.hub // 30, len(self._sources))
        for source in self._sources[:sources]:
            self._relation("CONCEPT_REFERENCES_SOURCE", ("concept", self._ids[hub]), ("sourceItem", source))
        for kind, ends in _towards(by_type, size.hub - sources):
            for near in ends:
                if (near, hub) not in pairs:
                    pairs.add((near, hub))
                    near_hub.add(near)
                    degrees[near] += 1
                    self._relation(kind, (self._types[near], self._ids[near]), ("concept", self._ids[hub]))
                    lines += 1
        while lines < size.relations - sources:
            start_type, end_type = rng.choice(list(FITTING))
            start, end = rng.choice(by_type[start_type]), rng.choice(by_type[end_type])
            if (start, end) in pairs or hub in (start, end):
                continue
            pairs.add((start, end))
            degrees[start] += 1
            degrees[end] += 1
            kinds = FITTING[start_type, end_type]
            self._relation(kinds[lines % len(kinds)], (start_type, self._ids[start]), (end_type, self._ids[end]))
            lines += 1
        return degrees, near_hub

    def _relation(self, kind: str, start: tuple[str, str], end: tuple[str, str]) -> None:
        self._line(
            "relation",
            id=self._id(),
            projectId=MAIN,
            relationType=kind,
            fromEntityType=start[0],
            fromEntityId=start[1],
            toEntityType=end[0],
            toEntityId=end[1],
            notes=None,
            createdAt=self._time(),
        )

    def _performance(self) -> list[str]:
        """Rows of single days. Some entities that have about as many rows as most."""
        rng, size = self._rng, self._size
        planted = self._planted(size.performance)
        seen: set[tuple[int, int, str]] = set()
        rows = [0] * size.entities
        while len(seen) < size.performance:
            number = len(seen)
            entity, day, query = rng.randrange(size.entities), rng.randrange(DAYS), self._text(3) + self._common()
            if (entity, day, query) in seen:
                continue
            seen.add((entity, day, query))
            linked = rng.random() < 0.7
            rows[entity] += linked
            impressions = rng.randrange(1, 10_000)
            clicks = rng.randrange(impressions)
            self._line(
                "searchPerformance",
                id=self._id(),
                projectId=MAIN,
                entityId=self._ids[entity] if linked else None,
                pageUrl=f"{HOST}{entity}/{self._text(1)}{planted.get(number, '').replace(' ', '-')}",
                query=query + planted.get(number, ""),
                impressions=impressions,
                clicks=clicks,
                ctr=clicks / impressions,
                avgPosition=1 + rng.random() * 60,
                dateStart=_written((FIRST_DAY + day) * MILLISECONDS_A_DAY),
                dateEnd=_written((FIRST_DAY + day) * MILLISECONDS_A_DAY),
                capturedAt=_written((FIRST_DAY + day + 3) * MILLISECONDS_A_DAY),
            )
        return self._with(rows, 0.7 * size.performance / size.entities)

    def _blocks(self) -> list[str]:
        planted = self._planted(self._size.blocks)
        rows = [0] * self._size.entities
        for number in range(self._size.blocks):
            entity = self._rng.randrange(self._size.entities)
            rows[entity] += 1
            self._line(
                "quotableBlock",
                id=self._id(),
                projectId=MAIN,
                entityId=self._ids[entity],
                text=self._text(30),
                claimType=CLAIMS[self._rng.randrange(4)],
                sourceCitation=None,
                verifiedUntil=self._time(),
                topicTag=self._words[self._rng.randrange(500)] + self._common() + planted.get(number, ""),
                **self._times(),
            )
        return self._with(rows, 2)

    # --- single values

    def _line(self, kind: str, **fields: object) -> None:
        self._file.write(to_json({"kind": kind, **fields}).decode() + "\n")

    def _id(self) -> str:
        text = f"{self._rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def _text(self, words: int) -> str:
        return " ".join(self._rng.choices(self._words, k=words))

    def _common(self) -> str:
        return f" {COMMON_TWENTY}" if self._chance.random() < 0.2 else ""

    def _time(self) -> str:
        return _written(FIRST_DAY * MILLISECONDS_A_DAY + self._rng.randrange(DAYS * MILLISECONDS_A_DAY))

    def _times(self) -> dict[str, str]:
        created, updated = sorted((self._time(), self._time()))
        return {"createdAt": created, "updatedAt": updated}

    def _planted(self, rows: int) -> dict[int, str]:
        """By row, the rare needle that it gets."""
        chosen = self._rng.sample(range(rows), PLANTED * 3)
        needles = [needle for needle in (TWO, THREE, TWENTY) for _ in range(PLANTED)]
        return {row: f" {needle}" for row, needle in zip(chosen, needles, strict=True)}

    def _with(self, rows: list[int], usual: float) -> list[str]:
        found = [number for number, count in enumerate(rows) if count == max(1, round(usual))]
        return [self._ids[number] for number in self._rng.sample(found, min(20, len(found)))]


def _towards(by_type: dict[str, list[int]], number: int) -> Iterator[tuple[str, list[int]]]:
    """The relations that lead to a hub: half of them from guides, the rest from concepts."""
    guides = by_type["guide"][: number // 2]
    yield "GUIDE_USES_CONCEPT", guides
    yield "CONCEPT_RELATES_TO_CONCEPT", by_type["concept"][: number - len(guides) + 1]


def _type_of(number: int) -> str:
    return ("concept", "guide", "concept", "guide", "concept", "guide", "concept", "project", "news", "news")[
        number % 10
    ]


def _word(rng: Random) -> str:
    return "".join(rng.choice("bcdfghklmnprstvw") + rng.choice("aeiou") for _ in range(rng.randint(1, 3))) + rng.choice(
        ("", "n", "r", "s") * 6 + ("ran",)
    )


def _written(milliseconds: int) -> str:
    """A time as the contracts write it; faster than strftime, and there are millions."""
    days, rest = divmod(milliseconds, MILLISECONDS_A_DAY)
    year, month, day = _civil(days)
    seconds, thousandths = divmod(rest, 1000)
    return (
        f"{year:04d}-{month:02d}-{day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        f".{thousandths:03d}Z"
    )


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970, by the usual arithmetic on years that begin in March."""
    days += 719_468
    era, of_era = divmod(days, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return year_of_era + era * 400 + (month <= 2), month, day
