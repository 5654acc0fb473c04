"""The Desk view, over calls that really were made."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Shot
from tests.browser.pages import USER, visit
from tests.wire import MODERN, HttpServer, HttpWire

pytestmark = pytest.mark.xdist_group("browser")

LOOK = "document.dispatchEvent(new Event('visibilitychange'))"
"""What a browser says when the page is looked at again."""


def _call(server: HttpServer, tool: str, times: int = 1, **arguments: str) -> None:
    wire = HttpWire(MODERN, server.url)
    for _ in range(times):
        wire.request("tools/call", {"name": tool, "arguments": arguments})
    wire.close()


@pytest.mark.rule("browser.desk.served", "browser.desk.calls")
def test_it_shows_what_is_served_and_how_often_and_how_fast_it_is_called(
    page: Page, server: HttpServer, shot: Shot
) -> None:
    _call(server, "list_tasks", 3, user_id=USER)
    _call(server, "list_tasks", 1, user_id="somebody else")
    visit(page, "desk")
    expect(page.get_by_role("list", name="Health")).to_contain_text("database")
    toolsets = page.get_by_role("region", name="Toolsets")
    expect(toolsets.get_by_role("heading", level=3)).to_have_text(["bridge", "notes", "tasks", "code", "journal"])
    expect(toolsets).to_contain_text("/tasks/mcp")
    row = page.get_by_role("region", name="Tools", exact=True).get_by_role("row").filter(has_text="list_tasks")
    calls, _, errors, *times = [int(text) if text.isdigit() else text for text in row.locator("td").all_inner_texts()]
    assert isinstance(calls, int)
    assert calls >= 4
    assert isinstance(errors, int)
    assert errors >= 1
    assert all(str(each).endswith((" ms", " s")) for each in times)
    newest = page.locator(".recent tbody tr").first
    expect(newest).to_contain_text("list_tasks")
    expect(newest).to_contain_text("refused")
    expect(page.get_by_role("img", name="calls in the last 30 minutes")).to_be_visible()
    shot(page, "desk-light")
    row.get_by_role("link", name="list_tasks").click()
    expect(page.locator("#tool")).to_have_value("list_tasks")


@pytest.mark.rule("browser.desk.live")
def test_new_calls_appear_in_place_and_leave_focus_and_scrolling_alone(page: Page, server: HttpServer) -> None:
    _call(server, "list_tasks", user_id=USER)
    page.set_viewport_size({"width": 1280, "height": 500})
    visit(page, "desk")
    link = page.get_by_role("rowheader").get_by_role("link", name="list_tasks")
    link.focus()
    page.evaluate("scrollTo(0, 150)")
    page.evaluate("window.before = document.activeElement")
    _call(server, "get_hubs", 25)
    page.evaluate(LOOK)
    expect(page.locator(".recent tbody tr").first).to_contain_text("get_hubs")
    expect(page.get_by_role("rowheader").first).to_contain_text("get_hubs")
    assert page.evaluate("window.before === document.activeElement")
    assert page.evaluate("scrollY") == 150
    # And without being told, every two seconds.
    _call(server, "list_projects")
    expect(page.locator(".recent tbody tr").first).to_contain_text("list_projects")


@pytest.mark.rule("browser.desk.sorted")
def test_the_tools_are_sorted_by_the_header_that_is_pressed_and_the_address_keeps_it(
    page: Page, server: HttpServer
) -> None:
    _call(server, "get_hubs", 2)
    _call(server, "list_tasks", 1, user_id=USER)
    visit(page, "desk")
    names = page.get_by_role("rowheader").get_by_role("link")
    header = page.get_by_role("region", name="Tools", exact=True).get_by_role("columnheader").first
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    rising = names.all_inner_texts()
    assert rising == sorted(rising)
    header.get_by_role("button").press("Enter")
    expect(header).to_have_attribute("aria-sort", "descending")
    page.reload()
    expect(header).to_have_attribute("aria-sort", "descending")
    assert names.all_inner_texts() == rising[::-1]
    assert page.locator("[aria-sort]").count() == 1
