"""context_search over a code base that changes, with embedding providers that answer, fail, or are none."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Caller
from carrel.workspace import Workspace, find_workspace
from tests.code_trees import tree
from tests.databases import prepare_desk
from tests.embedding_servers import Reply, Request, openai, serving
from tests.program import run_carrel_here

pytestmark = pytest.mark.anyio

ANA = Caller("ana")
NOTHING = {
    "error": "No embeddings found. Run initial session to generate context.",
    "fallback": "Use grep_codebase for text search",
}


class Code:
    """The code toolset of a workspace, called in this process."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    async def call(self, tool: str, **arguments: Any) -> Any:
        answer = await self._pipeline.call(tool, arguments, ANA)
        return json.loads(answer.text)

    async def search(self, query: str, **more: Any) -> list[dict[str, Any]]:
        found = await self.call("context_search", query=query, **more)
        assert list(found) == ["results", "query", "totalFound", "searchTime"], found
        return found["results"]

    async def ids(self, query: str, **more: Any) -> list[str]:
        return [each["id"] for each in await self.search(query, limit=20, **more)]

    async def scores(self, query: str) -> dict[str, float]:
        return {each["id"]: each["score"] for each in await self.search(query, limit=20)}

    async def read(self, path: str) -> None:
        assert "error" not in await self.call("read_file", path=path)


def desk(folder: Path, **settings: dict[str, Any]) -> Workspace:
    overrides = {"embeddings": {"provider": "none"}, **settings, "server": {"toolsets": ["code"]}}
    return find_workspace(folder, overrides, environment={})


@asynccontextmanager
async def opened(folder: Path, **settings: dict[str, Any]) -> AsyncGenerator[Code]:
    async with desk(folder, **settings).open() as found:
        yield Code(found.pipeline())


@pytest.fixture(autouse=True)
def _always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr("carrel.code.context_search.FAST_CHECK_SECONDS", 60)
    monkeypatch.setattr("carrel.code.context_search.UPDATE_WAIT_TIMEOUT_SECONDS", 60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare_desk(tmp_path)
    return tree(
        tmp_path, {"src/auth/lamp.py": "def lantern():\n    pass\n", "src/api/door.py": "def hinge():\n    pass\n"}
    )


def add(folder: Path, content: str, url: str = "", **more: str) -> str:
    words = [word for name, text in more.items() for word in (f"--{name}", text)]
    variables = {"CARREL_DATABASE_URL": url} if url else {}
    done = run_carrel_here("discoveries", "add", "--type", "rule", *words, "--json", content, cwd=folder, **variables)
    return json.loads(done.stdout)["id"]


# --- following what changes


@pytest.mark.rule("code.context.files_followed")
async def test_files_are_followed_when_they_are_edited_added_renamed_and_deleted(ready_url: str, folder: Path) -> None:
    async with opened(folder, database={"url": ready_url}) as code:
        assert await code.ids("lantern") == ["src/auth/lamp.py:1-2"]
        (folder / "src/auth/lamp.py").write_text("import os\n\n\ndef candelabra():\n    pass\n", encoding="utf-8")
        assert await code.ids("candelabra") == ["src/auth/lamp.py:4-5"]
        assert await code.ids("lantern") == []
        tree(folder, {"src/auth/torch.py": "def flambeau():\n    pass\n"})
        assert await code.ids("flambeau") == ["src/auth/torch.py:1-2"]
        (folder / "src/auth/torch.py").rename(folder / "src/api/torch.py")
        (found,) = await code.search("flambeau")
        assert (found["id"], found["module"]) == ("src/api/torch.py:1-2", "api")
        (folder / "src/api/torch.py").unlink()
        assert await code.ids("flambeau") == []


@pytest.mark.rule("code.context.files_followed")
async def test_what_is_gone_is_neither_shown_nor_counted_though_it_is_indexed_still(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.code.context_search.FAST_CHECK_SECONDS", 0)
    monkeypatch.setattr("carrel.code.context_search.CHECK_VALIDITY_FACTOR", 1_000_000)
    async with opened(folder) as code:
        assert await code.ids("lantern") == ["src/auth/lamp.py:1-2"]
        assert await code.ids("lantern") == ["src/auth/lamp.py:1-2"]  # seen to be as it was, and believed
        (folder / "src/auth/lamp.py").unlink()
        found = await code.call("context_search", query="lantern")
        assert (found["results"], found["totalFound"]) == ([], 0)


@pytest.mark.rule("code.context.indexed")
async def test_ignored_excluded_and_denied_files_data_and_links_are_not_indexed(folder: Path) -> None:
    files = (
        "ignored/a.py .env.d/a.py node_modules/a.py dist/a.py build/a.py .next/a.py .context/a.py .carrel/a.py "
        "data.json big.py guide.md .hidden/a.py src/a.py"
    )
    tree(folder, dict.fromkeys(files.split(), "flambeau = 1\n") | {".gitignore": "ignored/\n"})
    (folder / "big.py").write_text("flambeau = 1\n" * 100_000, encoding="utf-8")
    (folder / "link.py").symlink_to(folder / "src" / "a.py")
    async with opened(folder) as code:
        assert await code.ids("flambeau") == [".hidden/a.py:1-1", "src/a.py:1-1"]
        (folder / ".gitignore").write_text("ignored/\nsrc/a.py\n", encoding="utf-8")
        assert await code.ids("flambeau") == [".hidden/a.py:1-1"]


@pytest.mark.rule("code.context.discoveries_followed")
async def test_what_was_learned_does_not_wait_for_the_files(
    ready_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a code base so large that reading it takes longer than a search can."""
    monkeypatch.setattr("carrel.code.context_search.FIRST_UPDATE_WAIT_TIMEOUT_SECONDS", 0.0)
    let_go = asyncio.Event()

    async def waiting(*_: Any) -> int:
        await let_go.wait()
        return 0

    monkeypatch.setattr("carrel.code.context_search.update_index", waiting)
    async with opened(folder, database={"url": ready_url}) as code:
        assert await code.call("context_search", query="flambeau") == NOTHING
        first = await asyncio.to_thread(add, folder, "A flambeau is carried upright", ready_url)
        assert await code.ids("flambeau") == [first]
        second = await asyncio.to_thread(add, folder, "A flambeau is carried upright", ready_url)
        assert await code.ids("flambeau") == sorted([first, second])
        remove = ("discoveries", "remove", first)
        await asyncio.to_thread(run_carrel_here, *remove, cwd=folder, CARREL_DATABASE_URL=ready_url)
        assert await code.ids("flambeau") == [second]
        let_go.set()


@pytest.mark.rule("code.context.failing")
async def test_an_index_that_cannot_be_made_is_logged_and_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(*_: Any) -> int:
        raise OSError("no such disk")

    with monkeypatch.context() as broken:
        broken.setattr("carrel.code.context_search.update_index", failing)
        async with opened(folder) as code:
            assert await code.call("context_search", query="lantern") == NOTHING
            assert "the code base could not be indexed" in caplog.text
            broken.undo()
            assert await code.ids("lantern") == ["src/auth/lamp.py:1-2"]


@pytest.mark.rule("code.context.progress")
async def test_a_caller_who_asks_is_told_how_far_it_is_and_does_not_wait_longer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.code.context_search.FIRST_UPDATE_WAIT_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr("carrel.code.context_search.PROGRESS_INTERVAL_SECONDS", 0.01)

    async def endless(_engine: Any, _source: Any, progress: Any) -> int:
        progress(3, 7)
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr("carrel.code.context_search.update_index", endless)
    told: list[tuple[float, float, str]] = []

    async def tell(*words: Any) -> None:
        told.append(words)

    async with desk(folder).open() as found:
        caller = Caller("ana", progress=tell)
        answer = await found.pipeline().call("context_search", {"query": "lantern"}, caller)
    assert told == [(3, 7, "passages of code indexed")]
    assert answer.value == NOTHING


# --- meaning, and providers


@pytest.mark.rule("code.context.nothing")
async def test_where_nothing_at_all_is_indexed_grep_is_recommended(ready_url: str, tmp_path: Path) -> None:
    settings = {"database": {"url": ready_url}}
    async with opened(tmp_path, **settings) as code:
        assert await code.call("context_search", query="anything") == NOTHING
        identifier = await asyncio.to_thread(add, tmp_path, "Something was learned", ready_url)
        assert await code.ids("learned") == [identifier]


@pytest.mark.rule("code.context.meaning")
async def test_the_bundled_model_finds_what_shares_no_word(folder: Path) -> None:
    tree(folder, {"src/food.py": "# Tomatoes and beans are boiled in a pot for dinner.\nSOUP = 1\n"})
    done = await asyncio.to_thread(run_carrel_here, "index", cwd=folder)  # waits for the model, as no search does
    assert done.returncode == 0
    async with opened(folder, embeddings={"provider": "bundled"}) as code:
        best = (await code.search("cooking vegetables for an evening meal"))[0]
        assert (best["id"], best["source"]) == ("src/food.py:1-2", "code")
        assert 0 < best["score"] <= 1


def provider(url: str) -> dict[str, Any]:
    return {"provider": "openai", "url": url, "model": "m"}


@pytest.mark.rule("code.context.provider")
async def test_a_provider_that_fails_is_told_unless_words_may_answer(ready_url: str, folder: Path) -> None:
    broken = False

    def answer(request: Request) -> Reply:
        return Reply({"error": {"message": "API rate limit exceeded"}}, status=400) if broken else openai(request)

    with serving(answer) as server:
        settings = {"embeddings": provider(server.url), "database": {"url": ready_url}}
        async with opened(folder, **settings) as code:
            assert (await code.ids("lantern"))[0] == "src/auth/lamp.py:1-2"
            broken = True
            found = await code.call("context_search", query="lantern")
            assert list(found) == ["error", "details"]
            assert found["error"] == "Failed to generate query embedding"
            assert "API rate limit exceeded" in found["details"]
            assert (await code.call("grep_codebase", pattern="lantern"))["totalMatches"] == 1
            await code.read("src/auth/lamp.py")
            broken = False
            assert (await code.ids("lantern"))[0] == "src/auth/lamp.py:1-2"
        broken = True
        async with opened(folder, **settings, code={"answer_without_meaning": True}) as code:
            assert await code.ids("lantern") == ["src/auth/lamp.py:1-2"]


# --- reads count


@pytest.mark.rule("code.context.boost")
async def test_a_file_that_is_read_often_comes_up_a_little(
    ready_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.code.knowledge.accesses.WRITE_DELAY_SECONDS", 0.0)
    tree(folder, {f"src/{name}/a.py": "def flambeau():\n    pass\n" for name in "xyz"})
    tree(folder, {"src/x/b.py": "def flambeau_of_others():\n    return other(flambeau)\n"})
    url = {"url": ready_url}
    async with opened(folder, database=url, code={"name": "boosted"}) as code:
        before = await code.scores("flambeau pass")
        assert list(before)[:3] == [f"src/{name}/a.py:1-2" for name in "xyz"]
        for _ in range(20):
            await code.read("src/z/a.py")
            await code.read("src/x/b.py")
    async with opened(folder, database=url, code={"name": "boosted"}) as code:
        after = await code.scores("flambeau pass")
    assert next(iter(after)) == "src/z/a.py:1-2"
    gains = {each: after[each] - before[each] for each in before}
    assert 0 < gains["src/z/a.py:1-2"] <= 0.05
    assert (gains["src/x/a.py:1-2"], gains["src/y/a.py:1-2"]) == (0, 0)
    assert list(after)[-1] == "src/x/b.py:1-2", "what answers goes before what is read"
    assert all(score == round(score, 4) for score in after.values())


@pytest.mark.rule("code.context.denied_later")
async def test_what_is_denied_since_it_was_indexed_is_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(folder) as code:
        assert await code.ids("lantern") == ["src/auth/lamp.py:1-2"]
    monkeypatch.setattr("carrel.code.context_search.FIRST_UPDATE_WAIT_TIMEOUT_SECONDS", 0.0)

    async def never(*_: Any) -> int:
        return 0

    with monkeypatch.context() as stuck:
        stuck.setattr("carrel.code.context_search.update_index", never)
        async with opened(folder, code={"deny": ["lamp.*"]}) as code:
            found = await code.call("context_search", query="lantern")
            assert (found["results"], found["totalFound"]) == ([], 0)
            assert await code.ids("hinge") == ["src/api/door.py:1-2"]


async def test_the_root_can_go_away_and_come_back(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "carrel")
    async with opened(folder, code={"root": "src"}) as code:
        assert await code.ids("lantern") == ["auth/lamp.py:1-2"]
        os.rename(folder / "src", folder / "away")
        assert await code.ids("lantern") == []
        assert (await code.call("read_file", path="auth/lamp.py"))["error"] == "File not found"
        os.rename(folder / "away", folder / "src")
        assert await code.ids("lantern") == ["auth/lamp.py:1-2"]
