"""What is around the views: the header, the keys, the themes, and that everybody can use them."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import carrel.page
from tests.browser.conftest import OpenPage, Shot
from tests.browser.pages import VIEWS, Trouble, basics, fits, visit

pytestmark = pytest.mark.xdist_group("browser")

STATIC = Path(carrel.page.__file__).parent / "static"
SOUND = {"unnamed": [], "landmarks": [], "repeated": [], "images": [], "jumps": [], "scopes": [], "language": "en"}

TEXTS = ("--text", "--muted", "--accent", "--good", "--warn", "--bad", *(f"--kind-{n}" for n in range(6)))
GROUNDS = ("--bg", "--surface", "--raised")
MARKS = ("--edge", "--focus")


@pytest.mark.rule("browser.shell.views", "browser.access.basics")
def test_each_view_has_its_heading_its_landmarks_and_a_name_for_every_control(page: Page, shot: Shot) -> None:
    for name in VIEWS:
        visit(page, name)
        expect(page.locator("nav a[aria-current=page]")).to_have_attribute("href", f"#/{name}")
        found = basics(page)
        (heading,) = found.pop("headings")
        assert page.title() == f"{heading} · Carrel"
        assert found == SOUND, name
        shot(page, f"{name}-light")


@pytest.mark.rule("browser.access.narrow")
def test_nothing_sticks_out_at_the_side_of_a_narrow_window(narrow_page: Page, shot: Shot) -> None:
    for name in VIEWS:
        visit(narrow_page, name)
        assert fits(narrow_page), name
        shot(narrow_page, f"{name}-narrow")
        narrow_page.set_viewport_size({"width": 320, "height": 640})
        assert fits(narrow_page), name
        narrow_page.set_viewport_size({"width": 360, "height": 740})


@pytest.mark.rule("browser.access.contrast", "browser.shell.theme")
def test_colours_are_far_enough_apart_in_both_themes(dark_page: Page, shot: Shot) -> None:
    for name in ("desk", "tasks", "try"):
        visit(dark_page, name)
        shot(dark_page, f"{name}-dark")
    assert _too_close(dark_page) == []
    dark_page.emulate_media(color_scheme="light")
    assert _too_close(dark_page) == []


@pytest.mark.rule("browser.shell.theme")
def test_the_theme_is_the_systems_until_one_is_chosen_which_is_kept(dark_page: Page) -> None:
    visit(dark_page, "desk")
    ground = dark_page.evaluate("getComputedStyle(document.body).backgroundColor")
    switch = dark_page.get_by_role("button", name="Theme: system")
    switch.click()
    expect(dark_page.get_by_role("button", name="Theme: light")).to_be_focused()
    assert dark_page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    dark_page.reload()
    expect(dark_page.locator("html")).to_have_attribute("data-theme", "light")
    dark_page.get_by_role("button", name="Theme: light").click()
    assert dark_page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    dark_page.get_by_role("button", name="Theme: dark").click()
    dark_page.reload()
    expect(dark_page.get_by_role("button", name="Theme: system")).to_be_visible()


@pytest.mark.rule("browser.keys.views", "browser.keys.help", "browser.keys.search")
def test_keys_lead_to_views_to_their_search_and_to_a_list_of_keys_but_not_while_typing(page: Page) -> None:
    visit(page, "desk")
    for key, name in {"g": "graph", "t": "tasks", "c": "content", "o": "code", "y": "try", "d": "desk"}.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"#/{name}"))
        expect(page.locator("h1")).to_be_focused()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_contain_text("Go to Graph")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    expect(page).to_have_url(re.compile("#/desk"))
    visit(page, "tasks")
    page.keyboard.press("/")
    search = page.get_by_role("searchbox")
    expect(search).to_be_focused()
    page.keyboard.type("g?d/")
    expect(search).to_have_value("g?d/")


@pytest.mark.rule("browser.access.focus", "browser.keys.order")
def test_the_tab_key_goes_through_the_page_in_order_and_shows_where_it_is(page: Page) -> None:
    visit(page, "try")
    names: list[str] = []
    for _ in range(12):
        page.keyboard.press("Tab")
        now: Any = page.evaluate(
            "() => { const node = document.activeElement, style = getComputedStyle(node);"
            " return [node.ariaLabel ?? node.labels?.[0]?.textContent ?? node.textContent,"
            " style.outlineStyle, parseFloat(style.outlineWidth), node.getBoundingClientRect().top >= 0] }"
        )
        assert now[1:] == ["solid", 2, True], now
        names.append(now[0])
    header = [
        "Skip to content",
        "Carrel",
        "Desk",
        "Graph",
        "Tasks",
        "Content",
        "Code",
        "Try",
        "Theme: system",
        "Keyboard shortcuts",
    ]
    assert names == [*header, "Toolset", "Tool"]
    page.reload()
    page.locator("h1").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page).to_have_url(re.compile("#/try"))


@pytest.mark.rule("browser.shell.unreachable")
def test_a_server_that_does_not_answer_is_told_where_it_was_asked(page: Page, trouble: Trouble) -> None:
    visit(page, "tasks")
    page.context.set_offline(True)
    page.get_by_label("Title").fill("Unsaid")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="is not responding")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_label("Title")).to_have_value("Unsaid")
    trouble.forgive("ERR_INTERNET_DISCONNECTED")


@pytest.mark.rule("browser.hostile.apis")
def test_the_pages_files_parse_no_markup_and_name_no_other_address() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML|createContextualFragment"
        r"|DOMParser|\bstyle=|setAttribute\(\s*[\"'](?:style|on)|srcdoc\s*[:=]|javascript:"
    )
    address = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.[\w.-]+")
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".css", ".html", ".js", ".svg"}
    found: list[tuple[str, str]] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        for pattern in (forbidden, address):
            found += [(path.name, match.group()) for match in pattern.finditer(text)]
    assert found == []


def test_an_unknown_place_shows_the_desk(open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/#/nowhere?x=1")
    expect(page.locator("h1")).to_have_text("Desk")


def _too_close(page: Page) -> list[tuple[str, str, float]]:
    """Pairs of tokens below 4.5:1 for text and 3:1 for marks, by the formula of WCAG 2."""
    names = {*TEXTS, *GROUNDS, *MARKS, "--accent-text"}
    colours: dict[str, str] = page.evaluate(
        "(names) => { const style = getComputedStyle(document.documentElement);"
        " return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim()])) }",
        sorted(names),
    )
    light = {name: _luminance(colour) for name, colour in colours.items()}
    wanted = [(text, ground, 4.5) for text in TEXTS for ground in GROUNDS]
    wanted += [(mark, ground, 3.0) for mark in MARKS for ground in GROUNDS[:2]]
    wanted.append(("--accent-text", "--accent", 4.5))
    return [(one, two, ratio) for one, two, least in wanted if (ratio := _contrast(light[one], light[two])) < least]


def _contrast(one: float, two: float) -> float:
    return (max(one, two) + 0.05) / (min(one, two) + 0.05)


def _luminance(colour: str) -> float:
    assert re.fullmatch("#[0-9a-f]{6}", colour), colour
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
