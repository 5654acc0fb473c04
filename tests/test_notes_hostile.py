"""Notes that attack whoever reads them: each is read in a moment, within limits that are told, and nobody waits."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks import hostile_notes, lag_probe

from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Caller
from carrel.notes.note_names import key, name_from
from carrel.notes.note_search import passages
from carrel.notes.parser import MAX_ALIASES, MAX_DUPLICATE_WARNINGS, MAX_LINKS, MAX_PARSED_LENGTH, MAX_TAGS, facts_of
from carrel.notes.vault import MAX_FILE_BYTES
from carrel.toolsets.notes.handlers import note_handlers
from carrel.toolsets.notes.toolset import notes_toolset
from tests.lags import MAX_LAG_MS, lag_of, lag_of_retried
from tests.vaults import contents, note, opened, write
from tests.wire import MODERN, HttpServer, HttpWire, call, value

pytestmark = pytest.mark.anyio

SIZE = 400_000
MAX_SECONDS = 8
"""Of CPU, for what takes tenths of a second now and took minutes."""
KINDS = hostile_notes.hostile_texts(SIZE)


@pytest.mark.rule("notes.limits.linear")
@pytest.mark.parametrize("kind", KINDS)
def test_a_note_that_attacks_its_reader_is_read_in_a_moment(kind: str) -> None:
    started = time.process_time()
    facts = facts_of("n.md", KINDS[kind].encode())
    passages(KINDS[kind])
    assert time.process_time() - started < MAX_SECONDS
    assert len(facts.targets) <= MAX_LINKS
    assert len(facts.tags) <= MAX_TAGS
    assert len(facts.aliases) <= MAX_ALIASES
    assert len(facts.warnings) <= MAX_DUPLICATE_WARNINGS + 5


@pytest.mark.rule("notes.limits.linear")
def test_combining_marks_are_not_sorted_forever() -> None:
    text = "a" + "\u0301\u0327" * 500_000
    started = time.process_time()
    assert key(text) == text
    assert name_from(text)
    assert time.process_time() - started < MAX_SECONDS


@pytest.mark.rule("notes.limits.told")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("".join(f"[[n{n}]] " for n in range(MAX_LINKS + 1)), "first 5,000 of its links"),
        ("".join(f"#t{n} " for n in range(MAX_TAGS + 1)), "first 1,000 of its tags"),
        (f"---\naliases: [{', '.join(f'n{n}' for n in range(101))}]\n---\n", "first 100 of its aliases"),
        ("a\n" * (MAX_PARSED_LENGTH // 2) + "[[late]] #late", "its first 524,288 characters"),
        (f"---\nx: '{'a' * 300_000}'\n---\n#t", "262,144 characters is not read"),
    ],
    ids=["links", "tags", "aliases", "text", "frontmatter"],
)
async def test_what_does_not_count_is_told(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path / "notes", {"n.md": text})
    async with opened(tmp_path) as store:
        found = note(await store.get("n.md"))
        assert any(said in each for each in found.warnings), found.warnings[:5]
        assert "late" not in found.tags


@pytest.mark.rule("notes.limits.file")
async def test_a_file_that_is_too_large_is_listed_by_name_and_heals(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"big.md": b"[[n]] #a\n" * (MAX_FILE_BYTES // 8), "n.md": "[[big]]"})
    async with opened(tmp_path) as store:
        big = note(await store.get("big"))
        assert (big.title, big.content, list(big.tags), list(big.links)) == ("big", "", [], [])
        assert list(big.warnings) == ["Not read: the file has over 16 MiB"]
        assert [link.id for link in note(await store.get("n.md")).links] == ["big.md"]
        (vault / "big.md").write_text("[[n]] small again")
        await store.index.rescan()
        assert [link.id for link in note(await store.get("big.md")).links] == ["n.md"]


@pytest.mark.rule("common.input.time_limit")
async def test_the_time_limit_of_a_call_fires_while_a_note_is_read(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"index.md": "x", "big.md": "[[index]] #a\n" * (MAX_FILE_BYTES // 20)})
    async with opened(tmp_path) as store:
        pipeline = Pipeline([notes_toolset(note_handlers(store))], timeout=0.001)
        answer = await pipeline.call("get_node", {"id": "big.md"}, Caller("me"))
        assert answer.is_error
        assert "given up" in answer.text


@pytest.mark.rule("common.input.untrusted")
def test_a_note_that_once_ended_the_process_is_written_and_started_with(tmp_path: Path) -> None:
    nested = f"---\nx: {25_000 * '['}{25_000 * ']'}\n---\nbody"
    vault = write(tmp_path / "notes", {"found.md": nested})
    (tmp_path / "carrel.toml").write_text('[embeddings]\nprovider = "none"\n')
    for note_id in ("found.md", "written.md"):
        server = HttpServer(cwd=tmp_path)
        wire = HttpWire(MODERN, server.url)
        (warning,) = value(call(wire, "get_node", {"id": note_id}))["_warnings"]
        assert "over 4,096 brackets is not read" in warning
        call(wire, "create_node", {"title": "written", "content": nested})
        wire.close()
        assert server.stop() == 143
    assert contents(vault) == {"found.md": nested.encode(), "written.md": nested.encode()}


@pytest.fixture
def probed(tmp_path: Path) -> Any:
    """A server with the probe in it, and what it writes to."""
    write(tmp_path / "notes", {"index.md": "[[a]]"})
    (tmp_path / "carrel.toml").write_text('[embeddings]\nprovider = "none"\n')
    lags = tmp_path / "lags"
    server = HttpServer(cwd=tmp_path, program=lag_probe.command(lags))
    wire = HttpWire(MODERN, server.url)
    yield tmp_path / "notes", wire, lags
    wire.close()
    server.stop()


@pytest.mark.rule("common.input.nobody_waits")
@pytest.mark.timeout(300)
def test_no_note_holds_up_another_caller(probed: tuple[Path, HttpWire, Path]) -> None:
    vault, wire, lags = probed
    call(wire, "get_node", {"id": "index.md"})
    found: dict[str, Any] = {}
    for number, (kind, text) in enumerate(KINDS.items()):

        def read(kind: str = kind, text: str = text) -> None:
            hostile_notes.apply(vault, hostile_notes.Hostile(kind, "x.md", text.encode()))
            call(wire, "get_node", {"id": "x.md", "depth": 1})

        def made(number: int = number, text: str = text) -> None:
            call(wire, "create_node", {"title": f"n {number} {time.time()}", "content": text})

        for work in (read, made) if number % 5 == 0 else (read,):
            worst = lag_of_retried(lags, work)
            if worst.own_ms >= MAX_LAG_MS:
                found[f"{work.__name__} {kind}"] = worst
    assert not found


@pytest.mark.rule("common.input.nobody_waits")
def test_no_body_holds_up_another_caller(probed: tuple[Path, HttpWire, Path]) -> None:
    _, wire, lags = probed
    for unit in (1, {}, [], "a", ["a"]):
        items: list[Any] = [unit] * (3_900_000 // len(json.dumps([unit, 0])))
        for arguments in ({"tags": items}, {"tags": ["a"], **{f"k{n}": unit for n in range(200_000)}}):
            worst = lag_of(lags, partial(wire.post, "tools/call", {"name": "search_by_tags", "arguments": arguments}))
            assert worst.own_ms < MAX_LAG_MS, worst
            answer = wire.post("tools/call", {"name": "search_by_tags", "arguments": arguments})
            assert answer.status_code == 400
            assert "over 10,000 values" in answer.text
    text = ',:[{"' * 500_000
    found = call(wire, "create_node", {"title": "much", "content": text, "tags": ["t"] * 3000})
    assert found["isError"] is False
