"""Two projects over one database: from inside one, the other is not there, by any tool, route or id."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.content_desks import CALLER, Desks, get, open_backends, open_desks
from tests.reference.generate import Bundle

pytestmark = pytest.mark.anyio

OURS, THEIRS = "0a000000-0000-4000-a000-000000000001", "0b000000-0000-4000-a000-000000000001"
NOBODY = "0c000000-0000-4000-a000-00000000ffff"
MARK = "foreignmark"  # in every text of theirs
TIME = "2025-01-01T00:00:00.000Z"
ENTITY_TYPES = ("guide", "concept", "project", "news", "concept")
RELATIONS = (
    ("GUIDE_USES_CONCEPT", "guide", 0, "concept", 1),
    ("CONCEPT_RELATES_TO_CONCEPT", "concept", 1, "concept", 4),
    ("PROJECT_HAS_GUIDE", "project", 2, "guide", 0),
    ("NEWS_REFERENCES_CONCEPT", "news", 3, "concept", 1),
    ("GUIDE_REFERENCES_SOURCE", "guide", 0, "sourceItem", 0),
    ("VIDEO_EXPLAINS_GUIDE", "video", 0, "guide", 0),
    ("DISTRIBUTION_PROMOTES_CONCEPT", "distributionEvent", 0, "concept", 1),
)
GROUPS = {"sourceItem": 6, "video": 7, "distributionEvent": 8}


def uid(project: str, group: int, number: int = 0) -> str:
    return f"{project[:2]}{group:06x}-0000-4000-a000-{number + 2:012x}"


def content_of(project: str, slug: str, mark: str) -> Bundle:
    """The same shapes in each project, and the same texts and slugs but for the mark."""
    base = {"projectId": project}
    times = {"createdAt": TIME, "updatedAt": TIME}

    def end(kind: str, number: int) -> str:
        return uid(project, GROUPS.get(kind, 1), number)

    return {
        "projects": [{"id": project, "slug": slug, "name": f"Project {mark}", "description": mark, **times}],
        "entities": [
            {
                **base,
                **times,
                "id": uid(project, 1, number),
                "entityType": kind,
                "title": f"Shared title {mark}",
                "slug": f"shared-{number}{mark}",
                "summary": f"A summary {mark}",
                "status": "published",
                "canonicalUrl": f"https://example.org/{number}/{mark}",
            }
            for number, kind in enumerate(ENTITY_TYPES)
        ],
        "sources": [{**base, "id": uid(project, 6), "url": f"https://example.org/s/{mark}", "title": f"Source {mark}"}],
        "videos": [{**base, "id": uid(project, 7), "url": f"https://example.org/v/{mark}", "title": f"Video {mark}"}],
        "distributions": [
            {**base, "id": uid(project, 8), "url": f"https://example.org/d/{mark}", "title": f"Event {mark}"}
        ],
        "relations": [
            {
                **base,
                "id": uid(project, 2, number),
                "relationType": kind,
                "fromEntityType": start,
                "fromEntityId": end(start, from_number),
                "toEntityType": stop,
                "toEntityId": end(stop, to_number),
                "notes": f"Notes {mark}",
                "createdAt": TIME,
            }
            for number, (kind, start, from_number, stop, to_number) in enumerate(RELATIONS)
        ],
        "searchPerformance": [
            {
                **base,
                "id": uid(project, 3, number),
                "entityId": uid(project, 1, number),
                "query": f"shared query {mark}",
                "pageUrl": f"https://example.org/{number}/{mark}",
                "impressions": 10,
                "clicks": 1,
                "ctr": 0.1,
                "avgPosition": 2.5,
                "dateStart": TIME,
                "dateEnd": TIME,
                "capturedAt": TIME,
            }
            for number in range(3)
        ],
        "quotableBlocks": [
            {
                **base,
                **times,
                "id": uid(project, 4, number),
                "entityId": uid(project, 1, number),
                "text": " ".join([f"word{mark}"] * 30),
                "claimType": "statistic",
                "sourceCitation": f"Citation {mark}",
                "verifiedUntil": TIME,
                "topicTag": f"shared tag {mark}",
            }
            for number in range(3)
        ],
    }


def bundle() -> Bundle:
    ours, theirs = content_of(OURS, "ours", ""), content_of(THEIRS, "theirs", MARK)
    return {name: ours[name] + theirs[name] for name in ours}


def ids(project: str) -> Iterator[str]:
    """Of everything that the project has, itself left out."""
    content = content_of(project, "", "")
    return (row["id"] for name, rows in content.items() if name != "projects" for row in rows)


def one_of_each(project: str) -> Iterator[str]:
    return (rows[0]["id"] for name, rows in content_of(project, "", "").items() if name != "projects")


@pytest.fixture(scope="module")
async def desks(
    tmp_path_factory: pytest.TempPathFactory, postgres_server_url: str, worker_id: str
) -> AsyncIterator[Desks]:
    folder = tmp_path_factory.mktemp("isolation")
    name = f"isolation_{worker_id}"
    async with open_desks(bundle(), folder=folder, postgres_server_url=postgres_server_url, name=name) as desks:
        yield desks


@pytest.fixture(scope="module")
async def backends(desks: Desks) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    async with open_backends(desks, default_project=OURS) as backends:
        yield backends


async def text(desks: Desks, toolset: str, tool: str, **arguments: Any) -> str:
    """What both engines answer."""
    answers = [await desk.pipeline(toolset).call(tool, arguments, CALLER) for desk in desks.values()]
    assert len({answer.text for answer in answers}) == 1, (tool, arguments, answers)
    return answers[0].text


# --- ids of theirs, where an id goes

WITH_ENTITY = [
    ("catalog", "get_entity", {}),
    ("catalog", "get_entity_graph", {}),
    ("catalog", "get_entity_graph", {"depth": 2}),
    ("catalog", "get_entity_graph", {"depth": 2, "relationshipTypes": ["CONCEPT_RELATES_TO_CONCEPT"]}),
    ("bridge", "get_entity", {}),
    ("bridge", "get_entity_graph", {}),
    ("bridge", "get_entity_graph", {"depth": 2}),
    ("bridge", "get_entity_graph", {"depth": 2, "relationshipTypes": "GUIDE_USES_CONCEPT"}),
    ("bridge", "list_search_performance", {}),
    ("bridge", "list_search_performance", {"query": "shared", "dateStart": "2024-01-01"}),
    ("bridge", "list_quotable_blocks", {}),
    ("bridge", "list_quotable_blocks", {"claimType": "statistic", "topicTag": "shared"}),
]
WITH_PROJECT = [
    ("catalog", "search_entities", {"query": "shared"}),
    ("bridge", "search_entities", {}),
    ("bridge", "search_entities", {"search": "shared", "entityType": "guide"}),
    ("bridge", "list_search_performance", {}),
    ("bridge", "list_quotable_blocks", {}),
]


@pytest.mark.parametrize(("toolset", "tool", "more"), WITH_ENTITY)
@pytest.mark.rule("catalog.entity.isolation", "catalog.graph.isolation", "bridge.project.isolation")
async def test_what_exists_elsewhere_is_answered_as_what_does_not_exist(
    desks: Desks, toolset: str, tool: str, more: dict[str, Any]
) -> None:
    nothing = await text(desks, toolset, tool, projectId=OURS, entityId=NOBODY, **more)
    for each in (*ids(THEIRS), THEIRS):
        assert await text(desks, toolset, tool, projectId=OURS, entityId=each, **more) == nothing
        assert await text(desks, toolset, tool, projectId=OURS, entityId=each.upper(), **more) == nothing


@pytest.mark.parametrize(("toolset", "tool", "more"), WITH_ENTITY)
@pytest.mark.rule("bridge.project.isolation")
async def test_what_is_no_entity_is_answered_as_what_does_not_exist(
    desks: Desks, toolset: str, tool: str, more: dict[str, Any]
) -> None:
    nothing = await text(desks, toolset, tool, projectId=OURS, entityId=NOBODY, **more)
    entities = {row["id"] for row in content_of(OURS, "", "")["entities"]}
    for each in (*ids(OURS), OURS):
        if each not in entities:
            assert await text(desks, toolset, tool, projectId=OURS, entityId=each, **more) == nothing


@pytest.mark.parametrize(
    ("toolset", "tool", "more"),
    [*WITH_PROJECT, *((toolset, tool, {**more, "entityId": uid(THEIRS, 1)}) for toolset, tool, more in WITH_ENTITY)],
)
@pytest.mark.rule("catalog.error.project", "bridge.error.not_found")
async def test_what_is_no_project_is_answered_as_what_does_not_exist(
    desks: Desks, toolset: str, tool: str, more: dict[str, Any]
) -> None:
    """Also with an entity that is theirs: whose it is does not show."""
    nothing = await text(desks, toolset, tool, projectId=NOBODY, **more)
    assert "Project not found" in nothing
    for each in (*ids(OURS), *ids(THEIRS)):
        assert await text(desks, toolset, tool, projectId=each, **more) == nothing


# --- what answers hold


def needles() -> Iterator[str]:
    """Texts that only they have, whole and in part."""
    yield from (MARK, MARK.upper(), MARK[:2], MARK[3:6], "theirs", THEIRS, uid(THEIRS, 1), f"shared-0{MARK}")


@pytest.mark.rule("catalog.search.isolation", "bridge.entities.isolation")
async def test_their_texts_are_not_found(desks: Desks) -> None:
    for needle in needles():
        asked = [
            await text(desks, "catalog", "search_entities", projectId=OURS, query=needle),
            await text(desks, "bridge", "search_entities", projectId=OURS, search=needle),
            await text(desks, "bridge", "list_search_performance", projectId=OURS, query=needle),
            await text(desks, "bridge", "list_search_performance", projectId=OURS, pageUrl=needle),
            await text(desks, "bridge", "list_quotable_blocks", projectId=OURS, topicTag=needle),
        ]
        found = '{"data":[],"pagination":{"page":1,"limit":20,"total":0,"hasMore":false}}'
        if needle not in (MARK[:2], MARK[3:6]):
            assert asked == ['{"entities":[],"totalCount":0}', *[found] * 4]


@pytest.mark.rule("catalog.search.isolation", "catalog.graph.isolation", "bridge.entities.isolation")
@pytest.mark.rule("bridge.graph.isolation", "bridge.performance.isolation", "bridge.blocks.isolation")
async def test_no_answer_has_anything_of_theirs(desks: Desks) -> None:
    answers = [
        await text(desks, toolset, tool, projectId=OURS, entityId=entity, **more)
        for toolset, tool, more in WITH_ENTITY
        for entity in ids(OURS)
    ]
    answers += [await text(desks, toolset, tool, projectId=OURS, **more) for toolset, tool, more in WITH_PROJECT]
    assert sum("Shared title" in answer for answer in answers) > 20
    for secret in (MARK, THEIRS, *ids(THEIRS)):
        assert not [answer for answer in answers if secret in answer]


@pytest.mark.rule("catalog.search.isolation", "bridge.entities.isolation")
@pytest.mark.rule("bridge.performance.isolation", "bridge.blocks.isolation")
async def test_totals_count_what_is_ours(desks: Desks) -> None:
    """The two projects hold the same but for a mark: what one counts is not the sum of both."""
    for project in (OURS, THEIRS):
        assert '"totalCount":5}' in await text(desks, "catalog", "search_entities", projectId=project, query="shared")
        for tool, filters, total in (
            ("search_entities", {"search": "shared"}, 5),
            ("search_entities", {"entityType": "concept"}, 2),
            ("search_entities", {"search": "sh"}, 5),
            ("search_entities", {}, 5),
            ("list_search_performance", {"query": "shared"}, 3),
            ("list_search_performance", {"pageUrl": "ex"}, 3),
            ("list_search_performance", {"dateStart": "2025-01-01"}, 3),
            ("list_search_performance", {}, 3),
            ("list_quotable_blocks", {"topicTag": "tag"}, 3),
            ("list_quotable_blocks", {"claimType": "statistic"}, 3),
            ("list_quotable_blocks", {"verifiedUntilBefore": "2025-01-01"}, 3),
            ("list_quotable_blocks", {}, 3),
        ):
            found = await text(desks, "bridge", tool, projectId=project, **filters)
            assert f'"total":{total},' in found, (tool, filters)


# --- the same by the routes of the backend

WAYS = [
    ({"x-project-id": OURS}, {}),
    ({"x-project-slug": "ours"}, {}),
    ({}, {"projectId": OURS}),
    ({}, {}),
    ({"x-project-id": OURS, "x-project-slug": "theirs"}, {"projectId": THEIRS}),
    ({"x-project-slug": "ours"}, {"projectId": THEIRS}),
]
"""Headers and cookies that lead to our project."""
ONE_ENTITY = ["/api/entities/{}", "/api/entities/{}/graph", "/api/entities/{}/graph?depth=2"]
FILTERED = ["/api/seo/search-performance?entityId={}", "/api/quotable-blocks?entityId={}"]
LISTS = ["/api/entities", "/api/seo/search-performance", "/api/quotable-blocks"]


async def answer(
    backends: dict[str, httpx.AsyncClient], path: str, headers: dict[str, str], cookies: dict[str, str]
) -> tuple[int, str]:
    """What the backend answers on both engines."""
    answers = {await get(client, path, [], headers, cookies) for client in backends.values()}
    assert len(answers) == 1, (path, headers, cookies, answers)
    return answers.pop()


@pytest.mark.parametrize(("headers", "cookies"), WAYS)
@pytest.mark.rule("bridge.project.isolation")
async def test_the_backend_answers_for_what_exists_elsewhere_as_for_what_does_not(
    backends: dict[str, httpx.AsyncClient], headers: dict[str, str], cookies: dict[str, str]
) -> None:
    for path in (*ONE_ENTITY, *FILTERED):
        nothing = await answer(backends, path.format(NOBODY), headers, cookies)
        assert nothing[0] == (404 if path in ONE_ENTITY else 200)
        for each in (*ids(THEIRS), THEIRS):
            assert await answer(backends, path.format(each), headers, cookies) == nothing


@pytest.mark.parametrize(("headers", "cookies"), WAYS)
@pytest.mark.rule("bridge.project.isolation")
async def test_no_answer_of_the_backend_has_anything_of_theirs(
    backends: dict[str, httpx.AsyncClient], headers: dict[str, str], cookies: dict[str, str]
) -> None:
    paths = [*LISTS, *(path.format(each) for path in (*ONE_ENTITY, *FILTERED) for each in ids(OURS))]
    bodies = [(await answer(backends, path, headers, cookies))[1] for path in paths]
    assert sum("hared" in body for body in bodies) > 10
    for secret in (MARK, THEIRS, *ids(THEIRS)):
        assert not [body for body in bodies if secret in body]


@pytest.mark.rule("bridge.project.unknown")
async def test_what_names_no_project_is_answered_alike_whatever_else_it_is(
    backends: dict[str, httpx.AsyncClient],
) -> None:
    for path in (*LISTS, *(each.format(uid(THEIRS, 1)) for each in (*ONE_ENTITY, *FILTERED))):
        nothing = await answer(backends, path, {"x-project-id": NOBODY}, {})
        assert nothing[0] == 404
        for each in (*one_of_each(OURS), *one_of_each(THEIRS)):
            assert await answer(backends, path, {"x-project-id": each}, {}) == nothing
            assert await answer(backends, path, {"x-project-slug": each}, {}) == nothing
            assert await answer(backends, path, {}, {"projectId": each}) == nothing
