"""Looking at a page: where to go on it, what it did that it must not do, what a person without eyes or mouse meets."""

import time
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request, expect

VIEWS = ("desk", "graph", "tasks", "content", "code", "try")
USER = "demo"
"""Of the sample's tasks."""


def visit(page: Page, place: str) -> None:
    """Open a view, such as `try?toolset=tasks`, and wait until it shows something of its own and asks for no more."""
    page.goto(f"/#/{place}")
    name = place.partition("?")[0]
    page.locator(f".view-{name} > :not(.busy)").first.wait_for(state="attached")
    expect(page.locator("main .busy, main [aria-busy=true]")).to_have_count(0)


def until(page: Page, script: str, argument: object = None) -> None:
    """Until a script says so. Not wait_for_function, whose polling the page's policy forbids."""
    end = time.monotonic() + 10
    while not page.evaluate(script, argument):
        assert time.monotonic() < end, script
        page.evaluate("() => new Promise(requestAnimationFrame)")


class Trouble:
    """Errors on a page's console, in its scripts and on the wire; calls to other hosts."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._found: list[str] = []

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._found.append(f"script: {error}"))
        page.on("request", self._request)
        page.on("requestfailed", self._failed)

    def forgive(self, *parts: str) -> None:
        """Drop what the test meant to happen; each part must have been there."""
        for part in parts:
            assert any(part in each for each in self._found), (part, self._found)
            self._found = [each for each in self._found if part not in each]

    @property
    def found(self) -> list[str]:
        return list(self._found)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):  # what a content security policy stops is an error here
            self._found.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        place = urlsplit(request.url)
        if place.scheme not in ("data", "blob") and place.netloc != self._host:
            self._found.append(f"another host: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a view that was left gives up what it asked for
            self._found.append(f"failed: {request.url} {request.failure}")


_BASICS = """() => {
  const shown = (node) => node.checkVisibility();
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  const text = (id) => document.getElementById(id)?.textContent ?? "";
  const name = (node) =>
    node.getAttribute("aria-label") ||
    (node.getAttribute("aria-labelledby") ?? "").split(" ").map(text).join(" ").trim() ||
    [...(node.labels ?? [])].map((label) => label.textContent).join(" ").trim() ||
    (node.matches("input, select, textarea") ? "" : node.textContent.trim()) ||
    node.querySelector("img[alt]")?.alt || node.title || "";
  const told = (node) => node.outerHTML.slice(0, 200);
  const ids = all("[id]").map((node) => node.id);
  return {
    unnamed: all("a[href], button, input, select, textarea, [tabindex='0'], dialog, nav, [role=img], [role=region]")
      .filter((node) => !name(node)).map(told),
    headings: all("h1").map((node) => node.textContent),
    landmarks: ["header", "nav", "main"].filter((each) => all(each).length !== 1),
    repeated: ids.filter((id, at) => ids.indexOf(id) !== at),
    images: all("img:not([alt])").map(told),
    jumps: all("[tabindex]").filter((node) => node.tabIndex > 0).map(told),
    scopes: all("thead th:not([scope])").map(told),
    language: document.documentElement.lang,
  };
}"""


def basics(page: Page) -> dict[str, Any]:
    """What assistive technology leans on, where it is missing."""
    return page.evaluate(_BASICS)


def fits(page: Page) -> bool:
    """Whether nothing sticks out at the side."""
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


_MOVE = """async ([kind, frames]) => {
  const canvas = document.querySelector(".graph-canvas");
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const deltas = [];
  let before = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < frames; frame++) {
    const clientX = left + width / 2 + 150 * Math.sin(frame / 12);
    const clientY = top + height / 2 + 100 * Math.cos(frame / 12);
    const deltaY = frame % 60 < 30 ? -40 : 40;
    if (kind === "pan") canvas.dispatchEvent(new PointerEvent("pointermove", { pointerId: 1, clientX, clientY }));
    else canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, cancelable: true, clientX, clientY }));
    const now = await new Promise(requestAnimationFrame);
    deltas.push(now - before);
    before = now;
  }
  return deltas;
}"""


def moved(page: Page, kind: str, frames: int) -> list[float]:
    """How many milliseconds each frame takes while the graph is moved, by "pan" or by "zoom"."""
    box = page.locator(".graph-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    if kind == "pan":
        page.mouse.down()
    deltas = page.evaluate(_MOVE, [kind, frames])
    page.mouse.up()
    return deltas
