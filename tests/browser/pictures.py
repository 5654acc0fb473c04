"""The documentation's picture of the page: `python3 dev.py pictures` takes it, `test_pictures.py` compares it."""

import base64
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from typing import Any

from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright

from carrel.demo.sample_workspace import make_sample
from tests.browser.pages import USER, visit
from tests.programs import PROGRAMS
from tests.wire import MODERN, HttpServer, HttpWire

DESK_PICTURE = Path(__file__).parents[2] / "docs" / "assets" / "desk.png"
VIEWPORT: ViewportSize = {"width": 1200, "height": 780}
GRID = (24, 16)
"""Columns and rows of the gray values that are compared: about as large as a word, so that fonts may differ."""

INDEX_TIMEOUT_MS = 60_000

CALLS_PER_MINUTE = (0, 0, 2, 5, 9, 6, 3, 0, 0, 4, 8, 12, 10, 7, 11, 5, 2, 0, 0, 0, 3, 6, 9, 13, 8, 10, 6, 12, 9, 7)
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": "what can children do at night", "limit": 3}),
    ("get_node", {"id": "sky/star evenings", "depth": 1}),
    ("get_neighbors", {"id": "bakery/starter.md"}),
    ("list_tasks", {"user_id": USER}),
    ("context_search", {"query": "can we heat the oven two times a day"}),
    ("read_file", {"path": "mill/oven/schedule.py", "includeDeps": True}),
    ("grep_codebase", {"pattern": "def \\w+"}),
    ("search", {"query": "bread that keeps"}),
    ("get_node", {"id": "plans/winter market"}),
    ("read_file", {"path": "mill/recipes/recipe.py"}),
    ("search", {"query": "winter market"}),
    ("complete_task", {"user_id": USER, "task_id": 99}),  # an error: there is no such task
    ("list_projects", {}),
    ("read_file", {"path": "mill/oven/heat.py"}),
    ("search", {"query": "flour"}),
)

SERVER_WITH_CLOCK = """
import os, runpy, sys, time
real_time, minutes_file = time.time, sys.argv.pop(1)
time.time = lambda: real_time() + 60 * os.path.getsize(minutes_file)
runpy.run_module("carrel", run_name="__main__")
"""
"""`python -m carrel` with a clock that is one minute ahead for each byte of a file."""


@contextmanager
def busy_server(sample: Path) -> Iterator[str]:
    """The URL of a server over the sample that has answered calls for half an hour by its own clock."""
    with tempfile.NamedTemporaryFile() as minutes:
        server = HttpServer(cwd=sample, program=[sys.executable, "-c", SERVER_WITH_CLOCK, minutes.name])
        try:
            wire = HttpWire(MODERN, server.url)
            calls = cycle(CALLS)
            for count in CALLS_PER_MINUTE:
                minutes.write(b"+")
                minutes.flush()
                for tool, arguments in islice(calls, count):
                    wire.request("tools/call", {"name": tool, "arguments": arguments})
            wire.close()
            yield server.url
        finally:
            server.stop()


def picture(browser: Browser, url: str, view: str = "desk") -> bytes:
    """A PNG of one of the page's views."""
    with browser.new_context(base_url=url, viewport=VIEWPORT, color_scheme="light") as context:
        page = context.new_page()
        visit(page, view)
        if view == "desk":
            expect(page.get_by_role("list", name="Health")).to_contain_text("up to date", timeout=INDEX_TIMEOUT_MS)
        return page.screenshot()


def difference(browser: Browser, one: bytes, other: bytes) -> float:
    """How far apart two pictures are: the mean of the differences of their gray values, 0 to 255, on a coarse grid."""
    pairs = zip(_grays(browser, one), _grays(browser, other), strict=True)
    return fmean(abs(gray - other_gray) for gray, other_gray in pairs)


_GRAYS = """async ([png, width, height]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.imageSmoothingQuality = "high";
  canvas.drawImage(image, 0, 0, width, height);
  const { data } = canvas.getImageData(0, 0, width, height);
  return Array.from({ length: width * height }, (_, at) => (data[4 * at] + data[4 * at + 1] + data[4 * at + 2]) / 3);
}"""


def _grays(browser: Browser, png: bytes) -> list[float]:
    with browser.new_context() as context:
        return context.new_page().evaluate(_GRAYS, [base64.b64encode(png).decode(), *GRID])


def main() -> None:
    """Take the picture anew."""
    (chromium,) = (program for program in PROGRAMS if program.name == "chromium")
    if (path := chromium.path()) is None:
        sys.exit(f"chromium is not installed: apt-get install {chromium.package}; elsewhere: {chromium.elsewhere}")
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder) / "sample"
        make_sample(sample, lambda _step: None)
        with busy_server(sample) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            DESK_PICTURE.write_bytes(picture(browser, url))
            browser.close()


if __name__ == "__main__":
    main()
