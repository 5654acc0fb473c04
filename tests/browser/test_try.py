"""The Try view: what it shows is what went over the wire."""

import json
import shlex
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Shot
from tests.browser.pages import USER, visit
from tests.wire import HttpServer

pytestmark = pytest.mark.xdist_group("browser")

NASTY = 'it\'s "quoted" $(touch /tmp/no) `no` \\ !x\n\u202e\u200b é 🍞 </script>'

QUERY = 'the winter market\'s "prices" $(id) `id` \\'


def _place(toolset: str, tool: str, **arguments: Any) -> str:
    return "try?" + urlencode({"toolset": toolset, "tool": tool, "args": json.dumps(arguments)})


_FORMS = """async () => {
  const { data, listTools } = await import("/page/js/mcp.js");
  const { schemaForm } = await import("/page/js/views/try/form.js");
  const names = (node, selector) => [...node.querySelectorAll(selector)].map((each) => each.dataset.arg);
  const { toolsets } = await data("desk");
  const listed = await Promise.all(toolsets.map((each) => listTools(each.name)));
  return listed.flat().map(({ name, inputSchema }) => {
    const { node } = schemaForm(inputSchema, {}, () => {});
    return [name, inputSchema, names(node, ".field"), names(node, ".field:has(.required)")];
  });
}"""


@pytest.mark.rule("browser.try.forms")
def test_every_tool_of_every_toolset_has_a_form_with_all_its_arguments(page: Page) -> None:
    visit(page, "try")
    tools: list[Any] = page.evaluate(_FORMS)
    assert len(tools) > 20
    for name, schema, fields, required in tools:
        assert fields == [*schema["properties"]], name
        assert sorted(required) == sorted(schema.get("required", [])), name
    page.locator("#toolset").select_option("tasks")
    page.locator("#tool").select_option("delete_task")
    form = page.get_by_role("form", name="Arguments")
    expect(form.get_by_role("heading")).to_have_text("delete_task")
    expect(form.locator(".tag")).to_have_text("writes")


@pytest.mark.rule("browser.try.exchange", "browser.try.curl", "browser.try.link")
def test_a_call_shows_the_very_request_and_response_and_a_curl_line_that_sends_it_again(
    page: Page, server: HttpServer, shot: Shot
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(page, _place("notes", "search", query=NASTY.replace("\n", " "), limit=3))
    expect(page.locator("[data-arg=query] input")).to_have_value(NASTY.replace("\n", " "))
    page.locator("[data-arg=query] input").fill(QUERY)
    with page.expect_response("**/notes/mcp") as waited:
        page.get_by_role("button", name="Call", exact=True).click()
    response = waited.value
    request = response.request
    shown = {name: page.get_by_role("region", name=name, exact=True) for name in ("Result", "Request", "Response")}
    expect(shown["Result"].locator(".tag")).to_have_text("ok")
    shot(page, "try-call")
    head, _, body = shown["Request"].locator("pre").inner_text().partition("\n\n")
    assert json.loads(body) == request.post_data_json
    assert head.splitlines()[0] == "POST /notes/mcp"
    sent = request.all_headers()
    for line in head.splitlines()[1:]:
        name, _, text = line.partition(": ")
        assert sent[name.lower()] == text
    head, _, body = shown["Response"].locator("pre").inner_text().partition("\n\n")
    assert json.loads(body) == response.json()
    assert head.startswith("200")
    assert json.loads(shown["Result"].locator("pre").inner_text()) == response.json()["result"]["structuredContent"]
    assert json.loads(page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('args')")) == {
        "query": QUERY,
        "limit": 3,
    }

    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    words = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    assert words[:3] == ["curl", "-sS", f"{server.url}/notes/mcp"]
    headers = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
    content = words[words.index("--data-raw") + 1]
    assert json.loads(content) == request.post_data_json
    again = httpx.post(words[2], headers=headers, content=content.encode(), trust_env=False)
    assert again.json()["result"] == response.json()["result"]


@pytest.mark.rule("browser.try.faults")
def test_what_the_schema_would_not_have_is_told_at_the_field_and_sent_only_if_one_insists(page: Page) -> None:
    visit(page, _place("tasks", "add_task", user_id=USER))
    page.get_by_role("button", name="Call", exact=True).click()
    title = page.locator("[data-arg=title] input")
    expect(title).to_be_focused()
    expect(page.locator("[data-arg=title] .fault")).to_have_text("Required")
    expect(page.get_by_role("region", name="Result")).to_have_count(0)
    page.get_by_role("button", name="Call anyway").click()
    answer = page.get_by_role("region", name="Result")
    expect(answer.locator(".tag")).to_have_text("error")
    expect(answer).to_contain_text("Title is required")


@pytest.mark.rule("browser.try.kinds")
def test_each_kind_of_argument_is_filled_in_checked_and_read_back(page: Page) -> None:
    schema = {
        "required": ["text"],
        "properties": {
            "text": {"type": "string", "pattern": "^a+$", "maxLength": 3},
            "id": {"type": "string", "format": "uuid"},
            "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
            "share": {"type": "number"},
            "flag": {"type": "boolean", "default": True},
            "order": {"type": "string", "enum": ["up", "down"]},
            "depth": {"type": "integer", "enum": [1, 2]},
            "kinds": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "where": {"type": "object"},
            "__proto__": {"type": "string"},
        },
    }
    visit(page, "try")
    page.evaluate(
        """async (text) => {
          const { schemaForm } = await import("/page/js/views/try/form.js");
          window.form = schemaForm(JSON.parse(text), { share: 0.5, flag: false }, () => {});
          document.querySelector("main").replaceChildren(window.form.node);
        }""",
        json.dumps(schema),
    )

    def read() -> Any:
        return json.loads(page.evaluate("JSON.stringify(window.form.read({ tell: true }))"))

    def fault(name: str) -> str:
        return page.locator(f"[data-arg={name}] .fault").inner_text()

    assert read() == {"args": {"share": 0.5, "flag": False}, "broken": False, "doubtful": True}
    for name, text in {"text": "bbbb", "id": "no", "count": "9", "where": "{"}.items():
        page.locator(f"[data-arg={name}] .input").fill(text)
    page.locator("[data-arg=tags] textarea").fill("one\n\ntwo\nthree")
    assert read()["broken"]
    told = {name: fault(name) for name in ("text", "id", "count", "tags")}
    assert told == {
        "text": "Must have at most 3 characters",
        "id": "Must be a valid uuid",
        "count": "Must be at most 5",
        "tags": "Must have at most 2 items",
    }
    assert fault("where").startswith("Invalid JSON")
    good = {"text": "aa", "id": "8dd92f8c-6430-56d5-aecf-c3c9787ae078", "count": "3", "where": '{"a": [1]}'}
    for name, text in {**good, "tags": "one\ntwo", "__proto__": "p"}.items():
        page.locator(f"[data-arg={name}] .input").fill(text)
    page.locator("[data-arg=order] select").select_option("down")
    page.locator("[data-arg=depth] select").select_option("2")
    page.get_by_role("checkbox", name="y").check()
    page.locator("[data-arg=flag] select").select_option("true")
    more = {"share": 0.5, "flag": True, "order": "down", "depth": 2, "kinds": ["y"], "tags": ["one", "two"]}
    wanted = {**good, **more, "count": 3, "where": {"a": [1]}, "__proto__": "p"}
    assert read() == {"args": wanted, "broken": False, "doubtful": False}
