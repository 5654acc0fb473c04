"""all-MiniLM-L6-v2, shipped with us as an int8 ONNX model: no download, no server, and no key.

A vector depends on its text alone. Each text runs by itself, without padding, through a graph whose arithmetic is the
same on every CPU with fused multiply-add (see model/README.md), so what one machine stored another can search.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import as_file, files
from threading import Lock
from typing import TYPE_CHECKING, Any

from carrel.search.providers.protocol import EmbeddingFailed, Limits
from carrel.search.providers.wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from carrel.search.providers.protocol import Matrix

MODEL = "all-MiniLM-L6-v2"
REVISION = "int8-1"
"""Changes with every change to model.onnx that changes vectors."""

DIMENSIONS = 384
TOKENS = 128
LEAST_COSINE = 0.999
"""A CPU with fused multiply-add gives the reference itself, one without 0.9997 of it, products that saturate 0.996."""

MISSING = (
    "the bundled embedding model needs onnxruntime, which cannot be loaded here; install it (pip install onnxruntime; "
    'there are no wheels for musl systems such as Alpine), or set [embeddings] provider to "openai", "ollama" or "none"'
)

log = logging.getLogger("carrel.search")


class BundledProvider:
    """The model is loaded at first use."""

    name = f"bundled/{MODEL}/{REVISION}"
    dimensions = DIMENSIONS
    limits = Limits(passages=64, tokens=TOKENS, query_seconds=10.0)
    """The first query waits for the model to be loaded, which takes about a second."""

    def __init__(self) -> None:
        self._loading = Lock()
        self._model: _Model | None = None
        self._closed = False

    def embed(self, texts: Sequence[str]) -> Matrix:
        model = self._loaded()
        import numpy as np

        vectors = np.empty((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = model.vector(text)
        return vectors

    def embed_query(self, text: str) -> Matrix:
        return self._loaded().vector(text)

    def close(self) -> None:
        """A call that is under way keeps the model until it ends."""
        with self._loading:
            self._closed = True
            self._model = None

    def _loaded(self) -> _Model:
        with self._loading:
            if self._closed:
                raise EmbeddingFailed("the bundled embedding model was closed")
            if self._model is None:
                self._model = _Model()
                self._model.check()
            return self._model


class _Model:
    def __init__(self) -> None:
        self._tokens = WordPiece(_data("vocab.txt").read_text(encoding="utf-8").split())
        self._session = _session()

    def vector(self, text: str) -> npt.NDArray[np.float32]:
        import numpy as np

        ids = np.array(self._tokens.encode(text, TOKENS), np.int64)
        return self._session.run(None, {"ids": ids})[0]

    def check(self) -> None:
        reference = json.loads(_data("reference.json").read_text(encoding="utf-8"))
        cosine = float(self.vector(reference["text"]) @ reference["vector"])
        if not cosine >= LEAST_COSINE:  # a NaN is no good either
            log.warning(
                "the bundled embedding model gives other vectors on this CPU; meaning may be found less well, "
                "and vectors that another machine made should not be shared with this one",
                extra={"fields": {"cosine": round(cosine, 5), "least": LEAST_COSINE}},
            )


def _data(name: str) -> Any:
    return files("carrel.search.providers").joinpath("minilm", name)


def _session() -> Any:
    try:
        onnxruntime = import_module("onnxruntime")  # it has no types
    except ImportError as error:
        raise EmbeddingFailed(f"{MISSING} ({error})") from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # The graph is run as it was built: merged operators round differently from CPU to CPU.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # errors; the rest is about graphs, and for whoever builds them
    options.enable_mem_pattern = False  # lengths vary; patterns of each would be kept
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with as_file(_data("model.onnx")) as path:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
