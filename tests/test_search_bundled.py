"""The embedding model that is shipped."""

import hashlib
import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from carrel.search.providers import bundled
from carrel.search.providers.bundled import BundledProvider
from carrel.search.providers.provider import EmbeddingFailed, ProviderMissing

MINILM = files("carrel.search.providers").joinpath("minilm")


@pytest.fixture(scope="module")
def minilm() -> BundledProvider:
    return BundledProvider()


def test_the_shipped_files_are_those_that_were_built() -> None:
    for line in MINILM.joinpath("checksums.txt").read_text().splitlines():
        expected, name = line.split()
        assert hashlib.sha256(MINILM.joinpath(name).read_bytes()).hexdigest() == expected, name
    assert "Apache License" in MINILM.joinpath("LICENSE").read_text()


def test_the_reference_sentence_has_the_reference_vector(minilm: BundledProvider) -> None:
    reference = json.loads(MINILM.joinpath("reference.json").read_text())
    assert minilm.embed([reference["text"]])[0] @ np.array(reference["vector"]) > 0.999


def test_vectors_are_rows_of_unit_length_in_order(minilm: BundledProvider) -> None:
    texts = ["a long walk by the river", "fish", "", "SELECT * FROM task"]
    vectors = minilm.embed(texts)
    assert (vectors.shape, vectors.dtype) == ((4, minilm.dimensions), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for row, text in zip(vectors, texts, strict=True):
        assert np.array_equal(row, minilm.embed([text])[0])
    assert minilm.embed([]).shape == (0, 384)


def test_a_vector_depends_on_its_text_alone(minilm: BundledProvider) -> None:
    """To the bit: whatever stands beside it, short or long, and in whichever place."""
    text = "How do I undo the last commit without losing my changes?"
    alone = minilm.embed([text])[0]
    others = ["fish", "word " * 500, "\U0001f600" * 50, "", "loud " * 3]
    for place in range(len(others) + 1):
        batch = minilm.embed([*others[:place], text, *others[place:]])
        assert np.array_equal(batch[place], alone)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("How do I undo a commit?", "git revert makes a new commit that reverses an earlier one.", "Bake for an hour."),
        ("feline pets", "Cats like to sleep in the sun.", "Stock prices fell sharply on Monday."),
        ("open a file and read it", "with open(path) as stream: data = stream.read()", "class Tree: left = None"),
    ],
)
def test_what_means_the_same_is_nearer(minilm: BundledProvider, query: str, near: str, far: str) -> None:
    asked, close, distant = minilm.embed([query, near, far])
    assert asked @ close > asked @ distant + 0.2


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "\0",
        "a\0b",
        "\ud800",
        "x\udfffy",
        "\U0001f600\U0001f468\u200d\U0001f469",
        "word " * 20_000,
        "x" * 100_000,
    ],
    ids=ascii,
)
def test_no_text_breaks_it(minilm: BundledProvider, text: str) -> None:
    found = minilm.embed([text])[0]
    assert np.isfinite(found).all()
    assert abs(np.linalg.norm(found) - 1) < 1e-6


def test_what_follows_the_first_128_tokens_is_not_read(minilm: BundledProvider) -> None:
    start = "fish " * (minilm.limits.tokens - 2)
    cut, same, last = minilm.embed([start, start + "and then chips", start.removesuffix("fish ") + "chips"])
    assert np.array_equal(cut, same)
    assert not np.array_equal(cut, last)


def test_eight_threads_get_the_vectors_of_one() -> None:
    texts = [f"note number {number} about the garden" for number in range(8)]
    shared = BundledProvider()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda _: shared.embed(texts), range(8)))
    alone = BundledProvider().embed(texts)
    assert all(np.array_equal(vectors, alone) for vectors in together)


def test_a_cpu_that_computes_something_else_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        BundledProvider().embed(["fish"])
        assert caplog.records == []
        monkeypatch.setattr(bundled, "MIN_REFERENCE_COSINE", 1.1)
        assert BundledProvider().embed(["fish"]).shape == (1, 384)
    assert [record.name for record in caplog.records] == ["carrel.search"]
    assert "other vectors on this CPU" in caplog.text


def test_a_closed_model_says_so() -> None:
    provider = BundledProvider()
    provider.embed(["fish"])
    provider.close()
    with pytest.raises(EmbeddingFailed, match="closed"):
        provider.embed(["fish"])


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    script = """
import sys
from carrel.search.providers.provider_factory import open_provider
heavy = {"numpy", "onnxruntime", "httpx2"}
for kind in ("bundled", "openai", "ollama"):
    provider = open_provider(kind, model="", url="", api_key_env="", environ={})
    assert heavy.isdisjoint(sys.modules), (kind, heavy & set(sys.modules))
provider = open_provider("bundled", model="", url="", api_key_env="", environ={})
assert provider.name and provider.dimensions == 384
assert heavy.isdisjoint(sys.modules)
provider.embed(["fish"])
assert {"numpy", "onnxruntime"} <= set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_onnxruntime_the_error_says_what_to_do(tmp_path: Path) -> None:
    """A process whose onnxruntime is gone (no spec), then one whose onnxruntime does not load."""
    script = """
import sys
from carrel.search.providers.provider_factory import open_provider
from carrel.search.providers.provider import EmbeddingFailed, ProviderMissing
opened = lambda: open_provider("bundled", model="", url="", api_key_env="", environ={})
try:
    opened().embed(["fish"])
except (ProviderMissing, EmbeddingFailed) as error:
    print(type(error).__name__, error)
"""
    gone = "import importlib.util as u, sys; f = u.find_spec\n"
    gone += "import carrel.search.providers.provider_factory as o\n"
    gone += "o.find_spec = lambda n: None if n == 'onnxruntime' else f(n)\n"
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('libstdc++.so.6 is missing')")
    broken = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    for before, kind in ((gone, ProviderMissing), (broken, EmbeddingFailed)):
        found = subprocess.run([sys.executable, "-c", before + script], check=True, capture_output=True, text=True)
        assert found.stdout.startswith(kind.__name__)
        assert "pip install onnxruntime" in found.stdout
        assert '"none"' in found.stdout
    assert "libstdc++" in found.stdout
