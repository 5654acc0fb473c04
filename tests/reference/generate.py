"""Worlds to try the contracts on: the same seed gives the same bundle, with all in it that goes wrong elsewhere."""

from random import Random
from typing import Any
from uuid import UUID

from tests.reference.model import (
    CLAIM_TYPES,
    CONCEPT_KINDS,
    ENTITY_TYPES,
    RELATION_TYPES,
    STATUSES,
    Row,
)

Bundle = dict[str, list[Row]]

DEFAULT_PROJECT = "00000000-0000-4000-a000-000000000001"
OTHER_PROJECTS = 101  # with the three that have content, more than catalog lists

WORDS = (
    *(
        "straße",
        "STRASSE",
        "Straße",
        "ẞ",
        "İstanbul",
        "istanbul",
        "ISTANBUL",
        "\u0131s\u0131",
        "ﬁnance",
        "Finance",
        "ﬃ",
    ),
    *("café", "cafe\u0301", "CAFÉ", "e\u0301\u0327", "e\u0327\u0301", "Ǆungla", "ǆungla", "ΟΔΟΣ", "οδος", "οδοσ"),
    *("\u212aelvin", "kelvin", "\u212bngström", "ångström", "ŉ", "ᾳ", "\u1fb3\u0345", "\u0345", "\u1e9b\u0323"),
    *(
        "100%",
        "50_50",
        "a_b",
        "a%b",
        "a\\b",
        "\\%",
        "%_%",
        '"quoted"',
        "it's",
        "'; --",
        "{}",
        "<b>&amp;",
        ":name",
        "%(x)s",
    ),
    *("🙂", "👩\u200d🔬", "漢字", "日本語", "日本", "한국어", "\u1112\u1161\u11ab", "\U0001d538lpha", "שלום", "नमस्ते"),
    *("a", "ab", "abc", "ABC", "aB", "x", "the", "Graph", "graph", "theory", "index", "scan", "zz", "  ", "\xa0"),
)
TIED_TITLES = (
    *("Straße und Weg", "STRASSE UND WEG", "strasse und weg", "Café", "Cafe\u0301", "CAFÉ", "Same", "same"),
    *("Same ", "Same  and", "Same!", "Sam"),  # what is kept next to a title must not weigh in
)
DAYS = ("2024-02-29", "2024-12-31", "2025-01-01", "2025-01-02", "2025-01-31", "2025-02-01", "2025-02-20")
CLOCKS = ("00:00:00.000", "00:00:00.001", "12:30:00.000", "12:30:00.120", "23:59:59.998", "23:59:59.999")
KINDS = {
    **dict(zip(("GUIDE", "CONCEPT", "PROJECT", "NEWS"), ENTITY_TYPES, strict=True)),
    "SOURCE": "sourceItem",
    "VIDEO": "video",
    "DISTRIBUTION": "distributionEvent",
}
LISTS = {"sourceItem": "sources", "video": "videos", "distributionEvent": "distributions"}


def ends_of(relation_type: str) -> tuple[str, str]:
    """The kinds of record that a relation of this type goes from and to: its name says so."""
    words = relation_type.split("_")
    return KINDS[words[0]], KINDS[words[-1]]


def generate(seed: int) -> Bundle:
    return _Builder(Random(seed)).build()


class _Builder:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._slugs = 0
        self._relation_keys: set[tuple[str, str, str]] = set()
        self.bundle: Bundle = {
            name: []
            for name in (
                "projects",
                "entities",
                "sources",
                "videos",
                "distributions",
                "relations",
                "searchPerformance",
                "quotableBlocks",
            )
        }

    def build(self) -> Bundle:
        busy, plain, edge = (self._project(slug, slug) for slug in ("busy", "plain", "edge-cases"))
        self.bundle["projects"][0]["id"] = busy = DEFAULT_PROJECT
        for number in range(OTHER_PROJECTS):
            self._project(f"other-{number}", self._title()[:200])
        self._fill(busy, concepts=60, guides=35, projects=15, news=20, relations=950, performance=220, blocks=100)
        self._hub(busy)
        self._fill(plain, concepts=20, guides=15, projects=8, news=8, relations=160, performance=90, blocks=50)
        self._boundaries(edge)
        self._shout()
        for rows in self.bundle.values():
            self._rng.shuffle(rows)
        return self.bundle

    # --- single values

    def _id(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def _maybe(self, value: Any, chance: float = 0.6) -> Any:
        return value if self._rng.random() < chance else None

    def _text(self, least: int, most: int) -> str:
        return " ".join(self._rng.choices(WORDS, k=self._rng.randint(least, most)))

    def _prose(self, least: int, most: int) -> str:
        """With line breaks in it, at times."""
        return self._rng.choice((" ", " ", "\n", "\r\n", "\t", "\u2028")).join(
            (self._text(1, 2), self._text(least, most))
        )

    def _words(self, most: int) -> str:
        return self._text(1, most).strip() or "blank"

    def _title(self) -> str:
        rng = self._rng
        return rng.choice(TIED_TITLES) if rng.random() < 0.3 else self._words(40 if rng.random() < 0.05 else 5)

    def _slug(self) -> str:
        """One of a few words with a number, so that parts of slugs are found in many."""
        self._slugs += 1
        return f"{self._rng.choice(('index', 'graph-theory', 'strasse', 'a', 'abc'))}-{self._slugs}"

    def _time(self) -> str:
        return f"{self._rng.choice(DAYS)}T{self._rng.choice(CLOCKS)}Z"

    def _times(self) -> dict[str, str]:
        created, updated = sorted((self._time(), self._time()))
        return {"createdAt": created, "updatedAt": updated}

    def _url(self) -> str:
        return f"https://example.org/{self._words(1)}/{self._rng.choice(('a', 'A', 'b%20c', 'd_e'))}"

    # --- rows

    def _project(self, slug: str, name: str) -> str:
        row = {"id": self._id(), "slug": slug, "name": name, "description": self._maybe(self._prose(1, 6))}
        self.bundle["projects"].append(row | self._times())
        return row["id"]

    def _entity(self, project: str, kind: str, title: str | None = None) -> Row:
        rng = self._rng
        row: Row = {
            "id": self._id(),
            "projectId": project,
            "entityType": kind,
            "title": title or self._title(),
            "slug": self._slug(),
            "summary": self._maybe(self._prose(1, 12)),
            "difficulty": self._maybe(rng.choice(("beginner", "intermediate", "advanced"))),
            "conceptKind": self._maybe(rng.choice(CONCEPT_KINDS)) if kind == "concept" else None,
            "repoUrl": self._maybe(self._url()) if kind == "project" else None,
            "repoDefaultBranch": self._maybe("main") if kind == "project" else None,
            "license": self._maybe("MIT") if kind == "project" else None,
            "status": rng.choice(STATUSES),
            "canonicalUrl": self._maybe(self._url()),
            "contentRef": self._maybe("content/x.md"),
            "publishedAt": self._maybe(self._time()),
            "archivedAt": self._maybe(self._time(), 0.2),
            "lastVerifiedAt": self._maybe(self._time()),
        }
        if row["conceptKind"] == "comparison":
            others = self._of(project, "concept")
            row["comparisonTargets"] = [each["id"] for each in rng.sample(others, min(len(others), rng.randint(0, 3)))]
        self.bundle["entities"].append(row | self._times())
        return self.bundle["entities"][-1]

    def _of(self, project: str, kind: str) -> list[Row]:
        rows = self.bundle[LISTS.get(kind, "entities")]
        return [row for row in rows if row["projectId"] == project and row.get("entityType", kind) == kind]

    def _other(self, project: str, kind: str) -> Row:
        """A source, a video or a distribution event."""
        row: Row = {"id": self._id(), "projectId": project, "title": self._title()}
        row["url"] = f"https://example.org/{kind}/{len(self.bundle[LISTS[kind]])}"
        self.bundle[LISTS[kind]].append(row)
        return row

    def _relate(self, project: str, kind: str, start: Row, end: Row) -> None:
        """Unless there is that relation already."""
        key = (start["id"], kind, end["id"])
        if key in self._relation_keys:
            return
        self._relation_keys.add(key)
        from_type, to_type = ends_of(kind)
        self.bundle["relations"].append(
            {
                "id": self._id(),
                "projectId": project,
                "relationType": kind,
                "fromEntityType": from_type,
                "fromEntityId": start["id"],
                "toEntityType": to_type,
                "toEntityId": end["id"],
                "notes": self._maybe(self._prose(1, 3), 0.3),
                "createdAt": self._time(),
            }
        )

    # --- projects with content

    def _fill(
        self,
        project: str,
        *,
        concepts: int,
        guides: int,
        projects: int,
        news: int,
        relations: int,
        performance: int,
        blocks: int,
    ) -> None:
        rng = self._rng
        for kind, number in (("concept", concepts), ("guide", guides), ("project", projects), ("news", news)):
            for _ in range(number):
                self._entity(project, kind)
        for kind in LISTS:
            for _ in range(12):
                self._other(project, kind)
        kinds = [*RELATION_TYPES, *["CONCEPT_RELATES_TO_CONCEPT"] * 6]
        for _ in range(relations):
            kind = rng.choice(kinds)
            start, end = (rng.choice(self._of(project, each)) for each in ends_of(kind))
            self._relate(project, kind, start, end)
        entities = [row["id"] for row in self.bundle["entities"] if row["projectId"] == project]
        self._performance(project, rng.sample(entities, 12), performance)
        self._blocks(project, rng.sample(entities, 12), blocks)

    def _performance(self, project: str, entities: list[str], number: int) -> None:
        rng = self._rng
        pages = [self._url() for _ in range(15)]
        queries = [self._words(3) for _ in range(30)]
        seen: set[tuple[str, str, str, str]] = set()
        while len(seen) < number:
            start, end = sorted((self._time(), self._time()))
            key = (rng.choice(queries), rng.choice(pages), start, end)
            if key in seen:
                continue
            seen.add(key)
            impressions = rng.choice((0, 1, 7, 1000, 10**9))
            self.bundle["searchPerformance"].append(
                {
                    "id": self._id(),
                    "projectId": project,
                    "entityId": self._maybe(rng.choice(entities)),
                    "query": key[0],
                    "pageUrl": key[1],
                    "impressions": impressions,
                    "clicks": rng.randint(0, impressions),
                    "ctr": rng.choice((0.0, 1.0, 0.5, 0.1, 1e-7, 0.3333333333333333, rng.random())),
                    "avgPosition": rng.choice((1.0, 0.5, 12.25, 100.0, rng.random() * 90 + 1)),
                    "dateStart": start,
                    "dateEnd": end,
                    "capturedAt": self._time(),
                }
            )

    def _blocks(self, project: str, entities: list[str], number: int) -> None:
        rng = self._rng
        for _ in range(number):
            row = {
                "id": self._id(),
                "projectId": project,
                "entityId": rng.choice(entities),
                "text": self._prose(25, 40),
                "claimType": rng.choice(CLAIM_TYPES),
                "sourceCitation": self._maybe(self._text(1, 3)),
                "verifiedUntil": self._maybe(self._time()),
                "topicTag": self._maybe(self._words(2)),
            }
            self.bundle["quotableBlocks"].append(row | self._times())

    # --- shapes

    def _hub(self, project: str) -> None:
        """A concept related to everything, to most of it twice, and to itself."""
        hub = self._entity(project, "concept", "The hub")
        for kind in RELATION_TYPES:
            for here, there in (ends_of(kind), ends_of(kind)[::-1]):
                if here == "concept":
                    for row in self._of(project, there):
                        start, end = (hub, row) if ends_of(kind)[0] == "concept" else (row, hub)
                        self._relate(project, kind, start, end)
                        if kind == "CONCEPT_RELATES_TO_CONCEPT":
                            self._relate(project, kind, end, start)

    def _boundaries(self, project: str) -> None:
        """Graphs right at each cap and one past it. The titles say which."""
        related = "CONCEPT_RELATES_TO_CONCEPT"
        leaves = [self._entity(project, "concept") for _ in range(100)]
        for nodes in (100, 101):
            centre = self._entity(project, "concept", f"{nodes} nodes")
            for leaf in leaves[: nodes - 1]:
                self._relate(project, related, *((centre, leaf) if self._rng.random() < 0.5 else (leaf, centre)))
        for edges in (200, 201):
            clique = [self._entity(project, "concept", f"{edges} edges at depth 2") for _ in range(14)]
            for start in clique:
                for end in clique:
                    self._relate(project, related, start, end)
            guides = [self._entity(project, "guide") for _ in range(2)]
            for guide in guides:
                self._relate(project, "GUIDE_USES_CONCEPT", guide, clique[0])
                self._relate(project, "GUIDE_EXPLAINS_CONCEPT", guide, clique[0])
            if edges > 200:
                self._relate(project, "PROJECT_IMPLEMENTS_CONCEPT", self._entity(project, "project"), clique[0])
        sources = [self._other(project, "sourceItem") for _ in range(1001)]
        for relations in (1000, 1001):
            centre = self._entity(project, "concept", f"{relations} relations")
            for source in sources[:relations]:
                self._relate(project, "CONCEPT_REFERENCES_SOURCE", centre, source)

    def _shout(self) -> None:
        """Some ids in upper case, where they are given and where they are referred to."""
        for rows in self.bundle.values():
            for row in rows:
                for name in ("id", "projectId", "entityId", "fromEntityId", "toEntityId"):
                    if row.get(name) is not None and self._rng.random() < 0.02:
                        row[name] = row[name].upper()
