"""A content bundle made by hand: what the rules of both contracts need to be seen at work, with ids that are known."""

from typing import Any

Row = dict[str, Any]

USES, EXPLAINS = "GUIDE_USES_CONCEPT", "GUIDE_EXPLAINS_CONCEPT"
RELATES, HAS_GUIDE, NEWS_ON = "CONCEPT_RELATES_TO_CONCEPT", "PROJECT_HAS_GUIDE", "NEWS_REFERENCES_CONCEPT"
GUIDE_SOURCE, CONCEPT_SOURCE = "GUIDE_REFERENCES_SOURCE", "CONCEPT_REFERENCES_SOURCE"
VIDEO_ON, PROMOTES = "VIDEO_EXPLAINS_GUIDE", "DISTRIBUTION_PROMOTES_GUIDE"


def uid(group: int, number: int) -> str:
    return f"{group:08x}-0000-4000-a000-{number:012x}"


def at(day: int, second: int = 0, month: int = 1) -> str:
    return f"2025-{month:02}-{day:02}T00:00:{second:02}.000Z"


# --- projects

DEFAULT, ALPHA, BETA, GAMMA, HUB, EMPTY = uid(0, 1), uid(0xA, 1), uid(0xA, 2), uid(0xA, 3), uid(0xA, 4), uid(0xA, 5)
NOWHERE = uid(0xA, 0xFFF)  # no project, no entity
UNICODE_NAMES = {uid(0xB, 1): "strasse", uid(0xB, 2): "Straße", uid(0xB, 3): "STRASSE"}
BY_NAME = ["_under", "alpha", "Beta", "Empty", "gamma", "Hub", "Psymetric", "strasse", "Straße", "STRASSE", "Zebra"]
"""The projects in order of name, fillers and what comes after them left out."""


def project(number: str, slug: str, name: str, **more: Any) -> Row:
    return {"id": number, "name": name, "slug": slug, "createdAt": at(1), "updatedAt": at(2), **more}


def projects() -> list[Row]:
    return [
        project(uid(0xB, 9), "a-c", "\u00c9clair"),
        project(uid(0xB, 8), "ab", "Zebra"),
        project(DEFAULT, "psymetric", "Psymetric", description="The default project"),
        project(ALPHA, "alpha", "alpha", description="Söme “description”", createdAt="2025-01-01T00:00:00.123Z"),
        project(BETA, "beta", "Beta"),
        project(GAMMA, "gamma", "gamma"),
        project(HUB, "hub", "Hub"),
        project(EMPTY, "empty", "Empty"),
        project(uid(0xB, 7), "under", "_under"),
        *(project(number, f"street-{place}", name) for place, (number, name) in enumerate(UNICODE_NAMES.items())),
        *(project(uid(0xF, n), f"zz-{n:03}", f"zz {n:03}") for n in range(1, 101)),
    ]


# --- entities


def entity(number: str, project_id: str, kind: str, title: str, slug: str, **more: Any) -> Row:
    return {
        "id": number,
        "projectId": project_id,
        "entityType": kind,
        "title": title,
        "slug": slug,
        "status": "published",
        "createdAt": at(1),
        "updatedAt": at(1),
        **more,
    }


FULL, COMPARED, BARE, FOREIGN, LONELY = (uid(0xE1, n) for n in range(1, 6))
NEEDLES = [uid(0xE2, n) for n in range(1, 4)]
"""Has the word in its title, its slug, its summary."""
TEXTS = {
    uid(0xE3, 1): "Intro to Straße",
    uid(0xE3, 2): "STRASSE Atlas",
    uid(0xE3, 3): "İstanbul by night",
    uid(0xE3, 4): "Caf\u00e9 au lait",
    uid(0xE3, 5): "CAFE\u0301 NOIR",
    uid(0xE3, 6): "100% cotton",
    uid(0xE3, 7): "1000 cotton",
    uid(0xE3, 8): "snake_case",
    uid(0xE3, 9): "snakeXcase",
    uid(0xE3, 10): "back\\slash",
    uid(0xE3, 11): "backslash",
    uid(0xE3, 12): "ΣΊΣΥΦΟΣ",
}
BULK = [uid(0xE4, n) for n in range(1, 106)]


def bulk_times(n: int) -> tuple[str, str]:
    """Many share a time, and the two times run against each other."""
    return at(1 + n % 5), at(20 - n % 7)


def alpha_entities() -> list[Row]:
    full = {
        "summary": "All there is",
        "difficulty": "advanced",
        "repoUrl": "https://example.org/full.git",
        "repoDefaultBranch": "main",
        "license": "MIT",
        "status": "archived",
        "canonicalUrl": "https://example.org/full",
        "contentRef": "content/full.md",
        "publishedAt": "2025-02-01T08:00:00Z",
        "archivedAt": "2025-02-02T09:10:11.5Z",
        "lastVerifiedAt": "2025-02-03T00:00:00.001Z",
        "createdAt": "2025-01-31T23:59:59.999Z",
        "updatedAt": "2025-02-04T00:00:00.000Z",
    }
    compared = {"conceptKind": "comparison", "comparisonTargets": [BARE, FULL], "status": "publish_requested"}
    return [
        entity(FULL, ALPHA, "project", "Full", "full", **full),
        entity(COMPARED, ALPHA, "concept", "Compared", "compared", **compared),
        entity(BARE, ALPHA, "news", "Bare", "bare"),
        entity(uid(0xE1, 6), ALPHA, "concept", "Modelled", "modelled", conceptKind="model", createdAt=at(3)),
        entity(NEEDLES[0], ALPHA, "guide", "A NEEDLE in the title", "one", createdAt=at(6), updatedAt=at(6)),
        entity(NEEDLES[1], ALPHA, "concept", "Two", "needle-in-the-slug", createdAt=at(6), updatedAt=at(6)),
        entity(NEEDLES[2], ALPHA, "news", "Three", "three", summary="Hay, Needle, hay", updatedAt=at(7)),
        *(
            entity(number, ALPHA, "guide", title, f"text-{place}", createdAt=at(2))
            for place, (number, title) in enumerate(TEXTS.items())
        ),
        *(
            entity(
                number,
                ALPHA,
                ("guide", "news")[n % 2],
                f"Bulk {n:03}",
                f"bulk-{n:03}",
                status=("draft", "published", "archived")[n % 3],
                createdAt=bulk_times(n)[0],
                updatedAt=bulk_times(n)[1],
            )
            for n, number in enumerate(BULK)
        ),
    ]


def other_entities() -> list[Row]:
    return [
        entity(FOREIGN, BETA, "guide", "A needle of Beta", "needle", summary="needle Bulk"),
        entity(LONELY, DEFAULT, "guide", "Lonely", "lonely", summary="Nothing leads here"),
    ]


# --- the small graph: three hops, parallel relations, both directions, a self-relation, ends that are no entities

ROOT, OWNER, APPLE, APPLE_2, CHERRY, FAR, BEYOND, NEWS, STRANGER, SHARER = (uid(0xC1, n) for n in range(1, 11))
SOURCE, VIDEO, EVENT = uid(0xC2, 1), uid(0xC2, 2), uid(0xC2, 3)


def gamma_entities() -> list[Row]:
    return [
        entity(ROOT, GAMMA, "guide", "Root", "root", summary="Where it starts", difficulty="beginner"),
        entity(OWNER, GAMMA, "project", "banana", "owner", repoUrl="https://example.org/owner.git"),
        entity(APPLE, GAMMA, "concept", "apple", "apple", conceptKind="standard", status="draft"),
        entity(APPLE_2, GAMMA, "concept", "Apple", "apple-2"),
        entity(CHERRY, GAMMA, "concept", "Cherry", "cherry"),
        entity(FAR, GAMMA, "concept", "\uff5efar", "far"),
        entity(BEYOND, GAMMA, "concept", "Beyond", "beyond"),
        entity(NEWS, GAMMA, "news", "\U0001f600 news", "news"),
        entity(STRANGER, GAMMA, "guide", "Shares a source only", "stranger"),
        entity(SHARER, GAMMA, "guide", "dates", "sharer"),
    ]


SMALL_GRAPH: dict[int, tuple[str, str, str, str]] = {
    1: (ROOT, USES, APPLE, at(5)),
    2: (ROOT, EXPLAINS, APPLE, at(5)),
    3: (OWNER, HAS_GUIDE, ROOT, at(9)),
    4: (ROOT, USES, APPLE_2, at(4)),
    5: (APPLE, RELATES, CHERRY, at(8)),
    6: (APPLE, RELATES, APPLE, at(5)),
    7: (APPLE_2, RELATES, APPLE, at(3)),
    8: (APPLE_2, RELATES, FAR, at(2)),
    9: (NEWS, NEWS_ON, APPLE, at(5)),
    10: (SHARER, USES, APPLE, at(7)),
    11: (CHERRY, RELATES, FAR, at(9, 30)),
    12: (CHERRY, RELATES, BEYOND, at(9, 31)),
    13: (ROOT, GUIDE_SOURCE, SOURCE, at(6)),
    14: (VIDEO, VIDEO_ON, ROOT, at(1)),
    15: (EVENT, PROMOTES, ROOT, at(1)),
    16: (APPLE, CONCEPT_SOURCE, SOURCE, at(6)),
    17: (STRANGER, GUIDE_SOURCE, SOURCE, at(9, 32)),
}
"""By number: from, type, to, createdAt."""


def relation_id(number: int) -> str:
    return uid(0xC3, number)


# --- what is large: nodes, edges and relations beyond their limits

WIDE, EXACT, DEEP = uid(0xD1, 0), uid(0xD2, 0), uid(0xD3, 0)
FITTING, DENSE = uid(0xD4, 0), uid(0xD5, 0)
BUSY, FULL_HOUSE, BESIDE = uid(0xD6, 1), uid(0xD6, 2), uid(0xD6, 3)
WIDE_NEIGHBOURS, EXACT_NEIGHBOURS, DEEP_NEIGHBOURS, CLIQUE = 150, 99, 60, 14
VIDEOS = 1003


def wide(place: int) -> str:
    """WIDE's neighbour whose title is in this place, from 1: titles and ids run differently."""
    return uid(0xD1, place * 37 % 151)


def video_relation(n: int) -> tuple[str, str]:
    """The id and time of BUSY's relation with video `n`: many times are shared, ids run against the videos'."""
    return uid(0xD8, 5000 - n), at(1, n % 50, month=2)


def _concept(number: str, title: str) -> Row:
    return entity(number, HUB, "concept", title, f"c-{number[:8]}-{int(number[-12:], 16)}")


def hub_entities() -> list[Row]:
    return [
        *(_concept(number, "root") for number in (WIDE, EXACT, DEEP, FITTING, DENSE, BESIDE)),
        *(entity(number, HUB, "guide", "busy", f"busy-{number[-1]}") for number in (BUSY, FULL_HOUSE)),
        *(_concept(wide(place), f"Wide {place:03}") for place in range(1, WIDE_NEIGHBOURS + 1)),
        *(_concept(uid(0xD2, n), f"Exact {n:03}") for n in range(1, EXACT_NEIGHBOURS + 1)),
        *(_concept(uid(0xD3, n), f"Z near {n:03}") for n in range(1, DEEP_NEIGHBOURS + 1)),
        *(_concept(uid(0xD3, 100 + n), f"A far {n:03}") for n in range(1, DEEP_NEIGHBOURS + 1)),
        *(_concept(uid(group, n), f"Clique {n:03}") for group in (0xD4, 0xD5) for n in range(1, CLIQUE + 1)),
    ]


def hub_pairs() -> list[tuple[str, str]]:
    """Who relates to whom, as concepts do."""
    members = range(1, CLIQUE + 1)
    return [
        *((WIDE, wide(place)) for place in range(1, WIDE_NEIGHBOURS + 1)),
        (wide(1), wide(2)),
        (wide(99), wide(100)),
        *((EXACT, uid(0xD2, n)) for n in range(1, EXACT_NEIGHBOURS + 1)),
        *((DEEP, uid(0xD3, n)) for n in range(1, DEEP_NEIGHBOURS + 1)),
        *((uid(0xD3, n), uid(0xD3, 100 + n)) for n in range(1, DEEP_NEIGHBOURS + 1)),
        *((uid(group, 0), uid(group, n)) for group in (0xD4, 0xD5) for n in members),
        *((uid(group, n), uid(group, m)) for group in (0xD4, 0xD5) for n in members for m in members if n != m),
        *((uid(0xD4, n), FITTING) for n in range(1, 5)),  # 14 + 182 + 4: two hundred edges
        *((uid(0xD5, n), DENSE) for n in range(1, 6)),
    ]


# --- relations and the rest


def relation(number: str, project_id: str, ends: tuple[str, str, str], created: str, kinds: dict[str, str]) -> Row:
    start, kind, end = ends
    return {
        "id": number,
        "projectId": project_id,
        "relationType": kind,
        "fromEntityType": kinds[start],
        "fromEntityId": start,
        "toEntityType": kinds[end],
        "toEntityId": end,
        "createdAt": created,
    }


def relations(kinds: dict[str, str]) -> list[Row]:
    small = [
        relation(relation_id(number), GAMMA, (start, kind, end), created, kinds)
        for number, (start, kind, end, created) in SMALL_GRAPH.items()
    ]
    small[0]["notes"] = "“seen” first"
    busy = [((uid(0xD7, n), VIDEO_ON, BUSY), *video_relation(n)) for n in range(VIDEOS)]
    full_house = [((uid(0xD7, n), VIDEO_ON, FULL_HOUSE), uid(0xD9, n), at(1)) for n in range(1000)]
    return [
        *small,
        *(
            relation(uid(0xDA, place), HUB, (start, RELATES, end), at(1), kinds)
            for place, (start, end) in enumerate(hub_pairs())
        ),
        relation(uid(0xDB, 1), HUB, (BUSY, USES, BESIDE), at(1), kinds),
        *(relation(number, HUB, ends, created, kinds) for ends, number, created in [*busy, *full_house]),
    ]


QUERIES = ["Zeta", "alpha", "alpha beta", "\u00c4ther 100%"]
PAGES = ["https://x.example/B_1", "https://x.example/a-1"]
"""Both in the order of code points."""


def performance(number: int, project_id: str, query: str, page: str, dates: tuple[str, str], **more: Any) -> Row:
    return {
        "id": uid(0x91, number),
        "projectId": project_id,
        "pageUrl": page,
        "query": query,
        "impressions": 200,
        "clicks": 25,
        "ctr": 0.125,
        "avgPosition": 3.5,
        "dateStart": dates[0],
        "dateEnd": dates[1],
        "capturedAt": at(5, month=3),
        **more,
    }


def performance_rows() -> list[Row]:
    spans = [(at(1), at(7)), (at(1), at(9)), (at(2), at(7)), (at(2), at(9))]
    keys = [(span, query, page) for query in QUERIES for page in PAGES for span in spans]
    edges = [
        ("2025-01-01T00:00:00.000Z", "2025-01-31T23:59:59.999Z"),
        ("2025-01-01T00:00:00.001Z", "2025-01-31T00:00:00.000Z"),
        ("2024-12-31T23:59:59.999Z", "2025-02-01T00:00:00.000Z"),
    ]
    return [
        *(
            performance(n, ALPHA, query, page, span, **({"entityId": FULL} if n % 3 == 0 else {}))
            for n, (span, query, page) in enumerate(keys)
        ),
        *(performance(100 + n, GAMMA, f"edge {n}", "https://x.example/", dates) for n, dates in enumerate(edges)),
        performance(110, BETA, "alpha", PAGES[0], spans[0], entityId=FOREIGN),
    ]


WORDS = "One two three four five six seven eight nine ten " * 3
TAGS = ["Straße", "STRASSE 9", "50% off", "50 off", None]
CLAIMS = ["statistic", "comparison", "definition", "howto_step"]
EXPIRIES = [
    None,
    "2025-05-31T23:59:59.999Z",
    "2025-06-01T00:00:00.000Z",
    "2025-06-01T23:59:59.999Z",
    "2025-06-02T00:00:00.000Z",
]


def block(number: int, project_id: str, entity_id: str, **more: Any) -> Row:
    return {
        "id": uid(0x92, number),
        "projectId": project_id,
        "entityId": entity_id,
        "text": f"{WORDS}number {number}.",
        "claimType": "statistic",
        "createdAt": at(1 + number % 3),
        "updatedAt": at(9),
        **more,
    }


def blocks() -> list[Row]:
    alpha = [
        block(n, ALPHA, (FULL, BARE)[n % 2], claimType=CLAIMS[n % 4], topicTag=TAGS[n % 5], sourceCitation="Ibid.")
        for n in range(24)
    ]
    gamma = [
        block(100 + n, GAMMA, ROOT, **({"verifiedUntil": until} if until else {})) for n, until in enumerate(EXPIRIES)
    ]
    return [*alpha, *gamma, block(110, BETA, FOREIGN, topicTag="Straße")]


def bundle() -> dict[str, list[Row]]:
    """The whole bundle, in the format that `carrel import content` reads."""
    entities = [*alpha_entities(), *other_entities(), *gamma_entities(), *hub_entities()]
    source = {"id": SOURCE, "projectId": GAMMA, "url": "https://source.example/", "title": "Source"}
    video = {"id": VIDEO, "projectId": GAMMA, "url": "https://video.example/", "title": "Video"}
    event = {"id": EVENT, "projectId": GAMMA, "url": "https://event.example/", "title": "Event"}
    videos = [
        {"id": uid(0xD7, n), "projectId": HUB, "url": f"https://video.example/{n}", "title": f"Video {n}"}
        for n in range(VIDEOS)
    ]
    kinds = {row["id"]: str(row["entityType"]) for row in entities}
    kinds |= {SOURCE: "sourceItem", VIDEO: "video", EVENT: "distributionEvent"} | {row["id"]: "video" for row in videos}
    return {
        "projects": projects(),
        "entities": entities,
        "sources": [source],
        "videos": [video, *videos],
        "distributions": [event],
        "relations": relations(kinds),
        "searchPerformance": performance_rows(),
        "quotableBlocks": blocks(),
    }
