"""The view of graphs in a host of the official packages: their client to the server, their bridge to the view."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Frame, Page, Route, expect

from tests.official.nodejs import node_modules
from tests.wire import HttpServer

from .conftest import Trouble

pytestmark = pytest.mark.slow

HOST = "/apps-host/"
HOSTILE = "<img src=x onerror=\"document.title='bad'\"><script>document.title='bad'</script>\u202e"


@pytest.fixture(scope="module")
def page(browser: Browser, server: HttpServer) -> Iterator[Page]:
    """One host for all tests, since it is put together out of a hundred files."""
    trouble = Trouble(server.url)
    page = browser.new_page(viewport={"width": 900, "height": 700}, color_scheme="dark")
    page.set_default_timeout(15_000)
    trouble.watch(page)

    def serve(route: Route) -> None:
        name = route.request.url.split(HOST)[1]
        if name == "":
            route.fulfill(path=__file__.replace("test_apps.py", "apps_host.html"), content_type="text/html")
        elif name == "zod/v4/locales/index.js":  # fifty languages that nobody speaks here
            route.fulfill(body="export {};", content_type="text/javascript")
        else:
            route.fulfill(path=node_modules() / name, content_type="text/javascript")

    page.route(f"{server.url}{HOST}**", serve)
    page.goto(server.url + HOST)
    page.wait_for_function("document.title === 'Ready'")
    page.evaluate("host.connect('/mcp')")
    yield page
    page.close()
    assert trouble.found == []


def opened(page: Page, tool: str, **options: Any) -> Frame:
    page.evaluate("([tool, options]) => host.open(tool, options)", [tool, options])
    return page.frames[-1]


def called(page: Page, tool: str, **arguments: Any) -> Any:
    result = page.evaluate("([tool, given]) => host.call(tool, given)", [tool, arguments])
    return json.loads(result["content"][0]["text"])


def value(page: Page, name: str, **arguments: Any) -> Any:
    result = page.evaluate("(call) => host.client.callTool(call)", {"name": name, "arguments": arguments})
    return json.loads(result["content"][0]["text"])


def shown(page: Page, result: Any, **arguments: Any) -> None:
    """A result that no server made."""
    page.evaluate(
        "([given, result]) => host.bridge.sendToolInput({arguments: given})"
        ".then(() => host.bridge.sendToolResult(result))",
        [arguments, result],
    )


def structured(answer: Any) -> dict[str, Any]:
    return {"content": [], "structuredContent": answer}


@pytest.fixture(scope="module")
def concept(page: Page) -> dict[str, str]:
    """An entity with relations."""
    project = value(page, "list_projects")["data"][0]["id"]
    found = value(page, "search_entities", projectId=project, limit=100)["data"]
    entity = next(each["id"] for each in found if each["title"] == "Light pollution")
    return {"projectId": project, "entityId": entity}


@pytest.mark.rule("apps.page.drawn", "apps.page.expanded", "apps.page.theme", "apps.page.size")
def test_an_entitys_graph_is_drawn_expanded_and_follows_the_host(
    page: Page, concept: dict[str, str], shot: Callable[[Page, str], None]
) -> None:
    view = opened(page, "get_entity_graph")
    expect(view.locator("#status")).to_have_text("Waiting for the answer…")
    data = called(page, "get_entity_graph", **concept)["data"]
    related = {each["relatedEntity"]["title"] for each in data["relationships"]}
    nodes = view.locator(".node")
    expect(nodes).to_have_count(1 + len(related))
    assert set(view.locator(".node title").all_text_contents()) == {"Light pollution", *related}
    assert set(view.locator(".edge text").all_text_contents()) == {"relates to", "references"}
    assert view.locator(".edge path[marker-end]").count() == len(data["relationships"])
    assert view.locator("#legend span").all_text_contents() == ["concept", "news"]
    expect(view.locator("#details h2")).to_have_text("Light pollution")
    assert page.evaluate("host.sizes.at(-1)") == view.evaluate("Math.ceil(document.body.scrollHeight)")

    placed = nodes.evaluate_all("all => all.map(each => each.outerHTML)")
    called(page, "get_entity_graph", **concept)
    assert nodes.evaluate_all("all => all.map(each => each.outerHTML)") == placed

    before = nodes.count()
    view.get_by_role("button", name="Nine steps of darkness, concept").click()
    expect(view.locator("#details")).to_contain_text("→ relates to Light pollution")
    view.get_by_role("button", name="Expand", exact=True).click()
    expect(view.get_by_role("button", name="The street star count, project")).to_be_visible()
    assert nodes.count() > before
    call = page.evaluate("host.calls.at(-1)")
    assert call["name"] == "get_entity_graph"
    assert call["arguments"]["entityId"] != concept["entityId"]
    expect(view.get_by_role("button", name="Expand", exact=True)).to_have_count(0)

    paper = "getComputedStyle(document.body).backgroundColor"
    assert view.evaluate(paper) == "rgb(255, 255, 255)"
    page.evaluate("host.bridge.setHostContext({theme: 'dark'})")
    view.wait_for_function(f"{paper} === 'rgb(27, 29, 33)'")
    shot(page, "apps-dark")
    assert page.evaluate("host.bridge.teardownResource({})") == {}


@pytest.mark.rule("apps.page.depth_0", "apps.page.text", "apps.page.keyboard", "apps.page.expanded", "apps.page.theme")
def test_a_note_is_drawn_with_what_was_asked_for_and_reached_by_keys(page: Page) -> None:
    note = value(page, "get_hubs", limit=1)[0]["id"]
    view = opened(page, "get_node", capabilities={}, context={"theme": None})
    assert view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(27, 29, 33)"
    alone = called(page, "get_node", id=note)
    expect(view.locator("#status")).to_contain_text("depth 0")
    expect(view.locator(".node")).to_have_count(1 + len({link["id"] for link in alone["links"]}))
    expect(view.get_by_role("button", name="Expand", exact=True)).to_have_count(0)

    answer = called(page, "get_node", id=note, depth=1)
    shown(page, {"content": [{"type": "text", "text": json.dumps(answer)}]}, id=note, depth=1)
    expect(view.locator("#status")).to_be_empty()
    expect(view.locator(".node")).to_have_count(1 + len(answer["neighbors"]))
    mutual = [each for each in answer["neighbors"] if each["direction"] == "out"]
    assert view.locator("#legend").inner_text().endswith("→ links to")
    assert mutual

    view.locator("#picture").focus()
    before = view.locator("#world").get_attribute("transform")
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    assert view.locator("#world").get_attribute("transform") != before
    reached: list[str | None] = []
    for _ in range(1 + len(answer["neighbors"])):
        page.keyboard.press("Tab")
        reached.append(view.locator(":focus").get_attribute("data-id"))
    assert set(reached) == {note, *(each["id"] for each in answer["neighbors"])}
    page.keyboard.press("Enter")
    selected = view.locator(".node.selected")
    assert selected.get_attribute("data-id") == reached[-1]
    assert selected.get_attribute("aria-pressed") == "true"
    assert view.evaluate("document.activeElement.dataset.id") == reached[-1]


def _hostile() -> dict[str, Any]:
    """An answer of each contract with markup wherever a text can be."""
    bad = HOSTILE
    entity = {"title": bad, "entityType": bad, "slug": bad, "status": bad, "summary": bad}
    edge = {"fromEntityId": bad, "toEntityId": "b", "relationType": f"A_{bad}_B", "notes": bad}
    note = {"title": bad, "content": bad, "tags": [bad]}
    return {
        "catalog": {"nodes": [{"id": bad, "depth": 0, **entity}, {"id": "b", "depth": 1, **entity}], "edges": [edge]},
        "bridge": {"data": {"rootEntity": {"id": bad, **entity}, "relationships": [{**edge, "relatedEntity": None}]}},
        "notes": {
            "id": bad,
            **note,
            "links": [{"id": "b", "title": bad}],
            "neighbors": [{"id": "b", **note, "links": [{"id": bad, "title": bad}], "direction": "out"}],
            "incomingCount": 1,
            "outgoingCount": 1,
        },
    }


@pytest.mark.rule("apps.page.hostile", "apps.page.failures", "apps.page.size")
def test_whatever_comes_stays_text_and_failures_are_said(page: Page) -> None:
    view = opened(page, "get_node", context={"containerDimensions": {"height": 420}})
    for contract, answer in _hostile().items():
        shown(page, structured(answer), depth=1)
        expect(view.locator(".node")).to_have_count(2)
        assert view.locator("#details h2").text_content() == HOSTILE, contract
        assert view.evaluate("document.querySelectorAll('img, #world script, #details script, a').length") == 0
    assert view.evaluate("document.title") == "Graph"
    assert view.evaluate("document.body.className") == "fixed"

    status = view.locator("#status")
    error = json.dumps({"error": {"code": "NOT_FOUND", "message": f"Entity not found {HOSTILE}"}})
    shown(page, {"content": [{"type": "text", "text": error}], "isError": True})
    expect(status).to_have_text(f"Entity not found {HOSTILE}")
    shown(page, {"content": [{"type": "text", "text": "plain words"}], "isError": True})
    expect(status).to_have_text("plain words")
    shown(page, {"content": [{"type": "text", "text": "null"}]})
    expect(status).to_have_text("There is no such note.")
    for odd in ({"content": []}, structured({"nodes": [], "edges": []}), structured({"data": {}}), structured([1])):
        shown(page, odd)
        expect(status).to_have_text("This answer holds no graph.")
    page.evaluate("host.bridge.sendToolCancelled({reason: 'by the user'})")
    expect(status).to_have_text("The call was cancelled. by the user")
    assert view.locator(".node").count() == 0

    shown(page, structured(_hostile()["notes"]), id="x")
    view.get_by_role("button", name="Expand", exact=True).click()
    expect(status).to_contain_text("Not expanded: ")
