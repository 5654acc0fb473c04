"""The bridge's search performance and quotable blocks, and the dates that filter them."""

from typing import Any

import pytest

from tests.content_seed import (
    ALPHA,
    BARE,
    BETA,
    CLAIMS,
    EMPTY,
    FOREIGN,
    FULL,
    GAMMA,
    NOWHERE,
    PAGES,
    QUERIES,
    ROOT,
    TAGS,
    WORDS,
    at,
    blocks,
    performance_rows,
    uid,
)
from tests.content_servers import compact, error, ok, text
from tests.wire import Wire

pytest_plugins = ["tests.content_fixtures"]

PERFORMANCE, BLOCKS = "list_search_performance", "list_quotable_blocks"
NOTHING = {"data": [], "pagination": {"page": 1, "limit": 100, "total": 0, "hasMore": False}}
ROWS = [row for row in performance_rows() if row["projectId"] == ALPHA]
ALPHA_BLOCKS = [row for row in blocks() if row["projectId"] == ALPHA]


def listed(wire: Wire, tool: str, project: str = ALPHA, **filters: Any) -> list[str]:
    found = ok(wire, tool, projectId=project, limit=100, **filters)
    assert found["pagination"]["total"] == len(found["data"])
    return [each["id"] for each in found["data"]]


def records(*rows: dict[str, Any]) -> list[str]:
    """The ids in the contract's order, which four stable sorts give."""
    ordered = sorted(rows, key=lambda row: row["pageUrl"])
    ordered.sort(key=lambda row: row["query"])
    ordered.sort(key=lambda row: row["dateEnd"], reverse=True)
    ordered.sort(key=lambda row: row["dateStart"], reverse=True)
    return [row["id"] for row in ordered]


def newest(*rows: dict[str, Any]) -> list[str]:
    return [row["id"] for row in sorted(rows, key=lambda row: (row["createdAt"], row["id"]), reverse=True)]


# --- search performance


@pytest.mark.rule("bridge.performance.fields", "bridge.date.format")
def test_a_record_has_its_fields_in_their_order(bridge: Wire) -> None:
    found = ok(bridge, PERFORMANCE, projectId=ALPHA, query="zeta", entityId=FULL)["data"]
    expected = {
        "id": uid(0x91, 3),
        "projectId": ALPHA,
        "entityId": FULL,
        "pageUrl": PAGES[0],
        "query": "Zeta",
        "impressions": 200,
        "clicks": 25,
        "ctr": 0.125,
        "avgPosition": 3.5,
        "dateStart": at(2),
        "dateEnd": at(9),
        "capturedAt": at(5, month=3),
    }
    assert compact(found[0]) == compact(expected)
    assert all(isinstance(found[0][name], int) for name in ("impressions", "clicks"))
    unlinked = ok(bridge, PERFORMANCE, projectId=GAMMA)["data"]
    assert [each["entityId"] for each in unlinked] == [None] * 3


@pytest.mark.rule("bridge.performance.order", "bridge.performance.isolation")
def test_records_are_in_order_of_dates_query_and_page(bridge: Wire) -> None:
    assert listed(bridge, PERFORMANCE) == records(*ROWS)
    first = ok(bridge, PERFORMANCE, projectId=ALPHA, limit=8)["data"]
    assert [(each["query"], each["pageUrl"]) for each in first] == [
        (query, page) for query in QUERIES for page in PAGES
    ]
    assert listed(bridge, PERFORMANCE, BETA) == [uid(0x91, 110)]
    assert ok(bridge, PERFORMANCE, projectId=EMPTY, limit=100) == NOTHING


@pytest.mark.rule("bridge.performance.text")
@pytest.mark.parametrize(
    ("field", "needle", "kept"),
    [
        ("query", "ALPHA", [1, 2]),
        ("query", "a\u0308TH", [3]),
        ("query", "\u00e4", [3]),
        ("query", "0%", [3]),
        ("query", "_", []),
        ("query", "", [0, 1, 2, 3]),
        ("pageUrl", "/b_", [0]),
        ("pageUrl", "X.EXAMPLE/A", [1]),
        ("pageUrl", "%", []),
        ("pageUrl", "\\", []),
        ("pageUrl", "?&#", []),
        ("pageUrl", "", [0, 1]),
    ],
)
def test_text_filters_compare_casefolded_text(bridge: Wire, field: str, needle: str, kept: list[int]) -> None:
    values = [(QUERIES if field == "query" else PAGES)[place] for place in kept]
    assert listed(bridge, PERFORMANCE, **{field: needle}) == records(*(row for row in ROWS if row[field] in values))


@pytest.mark.rule("bridge.performance.text", "bridge.performance.entity", "bridge.performance.dates")
def test_filters_narrow_each_other(bridge: Wire) -> None:
    filters = {"query": "alpha", "pageUrl": "b_", "entityId": FULL, "dateStart": "2025-01-01", "dateEnd": "2025-01-07"}
    expected = [
        row
        for row in ROWS
        if row["query"] in QUERIES[1:3]
        and row["pageUrl"] == PAGES[0]
        and row.get("entityId") == FULL
        and row["dateEnd"] == at(7)
    ]
    assert len(expected) > 0
    assert listed(bridge, PERFORMANCE, **filters) == records(*expected)


@pytest.mark.rule("bridge.performance.entity", "bridge.performance.isolation")
def test_records_of_one_entity_without_a_look_whether_it_exists(bridge: Wire) -> None:
    assert listed(bridge, PERFORMANCE, entityId=FULL) == records(*(row for row in ROWS if row.get("entityId") == FULL))
    assert text(bridge, PERFORMANCE, projectId=ALPHA, entityId=FOREIGN) == text(
        bridge, PERFORMANCE, projectId=ALPHA, entityId=NOWHERE
    )
    assert ok(bridge, PERFORMANCE, projectId=ALPHA, entityId=FOREIGN, limit=100) == NOTHING


# What GAMMA has: 0 is from the first instant of January to its last; 1 is one millisecond and a day less a millisecond
# inside that; 2 is one millisecond outside it at either end.


@pytest.mark.rule("bridge.performance.dates", "bridge.date.bounds", "bridge.date.accepted")
@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [
        (None, None, [1, 0, 2]),
        ("2025-01-01", None, [1, 0]),
        ("2025-01-01T00:00:00Z", None, [1, 0]),
        ("2025-01-01T00:00:00.001Z", None, [1]),
        ("2025-01-01T00:00:00.002Z", None, []),
        ("2024-12-31T23:59:59.999Z", None, [1, 0, 2]),
        ("2024-12-31T23:59:59.9Z", None, [1, 0, 2]),
        (None, "2025-01-31", [1, 0]),
        (None, "2025-01-31T00:00:00Z", [1]),
        (None, "2025-01-31T00:00:00.0Z", [1]),
        (None, "2025-01-31T23:59:59.99Z", [1]),
        (None, "2025-01-31T23:59:59.999Z", [1, 0]),
        (None, "2025-02-01T00:00:00.000Z", [1, 0, 2]),
        (None, "2025-01-30", []),
        ("2025-01-01", "2025-01-31", [1, 0]),
        ("2025-01-31T23:59:59Z", "2025-01-31", []),
        ("0001-01-01", "9999-12-31", [1, 0, 2]),
        ("2024-02-29", "2028-02-29T23:59:59Z", [1, 0, 2]),
    ],
)
def test_records_within_dates(bridge: Wire, start: str | None, end: str | None, kept: list[int]) -> None:
    dates = {name: date for name, date in (("dateStart", start), ("dateEnd", end)) if date is not None}
    assert listed(bridge, PERFORMANCE, GAMMA, **dates) == [uid(0x91, 100 + number) for number in kept]


@pytest.mark.rule("bridge.performance.dates_crossed")
@pytest.mark.parametrize(
    ("start", "end", "crossed"),
    [
        ("2025-01-02", "2025-01-01", True),
        ("2025-01-01T00:00:00.001Z", "2025-01-01T00:00:00Z", True),
        ("2025-01-01", "2024-12-31T23:59:59.999Z", True),
        ("2025-01-01", "2025-01-01", False),
        ("2025-01-01T23:59:59.999Z", "2025-01-01", False),
        ("2025-01-01", "2025-01-01T00:00:00Z", False),
    ],
)
def test_a_start_after_the_end_is_a_bad_request(bridge: Wire, start: str, end: str, crossed: bool) -> None:
    arguments = {"projectId": ALPHA, "dateStart": start, "dateEnd": end}
    if crossed:
        found = error(bridge, PERFORMANCE, **arguments)
        assert found["code"] == "BAD_REQUEST"
        assert "dateStart" in found["message"]
        assert "dateEnd" in found["message"]
    else:
        assert ok(bridge, PERFORMANCE, **arguments)["data"] == []


FIELDS = [(PERFORMANCE, "dateStart"), (PERFORMANCE, "dateEnd"), (BLOCKS, "verifiedUntilBefore")]
FIELDS.append((BLOCKS, "verifiedUntilAfter"))
OTHER_FORMS = [
    "",
    " ",
    "today",
    "2025",
    "2025-01",
    "01/02/2025",
    "31.01.2025",
    "2025/01/02",
    "20250102",
    "2025-1-2",
    "2025-W01-1",
    "2025-001",
    "+2025-01-02",
    "-2025-01-02",
    "12025-01-02",
    "2025-01-02 ",
    "2025-01-02\n",
    "\uff12025-01-02",
    "2025-01-02Z",
    "2025-01-02T",
    "2025-01-02T03:04Z",
    "2025-01-02T03Z",
    "2025-01-02T03:04:05",
    "2025-01-02T03:04:05.000",
    "2025-01-02T03:04:05+00:00",
    "2025-01-02T03:04:05-05:00",
    "2025-01-02T03:04:05.000+00:00",
    "2025-01-02T03:04:05z",
    "2025-01-02t03:04:05Z",
    "2025-01-02 03:04:05Z",
    "2025-01-02T03:04:05.Z",
    "2025-01-02T03:04:05.0000Z",
    "2025-01-02T03:04:05,000Z",
    "2025-01-02T03:04:05.\uff11Z",
    "2025-01-02T03:04:05Z\n",
    "20250102T030405Z",
    "1735786800",
]
NO_SUCH_DATES = [
    "2025-02-29",
    "2100-02-29",
    "2025-04-31",
    "2025-00-01",
    "2025-13-01",
    "2025-01-00",
    "2025-01-32",
    "2025-02-30T00:00:00Z",
    "2025-01-02T24:00:00Z",
    "2025-01-02T23:60:00Z",
    "2025-01-02T23:59:60Z",
    "2025-01-02T25:00:00.000Z",
]


@pytest.mark.rule("bridge.date.rejected", "bridge.date.exists")
@pytest.mark.parametrize(("tool", "field"), FIELDS)
def test_other_forms_and_dates_that_do_not_exist_are_bad_requests(bridge: Wire, tool: str, field: str) -> None:
    for bad in [*OTHER_FORMS, *NO_SUCH_DATES]:
        found = error(bridge, tool, projectId=ALPHA, **{field: bad})
        assert found["code"] == "BAD_REQUEST", bad
        assert field in found["message"], bad


# --- quotable blocks


@pytest.mark.rule("bridge.blocks.fields", "bridge.date.format")
def test_a_block_has_its_fields_in_their_order(bridge: Wire) -> None:
    found = ok(bridge, BLOCKS, projectId=ALPHA, limit=1)["data"][0]
    expected = {
        "id": uid(0x92, 23),
        "projectId": ALPHA,
        "entityId": BARE,
        "text": f"{WORDS}number 23.",
        "claimType": CLAIMS[3],
        "sourceCitation": "Ibid.",
        "verifiedUntil": None,
        "topicTag": TAGS[3],
        "createdAt": at(3),
        "updatedAt": at(9),
    }
    assert compact(found) == compact(expected)
    bare = {each["id"]: each for each in ok(bridge, BLOCKS, projectId=GAMMA)["data"]}
    assert [bare[uid(0x92, 100)][name] for name in ("sourceCitation", "verifiedUntil", "topicTag")] == [None] * 3
    assert bare[uid(0x92, 103)]["verifiedUntil"] == "2025-06-01T23:59:59.999Z"


@pytest.mark.rule("bridge.blocks.order", "bridge.blocks.isolation", "bridge.blocks.claim")
def test_blocks_are_newest_first_whatever_the_filters(bridge: Wire) -> None:
    assert listed(bridge, BLOCKS) == newest(*ALPHA_BLOCKS)
    for claim in CLAIMS:
        kept = [row for row in ALPHA_BLOCKS if row["claimType"] == claim]
        assert listed(bridge, BLOCKS, claimType=claim) == newest(*kept)
        both = [row for row in kept if row["entityId"] == FULL]
        assert listed(bridge, BLOCKS, claimType=claim, entityId=FULL) == newest(*both)
    assert listed(bridge, BLOCKS, BETA) == [uid(0x92, 110)]
    assert ok(bridge, BLOCKS, projectId=EMPTY, limit=100) == NOTHING


@pytest.mark.rule("bridge.blocks.topic", "bridge.blocks.isolation")
@pytest.mark.parametrize(
    ("needle", "kept"),
    [
        ("straSSe", [0, 1]),
        ("ß", [0, 1]),
        ("strasse 9", [1]),
        ("50%", [2]),
        ("50 OFF", [3]),
        ("_", []),
        ("\\", []),
        ("", [0, 1, 2, 3, 4]),
    ],
)
def test_a_topic_is_compared_casefolded(bridge: Wire, needle: str, kept: list[int]) -> None:
    tags = [TAGS[place] for place in kept]
    rows = [row for row in ALPHA_BLOCKS if row["topicTag"] in tags]
    assert listed(bridge, BLOCKS, topicTag=needle) == newest(*rows)


@pytest.mark.rule("bridge.blocks.entity", "bridge.blocks.isolation")
def test_blocks_of_one_entity_without_a_look_whether_it_exists(bridge: Wire) -> None:
    assert listed(bridge, BLOCKS, entityId=FULL) == newest(*(row for row in ALPHA_BLOCKS if row["entityId"] == FULL))
    assert text(bridge, BLOCKS, projectId=ALPHA, entityId=FOREIGN) == text(
        bridge, BLOCKS, projectId=ALPHA, entityId=NOWHERE
    )
    assert ok(bridge, BLOCKS, projectId=ALPHA, entityId=ROOT, limit=100) == NOTHING


# What GAMMA has: 0 never expires; 1 to 4 expire in the last instant of May, the first and the last of the 1st of June,
# and the first of the 2nd.


@pytest.mark.rule("bridge.blocks.expiry", "bridge.date.bounds")
@pytest.mark.parametrize(
    ("after", "before", "kept"),
    [
        (None, None, [0, 1, 2, 3, 4]),
        ("2025-06-01", None, [2, 3, 4]),
        (None, "2025-06-01", [1, 2, 3]),
        ("2025-06-01", "2025-06-01", [2, 3]),
        ("2025-06-01T00:00:00.000Z", None, [2, 3, 4]),
        ("2025-06-01T00:00:00.001Z", None, [3, 4]),
        (None, "2025-06-01T00:00:00Z", [1, 2]),
        (None, "2025-05-31", [1]),
        ("2000-01-01", None, [1, 2, 3, 4]),
        (None, "2099-12-31", [1, 2, 3, 4]),
        ("2025-06-02", "2025-06-01", []),
    ],
)
def test_blocks_by_expiry(bridge: Wire, after: str | None, before: str | None, kept: list[int]) -> None:
    bounds = (("verifiedUntilAfter", after), ("verifiedUntilBefore", before))
    filters = {name: date for name, date in bounds if date is not None}
    rows = [row for row in blocks() if row["id"] in {uid(0x92, 100 + number) for number in kept}]
    assert listed(bridge, BLOCKS, GAMMA, **filters) == newest(*rows)
