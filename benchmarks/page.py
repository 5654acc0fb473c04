"""The page's graph: how soon it is drawn and how smoothly it moves, with 1,000 and with 10,000 notes.

    python3 dev.py bench page [--sizes N ...] [--rounds N] [--json FILE]

A real server over a vault of topics that link mostly among themselves, two links a note, and a real Chromium without a
graphics card (CHROMIUM names another). Vaults take turns in each round; the table has medians, and ratios of them.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx
import options
from playwright.sync_api import Browser, sync_playwright
from process import Program
from tests.browser.pages import moved
from tests.programs import path_of

SIZES = (1_000, 10_000)
ROUNDS = 5
FRAMES = 120
TOPIC = 80
DRAWN_GOAL_MS, FRAMES_GOAL = 2000.0, 30.0
SETTINGS = """
[code]
root = ""
[embeddings]
provider = "none"
"""


@dataclass(frozen=True, slots=True)
class Round:
    """Milliseconds, but for bytes."""

    data_bytes: int
    data: float
    drawn: float
    """From navigation to the first whole drawing."""
    settled: float
    pan: float
    pan_p95: float
    zoom: float
    zoom_p95: float


def make_vault(folder: Path, count: int) -> None:
    choose = random.Random(5)
    topics = max(4, count // TOPIC)
    for topic in range(topics):
        (folder / f"area {topic % 8}" / f"topic {topic}").mkdir(parents=True)
    for number in range(count):
        topic, place = number % topics, number // topics
        near = [topic + topics * int(place * choose.random() ** 2) for _ in range(2)]
        targets = [near[0], near[1] if choose.random() < 0.85 else choose.randrange(count)]
        links = [] if number % 37 == 36 else [f"[[note {each}]]" for each in targets if each % 37 != 36]
        links += ["[[nowhere]]"] if number % 50 == 0 else []
        path = folder / f"area {topic % 8}" / f"topic {topic}" / f"note {number}.md"
        path.write_text(" ".join(links), encoding="utf-8")


def serve(folder: Path, count: int) -> tuple[Program, str]:
    make_vault(folder / "notes", count)
    (folder / "carrel.toml").write_text(SETTINGS, encoding="utf-8")
    command = [sys.executable, "-m", "carrel", "serve", "--http", "--port", "0", "--workspace", str(folder)]
    program = Program([*command, "--toolsets", "notes"], folder / ".bench")
    while not (told := re.search(r" at (http://[^/\s]+)", program.log.read_text(encoding="utf-8"))):
        if program.ended():
            raise RuntimeError(program.log.read_text(encoding="utf-8"))
        time.sleep(0.05)
    while len(json.loads(fetch(told[1]))["nodes"]) < count:
        time.sleep(0.2)
    return program, told[1]


def fetch(url: str) -> bytes:
    answer = httpx.get(f"{url}/page/data/graph?source=notes", timeout=60, trust_env=False)
    return answer.raise_for_status().content


def look(browser: Browser, url: str, frames: int) -> Round:
    started = time.perf_counter()
    size = len(fetch(url))
    fetched = 1000 * (time.perf_counter() - started)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}/#/graph")
    page.locator(".graph-canvas[data-state=drawn]").wait_for()
    drawn = page.evaluate("performance.getEntriesByName('graph-drawn')[0].startTime")
    page.locator(".graph-canvas[data-layout=settled]").wait_for(timeout=120_000)
    settled = page.evaluate("performance.now()")
    pan, zoom = moved(page, "pan", frames), moved(page, "zoom", frames)
    page.close()
    return Round(size, fetched, drawn, settled, statistics.median(pan), p95(pan), statistics.median(zoom), p95(zoom))


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


def measure(sizes: list[int], rounds: int, frames: int) -> dict[int, list[Round]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls: dict[int, str] = {}
        for size in sizes:
            program, urls[size] = serve(folder / str(size), size)
            stack.enter_context(program)
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=path_of("chromium"), args=["--no-sandbox"])
        results: dict[int, list[Round]] = {size: [] for size in sizes}
        for _ in range(rounds):
            for size in sizes:
                results[size].append(look(browser, urls[size], frames))
        browser.close()
    return results


ROWS: dict[str, tuple[str, Callable[[Round], float]]] = {
    "data of the graph, kB": ("", lambda each: each.data_bytes / 1000),
    "… fetched, ms": ("", lambda each: each.data),
    "navigation to the first whole drawing, ms": (f"≤ {DRAWN_GOAL_MS:.0f}", lambda each: each.drawn),
    "navigation until the layout rests, ms": ("", lambda each: each.settled),
    "panning, frames a second": (f"≥ {FRAMES_GOAL:.0f}", lambda each: 1000 / each.pan),
    "… 95 of 100 frames within, ms": ("", lambda each: each.pan_p95),
    "zooming, frames a second": (f"≥ {FRAMES_GOAL:.0f}", lambda each: 1000 / each.zoom),
    "… 95 of 100 frames within, ms ": ("", lambda each: each.zoom_p95),
}


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(results: dict[int, list[Round]]) -> Iterator[str]:
    sizes = list(results)
    yield "| | goal | " + " | ".join(f"{size:,} notes" for size in sizes) + " | ratio |"
    yield "|---" * (len(sizes) + 3) + "|"
    for name, (goal, figure) in ROWS.items():
        values = [[figure(each) for each in results[size]] for size in sizes]
        medians = [statistics.median(each) for each in values]
        cells = [
            f"{short(median)} ({short(min(each))}-{short(max(each))})"
            for median, each in zip(medians, values, strict=True)
        ]
        yield f"| {name.strip()} | {goal} | " + " | ".join(cells) + f" | {medians[-1] / medians[0]:.2f} |"


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="notes; default %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default %(default)s")
    parser.add_argument("--frames", type=int, default=FRAMES, help="of each movement; default %(default)s")
    given = options.parse(parser, sizes=[20, 40], rounds=1, frames=10)
    results = measure(given.sizes, given.rounds, given.frames)
    print("\n".join(table(results)))
    options.write_json(given.json, {size: [asdict(each) for each in rounds] for size, rounds in results.items()})


if __name__ == "__main__":
    main()
