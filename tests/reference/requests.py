"""Calls to try the contracts with, mostly valid, cut from the data that they are asked of."""

import unicodedata
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from tests.reference.generate import Bundle
from tests.reference.model import CLAIM_TYPES, CONCEPT_KINDS, ENTITY_TYPES, RELATION_TYPES, STATUSES

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Get:
    """A request to the backend."""

    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    cookies: dict[str, str]


PROJECT_WEIGHTS = {"busy": 6, "plain": 8, "edge-cases": 1, "other-0": 1}
NEEDLES = (
    "%",
    "_",
    "\\",
    "%%",
    "\\%",
    "'",
    '"',
    "ss",
    "SS",
    "ß",
    "i",
    "I",
    "İ",
    "i\u0307",
    "fi",
    "\u0301",
    "🙂",
    "漢",
    "\x01",
    "same\x01",
    "\x01index",
    "no such",
)
DATES = (
    *("2025-01-01", "2025-01-31", "2024-02-29", "2024-12-31", "2025-02-20", "0001-01-01", "9999-12-31"),
    *("2025-01-01T00:00:00Z", "2025-01-01T00:00:00.001Z", "2025-01-31T12:30:00.12Z", "2025-01-31T12:30:00.1Z"),
    *("2024-12-31T23:59:59Z", "2024-12-31T23:59:59.998Z", "2025-01-02T23:59:59.999Z"),
)
BAD_DATES = (
    *("2025-02-29", "2025-13-01", "2025-00-10", "2025-01-00", "2025-04-31", "0000-01-01", "25-01-01", "2025-1-1", ""),
    *("01/02/2025", "01.02.2025", "2025-01-01T00:00:00", "2025-01-01T00:00:00+00:00", "2025-01-01T00:00:00-05:00"),
    *("2025-01-01T24:00:00Z", "2025-01-01T23:60:00Z", "2025-01-01T23:59:60Z", "2025-01-01T00:00:00.1234Z"),
    *("2025-01-01T00:00Z", "2025-01-01 00:00:00Z", "2025-01-01t00:00:00z", "2025-01-01T00:00:00.Z", "20250101"),
    *("2025-01-01\n", " 2025-01-01", "\uff12\uff10\uff12\uff15-01-01", "2025-W01-1", "now", "2025-01-01T00:00:00,5Z"),
)
BAD_IDS = (
    *("", "x", "00000000-0000-4000-a000-00000000000", "00000000000040 00a000000000000001", "not-a-uuid"),
    *("00000000-0000-4000-a000-000000000001\n", " 00000000-0000-4000-a000-000000000001"),
    *("{00000000-0000-4000-a000-000000000001}", "urn:uuid:00000000-0000-4000-a000-000000000001"),
    *(
        "0000000000004000a000000000000001",
        "g0000000-0000-4000-a000-000000000001",
        "\uff10\uff10000000-0000-4000-a000-000000000001",
    ),
)
NOT_RFC_4122 = (
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "01890a5d-ac96-774b-bcce-b302099a8057",  # version 7
    "00000000-0000-4000-c000-000000000001",  # variant c
)
"""UUIDs in form, which is all that catalog asks; bridge takes versions 1 to 5 only."""
ANYTHING = (None, True, False, 0, -1, 1.5, 101, 10**29, "5", "", "x", [], ["guide"], [1], {}, "\0", "a\0b", "\ud800")
BAD_TYPES = ("NO_SUCH_TYPE", "guide_uses_concept", ",", "GUIDE_USES_CONCEPT,", ",GUIDE_USES_CONCEPT", "A,,B", " ")
PLACES = {
    "catalog": {
        "search_entities": ("projectId", "query", "entityTypes", "limit", "more"),
        "get_entity": ("projectId", "entityId", "more"),
        "get_entity_graph": ("projectId", "entityId", "depth", "relationshipTypes", "more"),
        "list_projects": ("more", "projectId", "limit"),
    },
    "bridge": {
        "list_projects": ("page", "limit", "more", "projectId"),
        "search_entities": ("projectId", "entityType", "status", "conceptKind", "search", "page", "limit", "more"),
        "get_entity": ("projectId", "entityId", "more"),
        "get_entity_graph": ("projectId", "entityId", "depth", "relationshipTypes", "more"),
        "list_search_performance": (
            *("projectId", "query", "pageUrl", "entityId", "dateStart", "dateEnd", "page", "limit", "more"),
        ),
        "list_quotable_blocks": (
            *("projectId", "entityId", "claimType", "topicTag", "verifiedUntilBefore", "verifiedUntilAfter"),
            *("page", "limit", "more"),
        ),
    },
}
WEIGHTS = {
    "list_projects": 1,
    "search_entities": 12,
    "get_entity": 4,
    "get_entity_graph": 6,
    "list_search_performance": 12,
    "list_quotable_blocks": 8,
}

PATHS = {
    "list_projects": "/api/projects",
    "search_entities": "/api/entities",
    "get_entity": "/api/entities/{}",
    "get_entity_graph": "/api/entities/{}/graph",
    "list_search_performance": "/api/seo/search-performance",
    "list_quotable_blocks": "/api/quotable-blocks",
}
ODD_PARAMETERS = (
    *(("page", text) for text in ("", "0", "-1", "+1", " 1", "1.0", "1e1", "\u0661", "x", "0x1", "1_0", "9" * 30)),
    *(("limit", text) for text in ("", "0", "101", "1.5", "20", "\uff11")),
    *(("depth", text) for text in ("", "0", "3", "1", "two")),
    *(("entityType", ""), ("status", "DRAFT"), ("conceptKind", "x"), ("claimType", ""), ("claimType", "fact")),
    *(("search", ""), ("query", ""), ("pageUrl", ""), ("topicTag", ""), ("relationshipTypes", "")),
    *(("relationshipTypes", text) for text in BAD_TYPES),
    *(("dateStart", text) for text in BAD_DATES),
    *(("verifiedUntilBefore", text) for text in BAD_DATES),
    *(("entityId", text) for text in (*BAD_IDS, *NOT_RFC_4122)),
    *(("projectId", "00000000-0000-4000-a000-000000000001"), ("more", ""), ("Page", "1"), ("", "")),
    *(("search", "\0"), ("query", "a\0"), ("topicTag", "\0")),
)


class Asker:
    """Draws requests on a bundle's data; the same seed draws the same ones."""

    def __init__(self, bundle: Bundle, seed: int) -> None:
        self._rng = Random(seed)
        self._bundle = bundle
        self._ids = {row["slug"]: row["id"].lower() for row in bundle["projects"]}
        self._rows = {
            (slug, name): [row for row in rows if row["projectId"].lower() == self._ids[slug]]
            for slug in PROJECT_WEIGHTS
            for name, rows in bundle.items()
            if name != "projects"
        }

    def call(self, toolset: str, tool: str | None = None) -> Call:
        """A tool, unless it is named, and its arguments; one in eight is likely to be refused."""
        rng = self._rng
        places = PLACES[toolset]
        tool = tool or rng.choices(list(places), [WEIGHTS[name] for name in places])[0]
        arguments = self._valid(toolset, tool)
        if rng.random() < 0.13:
            self._spoil(places[tool], arguments)
        return tool, arguments

    def both(self) -> tuple[str, dict[str, Any], Get]:
        """A valid call of a tool, and the request that it comes to."""
        tool = self._rng.choices(list(PATHS), [WEIGHTS[name] for name in PATHS])[0]
        arguments = self._valid("bridge", tool)
        given = dict(arguments)
        project = given.pop("projectId", None)
        path = PATHS[tool].format(given.pop("entityId") if "{}" in PATHS[tool] else "")
        whole = ("page", "limit", "depth")
        query = [(name, str(int(value) if name in whole else value)) for name, value in given.items()]
        return tool, arguments, Get(path, query, {"x-project-id": project} if project else {}, {})

    def get(self) -> Get:
        """A request to the backend as a tool makes it, or as somebody else might."""
        rng = self._rng
        _, _, made = self.both()
        query = list(made.query)
        if rng.random() < 0.2:
            query.append(rng.choice(ODD_PARAMETERS))
        if query and rng.random() < 0.05:
            query.append(rng.choice(query))
        rng.shuffle(query)
        headers, cookies = self._naming(made.headers.get("x-project-id", ""))
        return Get(made.path, query, headers, cookies)

    def _naming(self, project: str) -> tuple[dict[str, str], dict[str, str]]:
        """Headers and cookies that name a project, and some that do not."""
        rng = self._rng
        others = ("", "x", self._nobody(), self._ids["plain"], self._ids["other-0"].upper(), *NOT_RFC_4122)
        headers: dict[str, str] = {}
        cookies: dict[str, str] = {}
        if rng.random() < 0.6:
            headers["x-project-id"] = project if rng.random() < 0.8 else rng.choice(others)
        if rng.random() < 0.3:
            slugs = ("busy", "plain", "plain", "other-0", "", "nowhere", "PLAIN", project)
            headers["x-project-slug"] = rng.choice(slugs)
        if rng.random() < 0.3:
            cookies["projectId"] = rng.choice((project, *others))
        return headers, cookies

    # --- valid calls

    def _valid(self, toolset: str, tool: str) -> dict[str, Any]:
        rng = self._rng
        if tool == "list_projects":
            return self._paging() if toolset == "bridge" else {}
        slug = rng.choices(list(PROJECT_WEIGHTS), list(PROJECT_WEIGHTS.values()))[0]
        given: dict[str, Any] = {"projectId": self._project(slug)}
        if tool == "search_entities":
            if toolset == "catalog":
                given["query"] = self._needle(slug, "entities", "title", "slug", "summary")[:256]
                self._sometimes(given, "entityTypes", self._some_of(ENTITY_TYPES))
                self._sometimes(given, "limit", rng.choice((1, 2, 5.0, 20, 49, 50)))
            else:
                self._sometimes(given, "entityType", rng.choice(ENTITY_TYPES))
                self._sometimes(given, "status", rng.choice(STATUSES))
                self._sometimes(given, "conceptKind", rng.choice(CONCEPT_KINDS), 0.15)
                self._sometimes(given, "search", self._needle(slug, "entities", "title", "slug"), 0.6)
        elif tool in ("get_entity", "get_entity_graph"):
            given["entityId"] = self._entity(slug)
            if tool == "get_entity_graph":
                self._sometimes(given, "depth", rng.choice((1, 2, 2.0)), 0.6)
                types = self._some_of(RELATION_TYPES)
                if toolset == "bridge":
                    types = rng.choice((",", ", ", " , ")).join(types)
                self._sometimes(given, "relationshipTypes", types)
        elif tool == "list_search_performance":
            self._sometimes(given, "query", self._needle(slug, "searchPerformance", "query"))
            self._sometimes(given, "pageUrl", self._needle(slug, "searchPerformance", "pageUrl"))
            self._sometimes(given, "entityId", self._referred(slug, "searchPerformance"), 0.2)
            self._sometimes(given, "dateStart", rng.choice(DATES))
            self._sometimes(given, "dateEnd", rng.choice(DATES))
        else:
            self._sometimes(given, "entityId", self._referred(slug, "quotableBlocks"), 0.3)
            self._sometimes(given, "claimType", rng.choice(CLAIM_TYPES))
            self._sometimes(given, "topicTag", self._needle(slug, "quotableBlocks", "topicTag"))
            self._sometimes(given, "verifiedUntilBefore", rng.choice(DATES))
            self._sometimes(given, "verifiedUntilAfter", rng.choice(DATES))
        if toolset == "bridge" and tool not in ("get_entity", "get_entity_graph"):
            given |= self._paging()
        return given

    def _sometimes(self, given: dict[str, Any], name: str, value: Any, chance: float = 0.35) -> None:
        if self._rng.random() < chance:
            given[name] = value

    def _paging(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        self._sometimes(given, "page", self._rng.choice((1, 1, 1.0, 2, 2, 2, 3, 3, 4.0, 7, 50, 2**31, 2**63, 10**25)))
        self._sometimes(given, "limit", self._rng.choice((1, 2, 7, 20.0, 99, 100)))
        return given

    def _some_of(self, values: tuple[str, ...]) -> list[str]:
        return self._rng.sample(values, self._rng.randint(0, min(4, len(values))))

    def _project(self, slug: str) -> str:
        draw = self._rng.random()
        if draw < 0.04:
            return self._nobody()
        return self._ids[slug].upper() if draw < 0.1 else self._ids[slug]

    def _nobody(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def _entity(self, slug: str) -> str:
        """Mostly an entity of the project; else one of another, or something that is no entity, or nothing at all."""
        draw = self._rng.random()
        if draw < 0.05:
            return self._nobody()
        if draw < 0.15:
            return self._rng.choice(self._rng.choice([rows for rows in self._rows.values() if rows]))["id"]
        rows = self._rows[slug, "entities"]
        if not rows:
            return self._nobody()
        entity = self._rng.choice(rows)["id"]
        return entity.upper() if draw < 0.25 else entity.lower()

    def _referred(self, slug: str, name: str) -> str:
        rows = [row for row in self._rows[slug, name] if row["entityId"]]
        return self._rng.choice(rows)["entityId"] if rows and self._rng.random() < 0.8 else self._entity(slug)

    def _needle(self, slug: str, name: str, *fields: str) -> str:
        """A piece of a text that is there, in another case or normal form at times."""
        rng = self._rng
        rows = self._rows[slug if rng.random() < 0.9 else "plain", name]
        texts = [row[field] for row in rng.sample(rows, min(3, len(rows))) for field in fields if row[field]]
        if not texts or rng.random() < 0.08:
            return rng.choice(NEEDLES)
        text = rng.choice(texts)
        length = rng.choice((1, 2, 2, 3, 3, 4, 6, 20))
        start = rng.randint(0, max(0, len(text) - length))
        piece = text[start : start + length] or text
        changes = (str.upper, str.lower, str.swapcase, str.title, str.casefold)
        if rng.random() < 0.4:
            piece = rng.choice(changes)(piece)
        return unicodedata.normalize(rng.choice(("NFC", "NFD")), piece) if rng.random() < 0.3 else piece

    # --- and others

    def _spoil(self, places: tuple[str, ...], arguments: dict[str, Any]) -> None:
        """One argument missing, of another type, out of range or unknown."""
        rng = self._rng
        name = rng.choice(places)
        draw = rng.random()
        if draw < 0.15:
            arguments.pop(name, None)
        elif draw < 0.5 or name == "more":
            arguments[name] = rng.choice(ANYTHING)
        elif name in ("projectId", "entityId"):
            arguments[name] = rng.choice(rng.choice((BAD_IDS, NOT_RFC_4122)))
        elif name.startswith(("date", "verified")):
            arguments[name] = rng.choice(BAD_DATES)
        elif name == "relationshipTypes":
            bad: tuple[Any, ...] = (*BAD_TYPES, ["GUIDE_USES_CONCEPT"] * 2, ["NOPE"])
            arguments[name] = rng.choice(bad)
        elif name == "entityTypes":
            arguments[name] = rng.choice((["guide", "guide"], ["Guide"], ["video"], [*ENTITY_TYPES, "guide"]))
        elif name in ("page", "limit", "depth"):
            arguments[name] = rng.choice((0, -1, 3, 51, 101, 1.5, "1", True, None, 1e20, -(10**29)))
        else:
            arguments[name] = rng.choice(("", "GUIDE", "published ", "x" * 257, "ß" * 256, "\0", "\ud800", None))
