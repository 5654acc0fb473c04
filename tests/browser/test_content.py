"""Content: what the view shows is what the tools and the data endpoints answer."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from carrel.demo.sample_calls import McpClient
from tests.browser.conftest import Shot
from tests.browser.pages import fits, visit
from tests.wire import HttpServer

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def desk(server: HttpServer) -> McpClient:
    return McpClient(f"{server.url}/mcp")


@pytest.fixture(scope="module")
def project(desk: McpClient) -> str:
    return next(each["id"] for each in desk.call("list_projects", {})["data"] if each["slug"] == "slow-bread")


def _entities(desk: McpClient, project: str, **filters: Any) -> list[dict[str, Any]]:
    return desk.call("search_entities", {"projectId": project, "limit": 100, **filters})["data"]


def _titles(page: Page) -> Locator:
    return page.locator(".entity-title")


def _data(page: Page, path: str) -> Any:
    return page.request.get(f"/page/data/{path}").json()


@pytest.mark.rule("content_view.entities.listed")
def test_entities_are_searched_filtered_and_paged(page: Page, desk: McpClient, project: str) -> None:
    visit(page, "content")
    page.get_by_label("Project", exact=True).select_option(label="Slow Bread")
    every = [each["title"] for each in _entities(desk, project)]
    expect(_titles(page)).to_have_text(every[:20])
    page.get_by_role("button", name="Next").click()
    expect(_titles(page)).to_have_text(every[20:])
    expect(page.locator(".entity-count")).to_have_text(re.compile("^21.34 of 34$"))
    page.reload()
    expect(_titles(page)).to_have_text(every[20:])

    page.locator("[data-search]").fill("FLOUR")
    expect(_titles(page)).to_have_text([each["title"] for each in _entities(desk, project, search="flour")])
    page.get_by_label("Type").select_option("concept")
    concepts = _entities(desk, project, search="flour", entityType="concept")
    expect(_titles(page)).to_have_text([each["title"] for each in concepts])
    page.get_by_label("Status").select_option("archived")
    expect(page.locator(".entity-results .empty")).to_contain_text("Try fewer")
    assert "q=FLOUR&type=concept&status=archived" in page.url


@pytest.mark.rule("content_view.entities.shown", "content_view.entities.back")
def test_an_entity_is_shown_with_its_fields_relations_and_blocks(
    page: Page, desk: McpClient, project: str, shot: Shot
) -> None:
    entity = next(each for each in _entities(desk, project) if each["slug"] == "dough-temperature")
    arguments = {"projectId": project, "entityId": entity["id"]}
    relations = desk.call("get_entity_graph", arguments)["data"]["relationships"]
    blocks = desk.call("list_quotable_blocks", arguments)["data"]
    visit(page, f"content?project=slow-bread&q={entity['slug']}")
    _titles(page).first.click()

    head = page.locator(".entity-head")
    expect(head.locator("h2")).to_have_text(entity["title"])
    for text in (entity["summary"], entity["slug"], entity["canonicalUrl"], "Published", "Concept", entity["id"]):
        expect(head).to_contain_text(text)
    graph = f"#/graph?source=content&project={project}&node="
    expect(head.get_by_role("link", name="Show in the graph")).to_have_attribute("href", graph + entity["id"])

    groups = page.locator(".relation-group")
    expect(groups.first).to_be_visible()
    assert groups.count() == len({(each["relationType"], each["fromEntityId"] == entity["id"]) for each in relations})
    others = [each["relatedEntity"] for each in relations if each["relatedEntity"]]
    for other in others:
        expect(groups.get_by_role("link", name=other["title"], exact=True)).to_be_visible()
        expect(page.get_by_label(f"Show {other['title']} in the graph")).to_have_attribute("href", graph + other["id"])
    expect(groups.locator("li")).to_have_count(len(relations))
    expect(page.locator(".block-text")).to_have_text([each["text"] for each in blocks])
    shot(page, "content-entity")

    groups.get_by_role("link", name=others[0]["title"], exact=True).click()
    expect(head.locator("h2")).to_have_text(others[0]["title"])
    page.go_back()
    expect(head.locator("h2")).to_have_text(entity["title"])
    expect(page.locator(".entity-list [aria-current] .entity-title")).to_have_text(entity["title"])
    page.go_back()
    expect(head).to_have_count(0)


@pytest.mark.rule("content_view.entities.walked")
def test_the_list_is_walked_with_the_arrow_keys(page: Page, desk: McpClient, project: str) -> None:
    entities = _entities(desk, project)
    visit(page, f"content?project={project}")
    expect(_titles(page)).to_have_count(20)
    page.locator("h1").focus()
    for key in ("/", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".entity-name")).to_have_text(entities[1]["title"])
    expect(page.locator(".entity-list a").nth(1)).to_be_focused()
    assert page.locator(".entity-list a[tabindex='0']").count() == 1
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    expect(page.locator("[data-search]")).to_be_focused()


@pytest.mark.rule("content_view.performance.charts", "content_view.performance.table", "content_view.performance.most")
def test_charts_show_the_figures_and_are_read_by_keyboard(
    page: Page, desk: McpClient, project: str, shot: Shot
) -> None:
    visit(page, f"content?project={project}")
    points = _data(page, f"performance?project={project}")["points"]
    shown = {
        "clicks": lambda value: f"{value:,}",
        "impressions": lambda value: f"{value:,}",
        "ctr": lambda value: f"{value * 100:.1f}%",
        "position": lambda value: f"{value:.1f}",
    }
    for metric, write in shown.items():
        box = page.locator(f"[data-metric={metric}]")
        slider = box.get_by_role("slider")
        expect(box.locator(".chart-dot")).to_have_count(len(points))
        heights = [float(dot.get_attribute("cy") or "") for dot in box.locator(".chart-dot").all()]
        by_height = sorted(range(len(points)), key=lambda at: heights[at])
        by_value = sorted(range(len(points)), key=lambda at: points[at][metric], reverse=metric != "position")
        assert by_height == by_value, metric
        slider.focus()
        page.keyboard.press("Home")
        for point in points:
            expect(box.locator(".chart-value")).to_have_text(write(point[metric]))
            expect(slider).to_have_attribute("aria-valuetext", re.compile(re.escape(f": {write(point[metric])}") + "$"))
            page.keyboard.press("ArrowRight")
        expect(box.locator(".chart-cursor")).to_have_attribute("visibility", "visible")
    shot(page, "content-charts")

    page.get_by_text("Show as table").click()
    cells = page.locator(".figures tbody tr").first.locator("td")
    expect(cells).to_have_text([write(points[-1][metric]) for metric, write in shown.items()])

    filters = {"projectId": project, "dateStart": points[-1]["from"], "dateEnd": points[-1]["to"], "limit": 100}
    rows = desk.call("list_search_performance", filters)["data"]
    for name, key in (("Queries", "query"), ("Pages", "pageUrl")):
        page.get_by_role("radio", name=name).check(force=True)
        clicks: dict[str, int] = {}
        for row in rows:
            clicks[row[key]] = clicks.get(row[key], 0) + row["clicks"]
        best = sorted(clicks.values(), reverse=True)[:10]
        expect(page.locator(".most-rows tbody td:nth-child(2)")).to_have_text([f"{each:,}" for each in best])


_HARD = """async () => {
  const { plot, draw } = await import("/page/js/charts.js");
  const size = { width: 320, height: 148 };
  const day = (at) => new Date(Date.UTC(2026, 0, 1 + at)).toISOString().slice(0, 10);
  const weeks = (values) => values.map((value, at) => ({ from: day(7 * at), to: day(7 * at + 6), value }));
  const cases = {
    none: [[], {}],
    one: [weeks([5]), {}],
    zero: [weeks([0, 0]), { axis: { fromZero: true, whole: true } }],
    equal: [weeks([7.5, 7.5, 7.5]), { axis: { floor: 1 }, inverted: true }],
    best: [weeks([1, 1]), { axis: { floor: 1 }, inverted: true }],
    gap: [weeks([1, null, 3, 4]).filter((_, at) => at !== 2).concat(weeks(Array(9).fill(2)).slice(8)), {}],
    huge: [weeks([9007199254740991, 1, 5e15]), { axis: { fromZero: true, whole: true } }],
    tiny: [weeks([0.00001, 0.00002]), { axis: { fromZero: true } }],
    uneven: [[{ from: day(0), to: day(0), value: 1 }, { from: day(1), to: day(90), value: 50 }], {}],
    years: [[{ from: "1996-01-01", to: "1996-12-31", value: 1 }, { from: day(0), to: day(6), value: 2 }], {}],
  };
  return Object.fromEntries(Object.entries(cases).map(([name, [points, options]]) => {
    const plotted = plot(points, { ...size, ...options });
    const chart = draw(plotted, { label: name, isFilled: true });
    const places = [...plotted.dots.flatMap((dot) => [dot.x, dot.y ?? 10]), ...plotted.columns.map((mark) => mark.x)];
    return [name, {
      isWithin: [...places, ...plotted.rows.map((row) => row.y)].every((each) => each >= 0 && each <= size.width),
      isNumber: !/NaN|Infinity/.test(new XMLSerializer().serializeToString(chart)),
      runs: plotted.runs.map((run) => run.length),
      spans: chart.querySelectorAll(".chart-span").length,
      ticks: plotted.rows.length,
      columns: plotted.columns.length,
      low: plotted.rows[0].value,
    }];
  }));
}"""


@pytest.mark.rule("content_view.performance.hard")
def test_charts_stay_whole_whatever_the_figures_are(page: Page) -> None:
    visit(page, "content")
    drawn = page.evaluate(_HARD)
    for name, chart in drawn.items():
        assert chart["isWithin"], name
        assert chart["isNumber"], name
        assert 2 <= chart["ticks"] <= 6, (name, chart)
        assert chart["columns"] <= 6, (name, chart)
    assert drawn["none"]["runs"] == []
    assert drawn["one"]["runs"] == [1]
    assert drawn["equal"]["runs"] == [3]
    assert drawn["best"]["low"] == 1
    assert drawn["gap"]["runs"] == [1, 1, 1]
    assert drawn["uneven"]["spans"] == 2
    assert drawn["years"]["runs"] == [1, 1]


@pytest.mark.rule("content_view.blocks.expiring")
def test_blocks_that_expire_are_told_in_words(page: Page, project: str) -> None:
    visit(page, f"content?project={project}")
    for days in (90, 7):
        page.get_by_label(f"{days} days").check(force=True)
        blocks = _data(page, f"blocks?project={project}&days={days}")["blocks"]
        words = ["Expired" if each["days"] < 0 else "Expires" for each in blocks]
        assert words, "the sample has some that are long past"
        expect(page.locator(".block .fresh strong")).to_have_text(words)
        expect(page.locator(".block .fresh .sign")).to_have_count(len(words))
        expect(page.locator(".block-meta a")).to_have_text([each["entity"]["title"] for each in blocks])
        assert f"days={days}" in page.url


@pytest.mark.rule("content_view.looks.narrow")
def test_a_narrow_screen_shows_one_thing_at_a_time(narrow_page: Page, project: str, shot: Shot) -> None:
    page = narrow_page
    page.set_viewport_size({"width": 320, "height": 640})
    visit(page, f"content?project={project}&q=your+first+loaf")
    _titles(page).first.click()
    expect(page.locator(".entity-name")).to_be_focused()
    expect(page.locator(".content-side")).to_be_hidden()
    expect(page.locator(".chart-dot").first).to_be_visible()
    assert fits(page)
    shot(page, "content-entity-narrow")
    page.get_by_role("link", name="← Slow Bread").click()
    expect(page.locator(".content-side")).to_be_visible()


@pytest.mark.rule("content_view.looks.missing")
def test_what_is_not_there_is_said_so(page: Page, project: str) -> None:
    visit(page, "content?project=none-such")
    expect(page.get_by_role("alert")).to_contain_text("Choose another")
    page.get_by_label("Project", exact=True).select_option(label="Slow Bread")
    expect(_titles(page)).to_have_count(20)
    visit(page, f"content?project={project}&entity=00000000-0000-4000-a000-000000000000")
    expect(page.get_by_role("alert")).to_contain_text("not found", ignore_case=True)
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
