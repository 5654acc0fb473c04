"""`carrel index` and `carrel search`, over content, on both engines."""

import json
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from carrel.search.embedder import EMBEDDING_BATCH_SIZE
from tests.bundles import Store, block, entity, project
from tests.embedding_servers import Reply, Request, openai, serving
from tests.program import Done, misused, run_carrel_here
from tests.wire import CARREL, environment

SUMMARIES = {
    "concept:tide": "The sea rises and falls twice a day, drawn by the moon.",
    "guide:bread": "Knead the dough, let it rise in a warm place, and bake it in a hot oven.",
    "news:harvest": "A wet summer left the farmers with half of the usual grain.",
}


@pytest.fixture
def store(ready_url: str, tmp_path: Path) -> Store:
    store = Store(ready_url, tmp_path)
    entities = [entity(ref, summary=text) for ref, text in SUMMARIES.items()]
    blocks = [
        block("concept:tide", text="Spring tides come with the full moon and the new moon. " * 4, topicTag="moon")
    ]
    store.load({"projects": [project()], "entities": entities, "quotableBlocks": blocks})
    return store


def run(store: Store, *words: str, **env: str) -> Done:
    return run_carrel_here(*words, cwd=store.folder, CARREL_DATABASE_URL=store.url, **env)


def told(done: Done) -> Any:
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def titles(done: Done) -> list[str]:
    return [hit["title"] for hit in told(done)["hits"]]


@pytest.mark.rule("search.commands.index", "search.commands.search")
def test_what_is_indexed_is_found_by_meaning(store: Store) -> None:
    indexed = told(run(store, "index", "--json"))
    assert indexed == {
        "provider": "bundled",
        "collections": {"content": {"documents": 3, "passages": 4, "embedded": 4}},
    }
    assert told(run(store, "index", "--status", "--json")) == indexed
    found = run(store, "search", "--json", "why does the water at the beach come and go")
    assert titles(found)[0] == "The tide"
    shown = run(store, "search", "how", "to", "make", "a", "loaf")
    assert "The bread" in shown.stdout
    assert "Knead the dough" in shown.stdout


@pytest.mark.rule("search.commands.search")
def test_filters_choose_before_ranking(store: Store) -> None:
    run(store, "index")
    words = ("search", "--json", "the moon and the sea")
    assert titles(run(store, *words, "--filter", "type=concept"))[0] == "The tide"
    assert titles(run(store, *words, "--filter", "type=news")) in ([], ["The harvest"])
    assert titles(run(store, *words, "--filter", "type=news", "--filter", "type=concept"))[0] == "The tide"
    assert titles(run(store, *words, "--filter", "project=other")) == []
    misused(run(store, *words, "--filter", "type"), "'type' must be KEY=VALUE")


@pytest.mark.rule("search.commands.index")
def test_the_index_follows_the_content(store: Store) -> None:
    run(store, "index")
    assert run(store, "content", "edit", "news:harvest", "--summary", "Volcanoes and lava.").returncode == 0
    assert run(store, "content", "remove", "guide:bread", "--yes").returncode == 0
    indexed = told(run(store, "index", "--json"))["collections"]["content"]
    assert indexed == {"documents": 2, "passages": 3, "embedded": 3}
    assert titles(run(store, "search", "--json", "lava volcanoes"))[0] == "The harvest"
    assert "The bread" not in titles(run(store, "search", "--json", "knead the dough"))


@pytest.mark.rule("notes_commands.search.collections")
def test_all_collections_are_searched_together_or_one_alone(store: Store) -> None:
    none = {"CARREL_EMBEDDINGS_PROVIDER": "none"}
    notes = store.folder / "notes"
    notes.mkdir()
    (notes / "diary.md").write_text("The moon was full, and the tide high.\n", encoding="utf-8")
    (notes / "moon.md").write_text("Made of rock.\n", encoding="utf-8")
    assert list(told(run(store, "index", "--json", **none))["collections"]) == ["content", "notes"]

    def found(*words: str) -> list[tuple[str, str]]:
        answer = told(run(store, "search", "--json", "moon", *words, **none))
        assert [hit["score"] for hit in answer["hits"]] == sorted(
            (hit["score"] for hit in answer["hits"]), reverse=True
        )
        assert answer["total"] >= len(answer["hits"])
        return [(hit["collection"], hit["title"]) for hit in answer["hits"]]

    together = found()
    assert together[0] == ("notes", "moon")
    assert sorted(together) == [("content", "The tide"), ("notes", "diary"), ("notes", "moon")]
    assert found("--limit", "2") == together[:2]
    assert found("--collection", "content") == [("content", "The tide")]
    assert found("--collection", "notes") == [each for each in together if each[0] == "notes"]
    assert found("--filter", "type=concept") == [("content", "The tide")]


@pytest.mark.rule("search.commands.rebuild")
def test_it_can_be_made_again(store: Store) -> None:
    before = told(run(store, "index", "--json"))
    assert told(run(store, "index", "--rebuild", "--json")) == before
    assert titles(run(store, "search", "--json", "full moon"))[0] == "The tide"


def test_without_an_index_search_says_what_to_do(store: Store) -> None:
    misused(run(store, "search", "anything"), "run carrel index", status=1)
    status = run(store, "index", "--status")
    assert (status.returncode, "run carrel index" in status.stderr) == (0, True)


@pytest.mark.rule("search.provider.none")
def test_words_alone_need_no_model(store: Store) -> None:
    none = {"CARREL_EMBEDDINGS_PROVIDER": "none"}
    assert told(run(store, "index", "--json", **none))["collections"]["content"]["embedded"] == 0
    assert titles(run(store, "search", "--json", "farmers grain", **none)) == ["The harvest"]


@pytest.mark.rule("search.provider.key")
def test_a_key_that_is_not_set_is_told_by_its_name(store: Store) -> None:
    env = {"CARREL_EMBEDDINGS_PROVIDER": "openai", "CARREL_EMBEDDINGS_API_KEY_ENV": "NO_SUCH_KEY"}
    misused(run(store, "index", **env), "NO_SUCH_KEY")


def _count_texts(requests: list[Request]) -> int:
    return sum(text.startswith("Entity ") for request in requests for text in request.texts)


@pytest.mark.slow
@pytest.mark.rule("search.background.kill")
def test_20_kills_while_indexing_lose_nothing_and_repeat_at_most_what_was_in_hand(tmp_path: Path) -> None:
    store = Store("sqlite:///content.db", tmp_path)
    count, kills, rng = 3000, 20, random.Random(5)
    entities = [
        {**entity(f"concept:c{number}"), "title": f"Entity {number}", "summary": f"About the number {number}."}
        for number in range(count)
    ]
    store.load({"projects": [project()], "entities": entities})

    def slowly(request: Request) -> Reply:
        time.sleep(0.01)
        return openai(request)

    with serving(slowly) as server:
        env = environment(
            CARREL_DATABASE_URL=store.url,
            CARREL_EMBEDDINGS_PROVIDER="openai",
            CARREL_EMBEDDINGS_MODEL="m",
            CARREL_EMBEDDINGS_URL=server.url,
        )
        for _ in range(kills):
            before = len(server.requests)
            with subprocess.Popen(
                [*CARREL, "index"], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process:
                if rng.random() < 0.9:  # else it is killed before it comes to embed
                    while len(server.requests) == before and process.poll() is None:
                        time.sleep(0.005)
                time.sleep(rng.uniform(0, 0.1))
                process.send_signal(signal.SIGKILL)
        done = subprocess.run(
            [*CARREL, "index", "--json"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert told(done)["collections"]["content"] == {"documents": count, "passages": count, "embedded": count}
        asked = _count_texts(server.requests)
        assert count <= asked <= count + kills * EMBEDDING_BATCH_SIZE
        once_more = subprocess.run([*CARREL, "index"], cwd=tmp_path, env=env, capture_output=True, check=False)
        assert (once_more.returncode, _count_texts(server.requests)) == (0, asked)
    for number in rng.sample(range(count), 20):
        assert titles(run(store, "search", "--json", f"Entity {number}", CARREL_EMBEDDINGS_PROVIDER="none"))[0] == (
            f"Entity {number}"
        )
