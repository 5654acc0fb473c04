"""The view of graphs in a host of the official packages: their client to the server, their bridge to the view."""

import json
import time
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


def drawn(view: Frame, before: str | None = None) -> None:
    """Until the picture is whole, and another one than `before`."""
    view.locator("#picture[data-state=drawn]").wait_for()
    until = time.monotonic() + 10
    while pixels(view) == before:
        assert time.monotonic() < until


def pixels(view: Frame) -> str:
    """The canvas, after what is to be drawn in this frame and the next."""
    return view.evaluate(
        "async () => { for (const _ of [1, 2, 3]) await new Promise(requestAnimationFrame);"
        " return document.getElementById('picture').toDataURL(); }"
    )


def painted(view: Frame, colour: str) -> int:
    """How many pixels of the canvas have about this colour."""
    return view.evaluate(
        """(name) => {
          const canvas = document.getElementById("picture");
          const probe = canvas.appendChild(document.createElement("i"));
          probe.style.color = `var(${name})`;
          const wanted = getComputedStyle(probe).color.match(/[0-9]+/g).map(Number);
          probe.remove();
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
          copy.drawImage(canvas, 0, 0);
          const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
          let count = 0;
          for (let at = 0; at < data.length; at += 4) {
            if (wanted.every((part, of) => Math.abs(part - data[at + of]) < 8) && data[at + 3] > 250) count++;
          }
          return count;
        }""",
        colour,
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
    expect(view.locator("#status")).to_have_text("Waiting for the result…")
    data = called(page, "get_entity_graph", **concept)["data"]
    related = {each["relatedEntity"]["title"] for each in data["relationships"]}
    nodes = view.locator(".node")
    expect(nodes).to_have_count(1 + len(related))
    titles = {each.rpartition(", ")[0] for each in nodes.all_text_contents()}
    assert titles == {"Light pollution", *related}
    lines = view.locator("#details li").all_text_contents()
    assert len(lines) == len(data["relationships"])
    assert {line.partition(" ")[0] for line in lines} <= {"→", "←"}
    assert view.locator("#legend span").all_text_contents() == ["concept", "news"]
    drawn(view)
    for colour in ("--kind-1", "--kind-3", "--text", "--muted"):  # concepts, news, titles, names of relations
        assert painted(view, colour) > 20, colour
    expect(view.locator("#details h2")).to_have_text("Light pollution")
    assert page.evaluate("host.sizes.at(-1)") == view.evaluate("Math.ceil(document.body.scrollHeight)")

    picture = pixels(view)
    called(page, "get_entity_graph", **concept)
    drawn(view)
    assert pixels(view) == picture
    shot(page, "apps-light")

    before = nodes.count()
    view.get_by_role("button", name="Nine steps of darkness, concept").press("Enter")
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
    light = pixels(view)
    page.evaluate("host.bridge.setHostContext({theme: 'dark'})")
    view.wait_for_function(f"{paper} === 'rgb(27, 29, 33)'")
    drawn(view, light)
    assert painted(view, "--kind-1") > 20
    shot(page, "apps-dark")
    assert page.evaluate("host.bridge.teardownResource({})") == {}


@pytest.mark.rule("apps.page.depth_0", "apps.page.text", "apps.page.keyboard", "apps.page.expanded", "apps.page.theme")
def test_a_note_is_drawn_with_what_was_asked_for_and_reached_by_keys(
    page: Page, shot: Callable[[Page, str], None]
) -> None:
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
    drawn(view)
    shot(page, "apps-notes")
    before = pixels(view)
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowLeft")
    drawn(view, before)
    reached: list[str | None] = []
    for _ in range(1 + len(answer["neighbors"])):
        page.keyboard.press("Tab")
        reached.append(view.locator(":focus").get_attribute("data-id"))
    assert set(reached) == {note, *(each["id"] for each in answer["neighbors"])}
    page.keyboard.press("Enter")
    selected = view.locator(".node[aria-pressed=true]")
    assert selected.get_attribute("data-id") == reached[-1]
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
        assert view.evaluate("document.querySelectorAll('img, div script, #details script, a').length") == 0
    assert view.evaluate("document.title") == "Graph"
    assert view.evaluate("document.body.className") == "fixed"

    status = view.locator("#status")
    error = json.dumps({"error": {"code": "NOT_FOUND", "message": f"Entity not found {HOSTILE}"}})
    shown(page, {"content": [{"type": "text", "text": error}], "isError": True})
    expect(status).to_have_text(f"Entity not found {HOSTILE}")
    shown(page, {"content": [{"type": "text", "text": "plain words"}], "isError": True})
    expect(status).to_have_text("plain words")
    shown(page, {"content": [{"type": "text", "text": "null"}]})
    expect(status).to_have_text("This note does not exist.")
    for odd in ({"content": []}, structured({"nodes": [], "edges": []}), structured({"data": {}}), structured([1])):
        shown(page, odd)
        expect(status).to_have_text("This result contains no graph.")
    page.evaluate("host.bridge.sendToolCancelled({reason: 'by the user'})")
    expect(status).to_have_text("The call was cancelled. by the user")
    assert view.locator(".node").count() == 0

    shown(page, structured(_hostile()["notes"]), id="x")
    view.get_by_role("button", name="Expand", exact=True).click()
    expect(status).to_contain_text("Could not expand: ")
