"""The page of a desk that has doors."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Shot
from tests.browser.pages import Trouble, visit
from tests.program import run_carrel
from tests.wire import HttpServer

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doors")
    (folder / "carrel.toml").write_text('[server]\ntoolsets = ["tasks"]\n[auth]\ntokens = true\n', encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    done = run_carrel("token", "create", "--user", "ana", "--scopes", "tasks", cwd=folder)
    found = re.search(r"carrel_[\w-]+", done.stdout)
    assert found, done
    return found.group()


@pytest.fixture(scope="module")
def server(folder: Path, token: str) -> Iterator[HttpServer]:
    assert token
    server = HttpServer(cwd=folder)
    yield server
    server.stop()


@pytest.mark.rule("browser.shell.doors", "browser.shell.missing", "browser.try.curl", "browser.tasks.user")
def test_one_signs_in_sees_what_the_token_opens_and_signs_out(
    page: Page, token: str, trouble: Trouble, shot: Shot
) -> None:
    page.goto("/#/tasks")
    shot(page, "sign-in")
    field = page.get_by_label("Access token")
    field.fill(token)
    field.press("Enter")
    expect(page.locator(".who")).to_have_text("ana")
    visit(page, "tasks")
    page.get_by_label("Title").fill("Mine")
    page.keyboard.press("Enter")
    expect(page.locator(".task")).to_contain_text("Mine")
    expect(page.locator(".whose")).to_have_text("of ana")
    visit(page, "try?toolset=tasks&tool=list_tasks")
    expect(page.locator("[data-arg=user_id] input")).to_have_value("ana")
    line = page.get_by_role("region", name="curl").locator("pre")
    expect(line).to_contain_text('-H "Authorization: Bearer $CARREL_TOKEN"')
    assert token not in page.content()
    visit(page, "code")
    expect(page.locator(".empty")).to_have_text(re.compile(r"needs the toolset code or journal\. .*server\.toolsets"))
    visit(page, "desk")
    expect(page.get_by_role("region", name="Recent calls").first).to_contain_text("your calls only")

    # A cookie that is gone in the middle of it all leads to the form, and from there back.
    visit(page, "tasks")
    page.context.clear_cookies()
    page.locator(".task").get_by_role("checkbox").click()
    page.get_by_label("Access token").fill(token)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Tasks")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Access token")).to_be_visible()
    trouble.forgive("401")
