"""The backend API of bridge.md, asked over HTTP on each engine: projects of requests, strict queries, statuses."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.content_seed import (
    ALPHA,
    BETA,
    DEFAULT,
    FOREIGN,
    FULL,
    GAMMA,
    HUB,
    LONELY,
    NOWHERE,
    ROOT,
    WIDE,
    blocks,
    performance_rows,
    uid,
)
from tests.content_servers import ENGINES, ContentServers, compact, text
from tests.wire import MODERN, HttpServer

pytest_plugins = ["tests.content_fixtures"]

LISTS = ["/api/projects", "/api/entities", "/api/seo/search-performance", "/api/quotable-blocks"]
SINGLES = ["/api/entities/{id}", "/api/entities/{id}/graph"]
ROUTES = [*LISTS, *SINGLES]
SCOPED = [route for route in ROUTES if route != "/api/projects"]
NO_PROJECT = {"error": {"code": "NOT_FOUND", "message": "Project not found"}}
NO_ENTITY = {"error": {"code": "NOT_FOUND", "message": "Entity not found"}}
ID, SLUG = "x-project-id", "x-project-slug"


def get(api: httpx.Client, path: str, headers: dict[str, str] | None = None, **query: Any) -> httpx.Response:
    response = api.get(path, params=query or None, headers={ID: ALPHA} if headers is None else headers)
    assert response.headers["content-type"] == "application/json"
    return response


def at_fault(response: httpx.Response, *words: str) -> None:
    assert response.status_code == 400, response.text
    body = response.json()
    assert (list(body), list(body["error"]), body["error"]["code"]) == (["error"], ["code", "message"], "BAD_REQUEST")
    for word in words:
        assert word in body["error"]["message"]


def cookie(value: str) -> dict[str, str]:
    return {"Cookie": f"projectId={value}"}


def project_of(response: httpx.Response) -> str:
    """The project whose entities were listed."""
    assert response.status_code == 200, response.text
    (project,) = {each["projectId"] for each in response.json()["data"]}
    return project


# --- which project


@pytest.mark.rule("bridge.project.header", "bridge.project.slug", "bridge.project.cookie", "bridge.project.default")
@pytest.mark.parametrize(
    ("headers", "project"),
    [
        ({ID: ALPHA}, ALPHA),
        ({ID: ALPHA.upper()}, ALPHA),
        ({"X-Project-ID": BETA}, BETA),
        ({SLUG: "alpha"}, ALPHA),
        (cookie(ALPHA), ALPHA),
        (cookie(ALPHA.upper()), ALPHA),
        ({"Cookie": f"a=b; projectId={BETA}; c=d"}, BETA),
        ({"Cookie": f"projectid={BETA}"}, DEFAULT),
        ({}, DEFAULT),
    ],
)
def test_headers_cookie_and_default_name_the_project(api: httpx.Client, headers: dict[str, str], project: str) -> None:
    assert project_of(get(api, "/api/entities", headers)) == project


@pytest.mark.rule("bridge.project.precedence", "bridge.project.empty")
@pytest.mark.parametrize(
    ("headers", "project"),
    [
        ({ID: ALPHA, SLUG: "beta", **cookie(GAMMA)}, ALPHA),
        ({SLUG: "beta", **cookie(GAMMA)}, BETA),
        ({ID: ALPHA, SLUG: "nowhere", **cookie("x")}, ALPHA),
        ({ID: "", SLUG: "beta"}, BETA),
        ({ID: "", SLUG: "", **cookie(GAMMA)}, GAMMA),
        ({SLUG: "", **cookie(GAMMA)}, GAMMA),
        ({ID: "", SLUG: "", **cookie("")}, DEFAULT),
        (cookie(""), DEFAULT),
    ],
)
def test_the_first_that_is_given_counts(api: httpx.Client, headers: dict[str, str], project: str) -> None:
    assert project_of(get(api, "/api/entities", headers)) == project


@pytest.mark.rule("bridge.project.malformed", "bridge.project.precedence")
@pytest.mark.parametrize("route", SCOPED)
@pytest.mark.parametrize(
    "headers",
    [
        {ID: "alpha"},
        {ID: ALPHA[:-1], SLUG: "alpha"},
        {ID: f"{{{ALPHA}}}", **cookie(ALPHA)},
        {ID: "00000000-0000-7000-a000-000000000001"},
        {ID: f"{ALPHA}, {ALPHA}"},
        cookie("alpha"),
        cookie(ALPHA + "0"),
    ],
)
def test_a_malformed_id_is_a_bad_request(api: httpx.Client, route: str, headers: dict[str, str]) -> None:
    at_fault(get(api, route.format(id=LONELY), headers), "UUID")


@pytest.mark.rule("bridge.project.unknown", "bridge.project.precedence", "bridge.error.not_found")
@pytest.mark.parametrize("route", SCOPED)
@pytest.mark.parametrize(
    "headers",
    [
        {ID: NOWHERE},
        {ID: NOWHERE, SLUG: "alpha", **cookie(ALPHA)},
        {SLUG: "nowhere"},
        {SLUG: "nowhere", **cookie(ALPHA)},
        {SLUG: "ALPHA"},
        {SLUG: ALPHA},
        {SLUG: "al pha/../%"},
        {SLUG: "alpha%"},
        cookie(NOWHERE),
    ],
)
def test_an_unknown_project_is_not_found(api: httpx.Client, route: str, headers: dict[str, str]) -> None:
    response = get(api, route.format(id=LONELY), headers)
    assert (response.status_code, response.json()) == (404, NO_PROJECT)


@pytest.mark.rule("bridge.project.unscoped")
@pytest.mark.parametrize("headers", [{}, {ID: NOWHERE}, {ID: "x"}, {SLUG: "nowhere"}, cookie("x")])
def test_projects_are_listed_whatever_the_headers(api: httpx.Client, headers: dict[str, str]) -> None:
    assert get(api, "/api/projects", headers).text == get(api, "/api/projects", {}).text
    assert get(api, "/api/projects", headers).status_code == 200


@pytest.fixture(params=ENGINES)
def without_default(request: pytest.FixtureRequest, content: ContentServers) -> Iterator[httpx.Client]:
    yield from _served(content, request.param, "")


@pytest.fixture(params=ENGINES)
def with_missing_default(request: pytest.FixtureRequest, content: ContentServers) -> Iterator[httpx.Client]:
    yield from _served(content, request.param, NOWHERE)


def _served(content: ContentServers, engine: str, default: str) -> Iterator[httpx.Client]:
    words = ("--database", content.urls[engine])
    server = HttpServer(*words, cwd=content.folder, CARREL_CONTENT_DEFAULT_PROJECT=default)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        yield client
    assert server.stop() == 143


@pytest.mark.rule("bridge.project.default_off")
def test_with_the_default_switched_off_a_project_must_be_named(without_default: httpx.Client) -> None:
    for route in SCOPED:
        at_fault(get(without_default, route.format(id=LONELY), {}))
        at_fault(get(without_default, route.format(id=LONELY), {ID: "", SLUG: "", **cookie("")}))
    assert project_of(get(without_default, "/api/entities", {SLUG: "alpha"})) == ALPHA
    assert get(without_default, "/api/projects", {}).status_code == 200


@pytest.mark.rule("bridge.project.default_missing")
def test_a_default_that_is_no_project_is_not_made_up(with_missing_default: httpx.Client) -> None:
    for route in SCOPED:
        response = get(with_missing_default, route.format(id=LONELY), {})
        assert (response.status_code, response.json()) == (404, NO_PROJECT)
    assert project_of(get(with_missing_default, "/api/entities", {SLUG: "alpha"})) == ALPHA


@pytest.mark.rule("bridge.project.isolation", "bridge.error.not_found")
@pytest.mark.parametrize("route", SINGLES)
def test_no_id_of_another_project_is_confirmed(api: httpx.Client, route: str) -> None:
    elsewhere = [FOREIGN, LONELY, ROOT, WIDE, BETA, ALPHA, uid(0xC3, 1)]
    elsewhere += [row["id"] for row in [*performance_rows(), *blocks()] if row["projectId"] == BETA]
    for number in elsewhere:
        response = get(api, route.format(id=number))
        assert (response.status_code, response.json()) == (404, NO_ENTITY)
        nowhere = get(api, route.format(id=NOWHERE))
        assert (response.content, sorted(response.headers)) == (nowhere.content, sorted(nowhere.headers))
    assert get(api, route.format(id=FULL), {ID: BETA}).json() == NO_ENTITY


# --- the query


@pytest.mark.rule("bridge.query.unknown")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["foo", "projectId", "Page", "page[]", "order", ""])
def test_an_unknown_parameter_is_a_bad_request(api: httpx.Client, route: str, name: str) -> None:
    at_fault(get(api, f"{route.format(id=FULL)}?{name}=1"), name)


@pytest.mark.rule("bridge.query.repeated")
@pytest.mark.parametrize(
    ("route", "query"),
    [
        *((route, "page=1&page=1") for route in LISTS),
        *((route, "limit=1&page=1&limit=2") for route in LISTS),
        ("/api/entities", "search=a&search=a"),
        ("/api/entities", "search=&search="),
        ("/api/entities", "entityType=guide&entityType=news"),
        ("/api/entities/{id}/graph", "depth=1&depth=2"),
        ("/api/entities/{id}/graph", "relationshipTypes=GUIDE_USES_CONCEPT&relationshipTypes=GUIDE_USES_CONCEPT"),
        ("/api/seo/search-performance", "dateStart=2025-01-01&dateStart=2025-01-01"),
        ("/api/quotable-blocks", "topicTag=a&topicTag=b"),
    ],
)
def test_a_repeated_parameter_is_a_bad_request(api: httpx.Client, route: str, query: str) -> None:
    at_fault(get(api, f"{route.format(id=FULL)}?{query}"), query.rpartition("&")[2].partition("=")[0])


@pytest.mark.rule("bridge.query.strict", "bridge.page.invalid")
@pytest.mark.parametrize("route", LISTS)
@pytest.mark.parametrize("field", ["page", "limit"])
@pytest.mark.parametrize(
    "bad",
    ["", "0", "-1", "%2B1", "+1", "1+", "1.5", "1e1", "0x1", "1_0", "one", "true", "null", "%D9%A3", "1,0", "1%0A"],
)
def test_numbers_are_decimal_digits(api: httpx.Client, route: str, field: str, bad: str) -> None:
    at_fault(get(api, f"{route}?{field}={bad}"), field)


@pytest.mark.rule("bridge.page.invalid", "bridge.page.past_the_end", "bridge.page.limit")
@pytest.mark.parametrize("route", LISTS)
def test_limits_of_pages(api: httpx.Client, route: str) -> None:
    at_fault(get(api, route, limit=101), "limit")
    at_fault(get(api, route, limit=10**30), "limit")
    total = get(api, route).json()["pagination"]["total"]
    expected = {"page": 2**62, "limit": 100, "total": total, "hasMore": False}
    assert get(api, route, limit=100, page=2**62).json() == {"data": [], "pagination": expected}


@pytest.mark.rule("bridge.graph.depth_invalid")
@pytest.mark.parametrize("bad", ["0", "3", "", "1.0e0", "two", "+1", "%D9%A1"])
def test_a_depth_is_1_or_2(api: httpx.Client, bad: str) -> None:
    at_fault(get(api, f"/api/entities/{ROOT}/graph?depth={bad}", {ID: GAMMA}), "depth")


@pytest.mark.rule("bridge.id.malformed")
@pytest.mark.parametrize(
    "bad", ["x", FULL[:-1], FULL + "0", f"{FULL}%0A", f"%20{FULL}", f"%7B{FULL}%7D", uid(1, 1)[:-2] + "%D9%A1"]
)
def test_a_malformed_id_in_path_or_query_is_a_bad_request(api: httpx.Client, bad: str) -> None:
    for route in SINGLES:
        at_fault(get(api, route.format(id=bad)), "UUID")
    for route in ("/api/seo/search-performance", "/api/quotable-blocks"):
        at_fault(get(api, f"{route}?entityId={bad}"), "entityId")
        at_fault(get(api, f"{route}?entityId="), "entityId")


@pytest.mark.rule("bridge.enum.values")
@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("/api/entities?entityType=Guide", "guide, concept, project, news"),
        ("/api/entities?entityType=", "guide, concept, project, news"),
        ("/api/entities?status=live", "draft, publish_requested, published, archived"),
        ("/api/entities?conceptKind=%20model", "standard, model, comparison"),
        ("/api/quotable-blocks?claimType=fact", "statistic, comparison, definition, howto_step"),
    ],
)
def test_an_enum_error_lists_the_valid_values(api: httpx.Client, path: str, listed: str) -> None:
    at_fault(get(api, path), listed)


@pytest.mark.rule("bridge.error.not_found")
@pytest.mark.parametrize("route", SINGLES)
def test_the_project_comes_first_and_then_the_entity(api: httpx.Client, route: str) -> None:
    assert get(api, route.format(id=NOWHERE), {ID: NOWHERE}).json() == NO_PROJECT
    response = get(api, route.format(id=NOWHERE))
    assert (response.status_code, response.json()) == (404, NO_ENTITY)


@pytest.mark.parametrize("text", ["\0", "a\0b"])
def test_a_character_that_no_text_has_is_a_bad_request_or_finds_nothing(api: httpx.Client, text: str) -> None:
    response = get(api, "/api/entities", search=text)
    assert response.status_code in (200, 400)
    if response.status_code == 200:
        assert response.json()["data"] == []


def test_bytes_that_are_no_utf_8_are_a_bad_request_or_find_nothing(api: httpx.Client) -> None:
    response = get(api, "/api/entities?search=%ff%fe")
    assert response.status_code in (200, 400)


# --- what it answers with

CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("list_projects", "/api/projects", {"page": 2, "limit": 7}),
    ("search_entities", "/api/entities", {"search": "ß", "status": "published"}),
    ("search_entities", "/api/entities", {"search": "a+b & c=d%20#?;/\\\"'é"}),
    ("get_entity", f"/api/entities/{FULL}", {}),
    ("get_entity", f"/api/entities/{NOWHERE}", {}),
    ("get_entity_graph", f"/api/entities/{FULL}/graph", {"depth": 2}),
    ("list_search_performance", "/api/seo/search-performance", {"pageUrl": "https://x.example/a-1?", "limit": 3}),
    ("list_search_performance", "/api/seo/search-performance", {"dateStart": "2025-01-02", "limit": 3}),
    ("list_search_performance", "/api/seo/search-performance", {"dateStart": "2025-01-02", "dateEnd": "2025-01-01"}),
    ("list_quotable_blocks", "/api/quotable-blocks", {"topicTag": "50%", "claimType": "definition"}),
]


@pytest.mark.rule("bridge.backend.same_answer", "bridge.api.json")
@pytest.mark.parametrize(("tool", "path", "query"), CALLS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_tool_answers_what_the_api_answers(
    content: ContentServers, engine: str, tool: str, path: str, query: dict[str, Any]
) -> None:
    response = get(content.api(engine), path, **query)
    scope = {} if tool == "list_projects" else {"projectId": ALPHA}
    scope |= {"entityId": path.split("/")[3]} if tool.startswith("get_") else {}
    for transport in ("stdio", "http"):
        wire = content.wire("bridge", engine, transport, MODERN)
        assert text(wire, tool, **scope, **query) == compact(response.json())


@pytest.mark.rule("bridge.tools.read_only", "bridge.envelope.error")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_routes_take_get_alone(api: httpx.Client, method: str) -> None:
    for route in ROUTES:
        response = api.request(method, route.format(id=FULL), headers={ID: ALPHA})
        assert response.status_code == 405
        assert "GET" in response.headers["allow"]
        assert list(response.json()["error"]) == ["code", "message"]


@pytest.mark.rule("bridge.error.route", "bridge.api.json")
@pytest.mark.parametrize("path", ["/api", "/api/", "/api/nothing", f"/api/entities/{FULL}/edges", "/api/seo"])
def test_a_path_that_does_not_exist_answers_the_envelope(api: httpx.Client, path: str) -> None:
    response = get(api, path)
    assert response.status_code == 404
    assert list(response.json()) == ["error"]
    assert response.json()["error"]["code"] == "NOT_FOUND"


@pytest.mark.rule("bridge.api.openapi")
def test_the_api_describes_itself(api: httpx.Client) -> None:
    document = get(api, "/api/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    served = {path.replace("entityId", "id") for path in document["paths"]}
    assert served == set(ROUTES)
    assert {tuple(operations) for operations in document["paths"].values()} == {("get",)}
    for path, operations in document["paths"].items():
        described = {each["name"] for each in operations["get"].get("parameters", []) if each["in"] == "header"}
        assert described >= (set() if path == "/api/projects" else {ID, SLUG}), path
        assert {"200", "400", "404", "500"} - {"404" if path == "/api/projects" else ""} <= set(
            operations["get"]["responses"]
        )


def test_the_large_graph_is_served_whole(api: httpx.Client) -> None:
    data = get(api, f"/api/entities/{WIDE}/graph", {ID: HUB}, depth=2).json()["data"]
    assert len(data["relationships"]) == 152
