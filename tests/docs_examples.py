"""Examples in the documentation, run on the sample of `carrel demo` with the official client.

A block marked `call` has a tool's name and its arguments; the block marked `js` after it, what the tool answers. A
block marked `console` has a command and what it prints. In an answer `...` stands for whatever comes there, a time for
any time, an id for the one id that came in its place, and a number with a fraction for one that is near. An answer
that is no longer so is written anew by `python3 dev.py docs`, long parts left out.
"""

import asyncio
import json
import re
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import TextContent

from carrel.demo.sample_workspace import make_sample
from tests.program import run_carrel_here
from tests.wire import HttpServer

DOCS = Path(__file__).parents[1] / "docs"
TOOLSETS = ("notes", "code", "journal", "tasks", "catalog", "bridge")
PAGES = [DOCS / "first-steps.md", DOCS / "search.md", *(DOCS / "toolsets" / f"{name}.md" for name in TOOLSETS)]

CALL = re.compile(r"(```call\n)(\w+) (\{.*?\})\n```\n\n```js\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"```console\n\$ carrel ([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(f"{CALL.pattern}|{COMMAND.pattern}", re.DOTALL | re.MULTILINE)

ERROR = "// isError\n"
WIDTH, LONGEST_TEXT, LONGEST_LIST, FEW_ITEMS, MOST_LINES = 118, 160, 200, 2, 12
NEAR = 0.05
REST = "\u2026rest"
VARYING = {"searchTime"}
"""Fields that differ from run to run."""
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


def fresh_pages() -> dict[Path, str]:
    """Every page with examples, as it would be with answers of now; those that still hold stay as they are."""
    with _sample_desk() as (folder, url):
        return {page: asyncio.run(_fresh(page, page.read_text(encoding="utf-8"), folder, url)) for page in PAGES}


@contextmanager
def _sample_desk() -> Iterator[tuple[Path, str]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "sample"
        make_sample(folder, lambda _step: None)
        assert run_carrel_here("index", cwd=folder).returncode == 0
        server = HttpServer("--toolsets", ",".join(TOOLSETS), cwd=folder)
        try:
            yield folder, server.url
        finally:
            server.stop()


async def _fresh(page: Path, text: str, folder: Path, url: str) -> str:
    toolset = f"/{page.stem}" if page.parent.name == "toolsets" else ""
    ids: dict[str, str] = {}
    parts: list[str] = []
    end = 0
    async with Client(f"{url}{toolset}/mcp") as client:
        for example in EXAMPLE.finditer(text):
            parts.append(text[end : example.start()])
            end = example.end()
            if call := CALL.fullmatch(example[0]):
                parts.append(await _fresh_call(call, client.call_tool, ids))
            else:
                parts.append(await asyncio.to_thread(_fresh_command, example[0], folder))
    return "".join(parts) + text[end:]


async def _fresh_call(call: re.Match[str], ask: Callable[..., Awaitable[Any]], ids: dict[str, str]) -> str:
    start, tool, arguments, shown = call.groups()
    result = await ask(tool, json.loads(ID.sub(lambda found: ids.get(found[0], found[0]), arguments)))
    (block,) = result.content
    assert isinstance(block, TextContent)
    actual = json.loads(block.text)
    if shown.startswith(ERROR) != bool(result.is_error) or not _holds(shown.removeprefix(ERROR), actual, ids):
        shown = f"{ERROR if result.is_error else ''}{rendered(trimmed(actual))}\n"
    return f"{start}{tool} {arguments}\n```\n\n```js\n{shown}```"


def _holds(shown: str, actual: Any, ids: dict[str, str]) -> bool:
    return bool(shown.strip()) and matches(parsed(shown), actual, ids)


def _fresh_command(example: str, folder: Path) -> str:
    command = COMMAND.fullmatch(example)
    assert command is not None
    words, shown = command.groups()
    done = run_carrel_here(*shlex.split(words), cwd=folder)
    assert "Traceback" not in done.stderr, done
    lines = (done.stdout + done.stderr).rstrip("\n").splitlines()
    if not shown.strip() or not re.fullmatch(_line_pattern(shown), "\n".join(lines), re.DOTALL):
        kept = [*lines[:MOST_LINES], "..."] if len(lines) > MOST_LINES else lines
        shown = "".join(f"{line.rstrip()}\n" for line in kept)
    return f"```console\n$ carrel {words}\n{shown}```"


def _line_pattern(shown: str) -> str:
    """Begins of ids and scores are like any others."""
    lines: list[str] = []
    for line in shown.splitlines():
        pattern = re.escape(line).replace(r"\.\.\.", "[^\n]*")
        pattern = re.sub(r"^[0-9a-f]{8}\b", "[0-9a-f]{8}", pattern)
        pattern = re.sub(r"^0\\\.\d\d\b", r"0\\.\\d\\d", pattern)
        lines.append(".*" if line == "..." else pattern)
    return r"[ ]*\n".join(lines)


def parsed(shown: str) -> Any:
    """JSON in which `...` may stand for a value, or for the rest of a list or of an object."""
    within: list[str] = []

    def plain(token: re.Match[str]) -> str:
        if token[0] in ("[", "{"):
            within.append(token[0])
        elif token[0] in ("]", "}"):
            within.pop()
        elif token[0].endswith("..."):
            return token[0].replace("...", f'"{REST}"' if token[1] or within[-1] == "[" else f'"{REST}": 0')
        return token[0]

    return json.loads(re.sub(r'"(?:\\.|[^"\\])*"(?!\.)|(: *)?\.\.\.|[\[\]{}]', plain, shown))


def matches(shown: Any, actual: Any, ids: dict[str, str]) -> bool:
    """Whether an answer is the one that is shown; learns which ids stand for which."""
    if shown == REST:
        return True
    if isinstance(shown, dict) and isinstance(actual, dict):
        keys = [key for key in shown if key != REST]
        listed = [key for key in actual if key in keys] if REST in shown else list(actual)
        return keys == listed and all(matches(shown[key], actual[key], ids) for key in keys)
    if isinstance(shown, list) and isinstance(actual, list):
        items = shown[:-1] if shown[-1:] == [REST] else shown
        is_whole = len(items) == len(actual) if items is shown else len(items) < len(actual)
        return is_whole and all(map(matches, items, actual, [ids] * len(items)))
    if isinstance(shown, str) and isinstance(actual, str):
        if ID.fullmatch(shown) and ID.fullmatch(actual):
            return ids.setdefault(shown, actual) == actual
        if TIME.fullmatch(shown) and TIME.fullmatch(actual):
            return len(shown) == len(actual)
        return bool(re.fullmatch(re.escape(shown).replace(r"\.\.\.", ".*"), actual, re.DOTALL))
    if isinstance(shown, float) and isinstance(actual, float):
        return abs(shown - actual) <= NEAR
    return type(shown) is type(actual) and shown == actual


def trimmed(value: Any) -> Any:
    """What is long, cut."""
    if isinstance(value, dict):
        return {key: REST if key in VARYING else trimmed(each) for key, each in value.items()}
    if isinstance(value, list):
        kept = [trimmed(each) for each in value]
        is_long = len(kept) > FEW_ITEMS and len(json.dumps(kept)) > LONGEST_LIST
        return [*kept[:FEW_ITEMS], REST] if is_long else kept
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return value[: LONGEST_TEXT - 60].rsplit(" ", 1)[0] + "..."
    return value


def rendered(value: Any, indent: str = "") -> str:
    """JSON that is one line where that fits."""
    line = "..." if value == REST else json.dumps(value, ensure_ascii=False).replace(f'"{REST}"', "...")
    if not isinstance(value, (dict, list)) or not value or len(indent) + len(line) <= WIDTH:
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {rendered(each, deeper)}" for key, each in value.items()]
    else:
        items = [rendered(each, deeper) for each in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{closing}"
