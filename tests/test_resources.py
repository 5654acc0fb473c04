"""Notes as MCP resources, and progress of a call that waits for them."""

import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.wire import ERAS, LEGACY, MODERN, HttpServer, HttpWire, StdioWire, Wire

TEMPLATE = "note://{+id}"
NO_SUCH = {MODERN: -32602, LEGACY: -32002}


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resources")
    (folder / "carrel.toml").write_text('[embeddings]\nprovider = "none"\n', encoding="utf-8")
    notes = folder / "notes"
    (notes / "Ideen").mkdir(parents=True)
    (notes / "a.md").write_text("---\ntitle: Alpha\n---\nSee [[b]].\n", encoding="utf-8")
    (notes / "Ideen" / "grüne Wiese.md").write_text("Gras.\n", encoding="utf-8")
    for number in range(120):
        (notes / f"many-{number:03}.md").write_text("one of many\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=[(kind, era) for kind in ("stdio", "http") for era in ERAS], ids="-".join)
def wire(request: pytest.FixtureRequest, vault: Path) -> Iterator[Wire]:
    kind, era = request.param
    if kind == "stdio":
        stdio = StdioWire(era, "--toolsets", "notes", cwd=vault)
        yield stdio
        stdio.close()
    else:
        server = HttpServer("--toolsets", "notes", cwd=vault)
        http = HttpWire(era, server.url)
        yield http
        http.close()
        server.stop()


def result(wire: Wire, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    response = wire.request(method, params)
    assert "result" in response, response
    return response["result"]


@pytest.mark.rule("resources.list.pages")
def test_notes_are_listed_in_pages_in_the_order_of_their_ids(wire: Wire) -> None:
    first = result(wire, "resources/list")
    second = result(wire, "resources/list", {"cursor": first["nextCursor"]})
    listed = [*first["resources"], *second["resources"]]
    names = [each["name"] for each in listed]
    assert len(names) == 122
    assert "nextCursor" not in second
    assert names == sorted(names)
    assert {key: listed[1][key] for key in ("uri", "name", "title", "mimeType")} == {
        "uri": "note://a.md",
        "name": "a.md",
        "title": "Alpha",
        "mimeType": "text/markdown",
    }
    assert listed[0]["uri"] == "note://Ideen/gr%C3%BCne%20Wiese.md"


@pytest.mark.rule("resources.template.published")
def test_there_is_a_template_for_any_note(wire: Wire) -> None:
    (template,) = result(wire, "resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == TEMPLATE


@pytest.mark.rule("resources.read.content")
@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("note://a.md", "See [[b]].\n"),
        ("note://A", "See [[b]].\n"),
        ("note://Ideen/gr%C3%BCne%20Wiese.md", "Gras.\n"),
        ("note://Ideen/grüne Wiese.md", "Gras.\n"),
    ],
)
def test_a_resource_is_the_content_of_its_note(wire: Wire, uri: str, text: str) -> None:
    (content,) = result(wire, "resources/read", {"uri": uri})["contents"]
    assert (content["uri"], content["mimeType"], content["text"]) == (uri, "text/markdown", text)


@pytest.mark.rule("resources.read.missing")
@pytest.mark.parametrize("uri", ["note://nowhere.md", "note://../carrel.toml", "file:///etc/passwd", "note://", "a.md"])
def test_what_is_no_note_is_not_found(wire: Wire, uri: str) -> None:
    assert wire.request("resources/read", {"uri": uri})["error"]["code"] == NO_SUCH[wire.era]


@pytest.mark.rule("resources.completion.ids")
def test_ids_are_completed(wire: Wire) -> None:
    def complete(start: str, template: str = TEMPLATE) -> dict[str, Any]:
        ref = {"type": "ref/resource", "uri": template}
        argument = {"name": "id", "value": start}
        return result(wire, "completion/complete", {"ref": ref, "argument": argument})["completion"]

    assert complete("IDEEN/GRÜ")["values"] == ["Ideen/grüne Wiese.md"]
    assert complete("grün")["values"] == ["Ideen/grüne Wiese.md"]
    many = complete("many-")
    assert (len(many["values"]), many["total"], many["hasMore"]) == (100, 120, True)
    assert many["values"] == [f"many-{number:03}.md" for number in range(100)]
    assert complete("a", "file:///{path}")["values"] == []


def _with_note(vault: Path, name: str, text: str) -> None:
    (vault / "notes" / name).write_text(text, encoding="utf-8")


@pytest.mark.rule("resources.changes.listen")
def test_a_listener_of_2026_is_told_over_stdio(vault: Path) -> None:
    _with_note(vault, "watched.md", "before")
    wire = StdioWire(MODERN, "--toolsets", "notes", cwd=vault)
    result(wire, "resources/read", {"uri": "note://watched.md"})
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": ["note://watched.md"]}
    wire.begin("subscriptions/listen", {"notifications": wanted})
    assert wire.receive()["method"] == "notifications/subscriptions/acknowledged"
    _with_note(vault, "watched.md", "after")
    told = wire.receive()
    assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", "note://watched.md")
    _with_note(vault, "new-for-listener.md", "a new one")
    assert wire.receive()["method"] == "notifications/resources/list_changed"
    assert wire.close() == 0
    (vault / "notes" / "new-for-listener.md").unlink()
    (vault / "notes" / "watched.md").unlink()


@pytest.mark.rule("resources.changes.listen")
def test_a_listener_of_2026_is_told_over_http(vault: Path) -> None:
    _with_note(vault, "watched-too.md", "before")
    server = HttpServer("--toolsets", "notes", cwd=vault)
    wire = HttpWire(MODERN, server.url)
    result(wire, "resources/read", {"uri": "note://watched-too.md"})
    events: queue.Queue[dict[str, Any]] = queue.Queue()
    acknowledged = threading.Event()

    def listen() -> None:
        params = {"notifications": {"resourceSubscriptions": ["note://watched-too.md"]}}
        method = "subscriptions/listen"
        with wire.http.stream(
            "POST",
            f"{server.url}/mcp",
            content=json.dumps(wire.message(method, params)),
            headers=wire.headers(method, params) | {"Content-Type": "application/json"},
        ) as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    events.put(json.loads(line.removeprefix("data:")))
                    acknowledged.set()
                    if events.qsize() == 2:
                        return

    listener = threading.Thread(target=listen)
    listener.start()
    assert acknowledged.wait(20)
    _with_note(vault, "watched-too.md", "after")
    listener.join(20)
    methods = [events.get(timeout=5)["method"] for _ in range(2)]
    assert methods == ["notifications/subscriptions/acknowledged", "notifications/resources/updated"]
    wire.close()
    assert server.stop() == 143
    (vault / "notes" / "watched-too.md").unlink()


@pytest.mark.rule("resources.changes.subscribe")
def test_a_subscriber_of_2025_is_told_over_stdio_until_it_has_enough(vault: Path) -> None:
    _with_note(vault, "subscribed.md", "before")
    wire = StdioWire(LEGACY, "--toolsets", "notes", cwd=vault)
    assert wire.opened["capabilities"]["resources"]["subscribe"] is True
    assert result(wire, "resources/subscribe", {"uri": "note://subscribed.md"}) == {}
    _with_note(vault, "subscribed.md", "after")
    told = wire.receive()
    assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", "note://subscribed.md")
    assert result(wire, "resources/unsubscribe", {"uri": "note://subscribed.md"}) == {}
    _with_note(vault, "subscribed.md", "and after that")
    with pytest.raises(queue.Empty):
        wire.receive(timeout=0.7)
    wire.close()
    (vault / "notes" / "subscribed.md").unlink()


# --- progress


@pytest.fixture
def big_vault(tmp_path: Path) -> Path:
    (tmp_path / "carrel.toml").write_text('[embeddings]\nprovider = "none"\n', encoding="utf-8")
    (tmp_path / "notes").mkdir()
    for number in range(4000):
        (tmp_path / "notes" / f"{number}.md").write_text(f"[[{number // 2}]] #tag\n" * 40, encoding="utf-8")
    return tmp_path


def _asked(wire: StdioWire | HttpWire, name: str) -> dict[str, Any]:
    message = wire.message("tools/call", {"name": name, "arguments": {}})
    message["params"].setdefault("_meta", {})["progressToken"] = "p-1"
    return message


def _check(messages: list[dict[str, Any]]) -> None:
    *told, answer = messages
    assert all(each["params"]["progressToken"] == "p-1" for each in told)
    done = [each["params"]["progress"] for each in told]
    assert done == sorted(set(done))
    assert done
    assert {each["params"]["total"] for each in told} == {4000}
    assert json.loads(answer["result"]["content"][0]["text"])[0]["id"] == "0.md"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.rule("resources.progress.told")
def test_a_call_that_asks_for_progress_is_told_how_far_the_index_is_over_stdio(big_vault: Path, era: str) -> None:
    wire = StdioWire(era, "--toolsets", "notes", cwd=big_vault)
    wire.send(_asked(wire, "get_hubs"))
    messages = [wire.receive()]
    while "id" not in messages[-1]:
        messages.append(wire.receive())
    _check(messages)
    wire.close()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.rule("resources.progress.told")
def test_a_call_that_asks_for_progress_is_told_how_far_the_index_is_over_http(big_vault: Path, era: str) -> None:
    server = HttpServer("--toolsets", "notes", cwd=big_vault)
    wire = HttpWire(era, server.url)
    message = _asked(wire, "get_hubs")
    headers = wire.headers("tools/call", message["params"])
    response = httpx.post(f"{server.url}/mcp", json=message, headers=headers, timeout=60, trust_env=False)
    assert response.headers["content-type"].startswith("text/event-stream"), response.text
    _check([json.loads(line.removeprefix("data:")) for line in response.text.splitlines() if line.startswith("data:")])
    wire.close()
    server.stop()
