"""A real browser before a real server."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from carrel.demo.sample_workspace import make_sample
from tests.browser.pages import Trouble
from tests.programs import required
from tests.wire import HttpServer

SHOTS = Path(__file__).parents[2] / ".dev" / "screenshots"
WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 360, "height": 740}
PATIENCE_MS = 15_000

OpenPage = Callable[..., Page]
Shot = Callable[[Page, str], None]


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's workspace; made in a thread, for a browser's event loop may run in this one."""
    folder = tmp_path_factory.mktemp("browser") / "sample"
    with ThreadPoolExecutor(1) as thread:
        thread.submit(make_sample, folder, lambda _step: None).result()
    return folder


@pytest.fixture(scope="session")
def server(sample: Path) -> Iterator[HttpServer]:
    server = HttpServer(cwd=sample)
    yield server
    server.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not for the whole session: while it lives, no other test in this process could run an event loop."""
    program = required("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def trouble(server: HttpServer) -> Trouble:
    return Trouble(server.url)


@pytest.fixture
def open_page(browser: Browser, server: HttpServer, trouble: Trouble) -> Iterator[OpenPage]:
    """A page in a fresh context, with the context's own options; nothing of it may have gone wrong at the end."""
    contexts: list[BrowserContext] = []

    def open_page(**options: Any) -> Page:
        context = browser.new_context(**{"base_url": server.url, "viewport": WIDE, "color_scheme": "light", **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        trouble.watch(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble.found == []


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page()


@pytest.fixture
def narrow_page(open_page: OpenPage) -> Page:
    return open_page(viewport=NARROW)


@pytest.fixture
def dark_page(open_page: OpenPage) -> Page:
    return open_page(color_scheme="dark")


@pytest.fixture(scope="session")
def shot() -> Shot:
    """Keep a picture of the page, for people to look at."""

    def shot(page: Page, name: str) -> None:
        page.screenshot(path=SHOTS / f"{name}.png")

    return shot
