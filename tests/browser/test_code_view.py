"""Code: what the view finds is what the tools find, and it opens where it is."""

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from carrel.demo.sample_calls import McpClient
from tests.browser.conftest import OpenPage, Shot
from tests.browser.pages import fits, visit
from tests.wire import HttpServer

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def desk(server: HttpServer) -> McpClient:
    return McpClient(f"{server.url}/mcp")


@pytest.mark.rule("code_view.grep.found", "code_view.grep.cut")
def test_matches_are_grouped_by_file_and_marked(page: Page, desk: McpClient) -> None:
    visit(page, "code")
    page.locator("h1").focus()
    page.keyboard.press("/")
    page.keyboard.type("oven")
    page.keyboard.press("Enter")
    matches = desk.call("grep_codebase", {"pattern": "oven"})["matches"]
    rows = page.locator(".grep-line[data-row]")
    expect(rows.locator(".grep-number")).to_have_text([str(each["line"]) for each in matches])
    expect(rows.locator(".grep-text")).to_have_text([each["text"] for each in matches], use_inner_text=False)
    files = list(dict.fromkeys(each["file"] for each in matches))
    counts = [sum(each["file"] == file for each in matches) for file in files]
    expect(page.locator(".grep-file h3")).to_have_text([f"{f} {n}" for f, n in zip(files, counts, strict=True)])
    marks = page.locator(".grep-text mark").all_inner_texts()
    assert {each.lower() for each in marks} == {"oven"}
    expect(page.locator(".code-count")).to_have_text(f"{len(matches)} matching lines")
    page.get_by_label("Context lines").uncheck()
    expect(page.locator(".grep-line")).to_have_count(len(matches))

    page.get_by_label("Files").fill("**/*.py")
    page.get_by_label("Limit").select_option("20")
    page.get_by_label("Pattern").fill("e")
    page.keyboard.press("Enter")
    total = desk.call("grep_codebase", {"pattern": "e", "filePattern": "**/*.py"})["totalMatches"]
    expect(page.locator(".code-count")).to_have_text(f"The first 20 of {total} matching lines")
    expect(page.locator(".code-cut")).to_contain_text("Truncated")
    page.reload()
    expect(rows).to_have_count(20)
    expect(page.get_by_label("Files")).to_have_value("**/*.py")


@pytest.mark.rule("code_view.grep.faults")
def test_a_pattern_that_is_refused_is_told_in_the_tools_words(page: Page) -> None:
    visit(page, f"code?by=grep&q={quote('[invalid(')}")
    expect(page.get_by_role("alert")).to_contain_text("Invalid regex pattern")
    visit(page, "code?by=grep&q=thisisnowhere")
    expect(page.locator(".code-results .empty")).to_contain_text("No matches in")


@pytest.mark.rule("code_view.grep.marking")
def test_marking_follows_the_match_and_never_runs_away(page: Page) -> None:
    visit(page, "code")
    marked = page.evaluate(
        r"""async () => {
          const { pieces } = await import("/page/js/views/code/highlight.js");
          const told = ({ text, isMatch }) => (isMatch ? `<${text}>` : text);
          const shown = (...given) => pieces(...given).map(told).join("");
          const long = "a".repeat(450) + "!";
          const began = performance.now();
          const options = "a?".repeat(60) + "a".repeat(60);
          const hostile = ["(a+)+$", "(a|a)*b", "a*a*a*a*a*b", "(a|a)".repeat(30) + "b", options, "(?:a{1,9}){1,99}b"];
          const textOf = (pattern) => pieces(long, 1, pattern, false).map((each) => each.text).join("");
          const whole = hostile.every((pattern) => textOf(pattern) === long);
          return {
            shown: [
              shown("an Oven and an oven", 4, "oven", false),
              shown("an Oven and an oven", 16, "oven", true),
              shown("def plan(book):", 1, "def \\w+\\(.*\\)", false),
              shown("x = f(1)", 5, "f\\(", false),
              shown("🍞🍞 oven", 4, "(?P<a>oven)", false),
              shown("<b>oven</b>", 4, "oven", false),
            ],
            whole,
            ms: performance.now() - began,
          };
        }"""
    )
    assert marked["shown"] == [
        "an <Oven> and an <oven>",
        "an Oven and an <oven>",
        "<def plan(book)>:",
        "x = <f(>1)",
        "🍞🍞 <oven>",
        "<b><oven></b>",
    ]
    assert marked["whole"]
    assert marked["ms"] < 5_000, "one of these would take longer than the universe is old"


@pytest.mark.rule("code_view.reading.opened", "code_view.grep.copied")
def test_a_result_opens_its_file_at_its_line(open_page: OpenPage, desk: McpClient, sample: Path, shot: Shot) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    visit(page, "code?by=grep&q=oven")
    match = desk.call("grep_codebase", {"pattern": "oven"})["matches"][2]
    place = f"{match['file']}:{match['line']}"
    expect(page.locator("[data-place]").first).to_be_visible()
    page.locator("[data-search]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    current = page.locator(".file-line[aria-current]")
    expect(current).to_have_attribute("data-line", str(match["line"]))
    expect(page.locator(".file-head h2")).to_have_text(match["file"])
    expect(page.locator(f"[data-place='{place}']")).to_have_attribute("aria-current", "true")
    lines = (sample / "planner" / match["file"]).read_text(encoding="utf-8").splitlines()
    assert page.locator(".file-line").all_text_contents() == [each or " " for each in lines]
    shot(page, "code-file")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == place
    page.go_back()
    expect(page.locator(".file")).to_have_count(0)
    expect(page.locator("[data-place]").first).to_be_visible()


@pytest.mark.rule("code_view.context.found")
def test_passages_come_with_score_and_kind_and_code_opens(page: Page, desk: McpClient, shot: Shot) -> None:
    query = "water temperature"
    visit(page, f"code?by=context&q={quote(query)}")
    results = desk.call("context_search", {"query": query, "limit": 10})["results"]
    rows = page.locator(".passages > li")
    expect(rows.locator(".score")).to_have_text([f"{each['score']:.2f}" for each in results])
    expect(rows.locator(".kind")).to_have_text([each["type"].capitalize() for each in results])
    path, _, lines = next(each["id"] for each in results if each["source"] == "code").rpartition(":")
    page.locator("a.passage").first.click()
    expect(page.locator(".file-head h2")).to_have_text(path)
    expect(page.locator(".file-line[aria-current]")).to_have_attribute("data-line", lines.partition("-")[0])
    shot(page, "code-context")


@pytest.mark.rule("code_view.discoveries.listed", "code_view.discoveries.written")
def test_discoveries_are_listed_written_down_and_forgotten(page: Page, desk: McpClient, shot: Shot) -> None:
    visit(page, "code")
    page.get_by_label("Discoveries").check(force=True)
    texts = page.locator(".passage-text")
    every = [each["content"] for each in desk.call("list_discoveries", {})["discoveries"]]
    expect(texts).to_have_text(every)
    shot(page, "code-discoveries")
    page.get_by_label("Type", exact=True).select_option("rule")
    rules = desk.call("list_discoveries", {"type": "rule"})["discoveries"]
    expect(texts).to_have_text([each["content"] for each in rules])
    page.get_by_label("Module", exact=True).fill("sheet")
    page.keyboard.press("Enter")
    expect(texts).to_have_text([each["content"] for each in rules if each["module"] == "sheet"])

    visit(page, "code?by=discoveries&module=elsewhere")
    page.get_by_text("Record a discovery").click()
    page.get_by_label("What was learned").fill("<b>Ask the miller</b> first.")
    page.get_by_label("Module (optional)").fill("elsewhere")
    page.get_by_role("button", name="Record", exact=True).click()
    expect(texts).to_have_text(["<b>Ask the miller</b> first."])
    page.get_by_role("button", name="Forget").click()
    assert len(desk.call("list_discoveries", {})["discoveries"]) == len(every) + 1
    page.get_by_role("button", name="Forget permanently?").click()
    expect(page.locator(".code-results .empty")).to_be_visible()
    assert [each["content"] for each in desk.call("list_discoveries", {})["discoveries"]] == every


@pytest.mark.rule("code_view.looks.narrow")
def test_a_narrow_screen_shows_the_file_alone(narrow_page: Page, shot: Shot) -> None:
    page = narrow_page
    page.set_viewport_size({"width": 320, "height": 640})
    visit(page, "code?by=grep&q=oven")
    page.locator("[data-place]").first.click()
    expect(page.locator(".file-head h2")).to_be_focused()
    expect(page.locator(".code-pane")).to_be_hidden()
    assert fits(page)
    shot(page, "code-file-narrow")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("[data-place]").first).to_be_focused()
    assert fits(page)
