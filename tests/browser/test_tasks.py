"""The Tasks view: what it does is seen in the list that an assistant gets."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Shot
from tests.browser.pages import USER, visit
from tests.wire import MODERN, HttpServer, HttpWire, call, value

pytestmark = pytest.mark.xdist_group("browser")


def _tasks(server: HttpServer) -> dict[str, dict[str, Any]]:
    wire = HttpWire(MODERN, server.url)
    found = value(call(wire, "list_tasks", {"user_id": USER}))
    wire.close()
    return {task["title"]: task for task in found}


@pytest.mark.rule("browser.tasks.written", "browser.tasks.deleted", "browser.tasks.filter")
def test_a_task_is_added_edited_done_filtered_and_deleted(page: Page, server: HttpServer, shot: Shot) -> None:
    visit(page, "tasks")
    form = page.get_by_role("form", name="Add a task")
    form.get_by_label("Title").fill("Buy <b>rye</b>")
    form.get_by_label("Description").fill("Two sacks")
    form.get_by_role("button", name="Add").click()
    row = page.locator(".task").filter(has_text="Buy <b>rye</b>")
    expect(row).to_contain_text("Two sacks")
    expect(page.locator(".task").first).to_contain_text("Buy <b>rye</b>")
    expect(form.get_by_label("Title")).to_be_focused()
    assert _tasks(server)["Buy <b>rye</b>"]["description"] == "Two sacks"

    row.get_by_role("button", name="Edit").click()
    edit = page.get_by_role("form", name="Edit the task")
    edit.get_by_label("Title").fill("Buy wheat")
    edit.get_by_label("Description").fill("")
    shot(page, "tasks-edit")
    edit.get_by_role("button", name="Save").click()
    row = page.locator(".task").filter(has_text="Buy wheat")
    expect(row.get_by_role("button", name="Edit")).to_be_focused()
    assert _tasks(server)["Buy wheat"]["description"] is None

    row.get_by_role("checkbox").check()
    expect(row.get_by_role("checkbox")).to_be_disabled()
    expect(page.locator(".task.is-done").filter(has_text="Buy wheat")).to_be_visible()
    assert _tasks(server)["Buy wheat"]["completed"] is True
    page.get_by_text("Open", exact=False).first.click()
    expect(row).to_have_count(0)
    page.get_by_role("radio", name="Done").check(force=True)
    expect(row).to_have_count(1)
    page.get_by_role("searchbox").fill("WHEAT")
    expect(page.locator(".task")).to_have_count(1)

    row.get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog", name="Delete this task?")
    expect(question).to_contain_text("Buy wheat")
    expect(question.get_by_role("button", name="Keep")).to_be_focused()
    shot(page, "tasks-delete")
    question.get_by_role("button", name="Keep").click()
    assert "Buy wheat" in _tasks(server)
    row.get_by_role("button", name="Delete").click()
    question.get_by_role("button", name="Delete").click()
    expect(page.locator(".empty")).to_have_text("No matching tasks.")
    assert "Buy wheat" not in _tasks(server)


@pytest.mark.rule("browser.tasks.faults")
def test_what_the_tool_refuses_is_told_at_the_field(page: Page, server: HttpServer) -> None:
    visit(page, "tasks")
    before = _tasks(server)
    title, description = page.get_by_label("Title"), page.get_by_label("Description")
    page.get_by_role("button", name="Add").click()
    expect(title).to_have_attribute("aria-invalid", "true")
    expect(title).to_have_accessible_description("Title is required")
    expect(title).to_be_focused()
    title.fill("x" * 201)
    title.press("Enter")
    expect(title).to_have_accessible_description("Title must be 200 characters or less")
    title.fill("x")
    description.fill("x" * 1001)
    description.press("Control+Enter")
    expect(description).to_have_accessible_description("Description must be 1000 characters or less")
    expect(title).not_to_have_attribute("aria-invalid", "true")
    assert _tasks(server) == before


@pytest.mark.rule("browser.keys.alone")
def test_everything_is_done_with_the_keyboard_alone(page: Page, server: HttpServer) -> None:
    page.goto("/")
    page.locator("h1").wait_for()
    press = page.keyboard.press
    press("g")
    press("t")
    page.get_by_role("form", name="Add a task").wait_for()
    press("Tab")
    page.keyboard.type("By hand")
    press("Enter")
    row = page.locator(".task").filter(has_text="By hand")
    row.wait_for()
    for _ in range(5):  # description, Add, the filter, the search, the new task's box
        press("Tab")
    expect(row.get_by_role("checkbox")).to_be_focused()
    press("Tab")
    press("Enter")
    page.keyboard.type(", twice")
    press("Escape")
    expect(row.get_by_role("button", name="Edit")).to_be_focused()
    press("Enter")
    press("End")
    page.keyboard.type(", twice")
    press("Enter")
    row = page.locator(".task").filter(has_text="By hand, twice")
    expect(row.get_by_role("button", name="Edit")).to_be_focused()
    press("Shift+Tab")
    press("Space")
    expect(page.locator(".task.is-done").filter(has_text="By hand, twice")).to_be_visible()
    expect(row.get_by_role("checkbox")).to_be_disabled()
    assert _tasks(server)["By hand, twice"]["completed"] is True
    press("Tab")
    press("Enter")
    press("Tab")
    press("Enter")
    expect(row).to_have_count(0)
    assert "By hand, twice" not in _tasks(server)
    expect(page.get_by_role("button", name="Delete").first).to_be_attached()
    assert page.evaluate("document.activeElement.dataset.act") == "Delete"
