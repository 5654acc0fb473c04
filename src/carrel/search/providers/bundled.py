"""The bundled model: all-MiniLM-L6-v2 as int8 ONNX with its WordPiece tokenizer; no download, no server, no key."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.resources import as_file, files
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize

from carrel.search.providers.provider import EmbeddingFailed, Limits

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from carrel.search.providers.provider import Matrix

MAX_WORD_CHARACTERS = 100
"""A word of more characters is unknown as a whole, as in the reference."""

MAX_TEXT_CHARACTERS = 65_536
"""What follows is not looked at: far more than a model reads of any text made of words."""

WORD_CACHE_SIZE = 32_768

_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_ASCII_DROPPED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ASCII_WORDS = re.compile(rf"[{re.escape(_PUNCTUATION)}]|[^\s{re.escape(_PUNCTUATION)}]+")
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = self._ids["[UNK]"]
        self._first, self._last = self._ids["[CLS]"], self._ids["[SEP]"]
        self._word_ids = lru_cache(WORD_CACHE_SIZE)(self._split)

    def encode(self, text: str, length: int) -> list[int]:
        """At most `length` ids, the marks of beginning and end among them. A mark's name in the text is text."""
        ids = (number for word in _words(text[:MAX_TEXT_CHARACTERS]) for number in self._word_ids(word))
        return [self._first, *islice(ids, length - 2), self._last]

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest piece that the vocabulary has, again and again; a word with a gap is unknown as a whole."""
        if len(word) > MAX_WORD_CHARACTERS:
            return (self._unknown,)
        ids: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                if (number := self._ids.get(mark + word[start:end])) is not None:
                    ids.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(ids)


def _words(text: str) -> Iterator[str] | list[str]:
    if text.isascii():
        return (found[0] for found in _ASCII_WORDS.finditer(_ASCII_DROPPED.sub("", text).lower()))
    return normalize("NFD", text.translate(_cleaned)).translate(_folded).split()


class _Cleaned(dict[int, str]):
    """Controls, private characters and halves of pairs fall out, white space is a space, an ideograph stands alone."""

    def __missing__(self, code: int) -> str:
        self[code] = self._made(code, chr(code))
        return self[code]

    def _made(self, code: int, character: str) -> str:
        if character in "\t\n\r":
            return " "
        if code == 0xFFFD or category(character) in ("Cc", "Cf", "Co", "Cs"):
            return ""
        if character.isspace():
            return " "
        return f" {character} " if any(low <= code <= high for low, high in _IDEOGRAPHS) else character


class _Folded(dict[int, str]):
    """Accents fall off, capitals become small one by one (a final sigma too), punctuation stands alone."""

    def __missing__(self, code: int) -> str:
        self[code] = self._made(chr(code))
        return self[code]

    def _made(self, character: str) -> str:
        kind = category(character)
        if kind == "Mn":
            return ""
        if kind.startswith("P") or character in _PUNCTUATION:
            return f" {character} "
        return character.lower()


_cleaned = _Cleaned()
_folded = _Folded()


MODEL = "all-MiniLM-L6-v2"
REVISION = "int8-1"
"""Changes with every change to model.onnx that changes vectors."""

DIMENSIONS = 384
MAX_TOKENS = 128
MIN_REFERENCE_COSINE = 0.999
"""A CPU with fused multiply-add gives the reference itself, one without 0.9997 of it, products that saturate 0.996."""

MISSING_RUNTIME = (
    "the bundled embedding model needs onnxruntime, which cannot be loaded here; install it (pip install onnxruntime; "
    'there are no wheels for musl systems such as Alpine), or set [embeddings] provider to "openai", "ollama" or "none"'
)

log = logging.getLogger("carrel.search")


class BundledProvider:
    """The model is loaded at first use."""

    name = f"bundled/{MODEL}/{REVISION}"
    dimensions = DIMENSIONS
    limits = Limits(passages=64, tokens=MAX_TOKENS, query_seconds=10.0)
    """The first query waits for the model to be loaded, which takes about a second."""

    def __init__(self) -> None:
        self._load_lock = Lock()
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
        with self._load_lock:
            self._closed = True
            self._model = None

    def _loaded(self) -> _Model:
        with self._load_lock:
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

        ids = np.array(self._tokens.encode(text, MAX_TOKENS), np.int64)
        return self._session.run(None, {"ids": ids})[0]

    def check(self) -> None:
        reference = json.loads(_data("reference.json").read_text(encoding="utf-8"))
        cosine = float(self.vector(reference["text"]) @ reference["vector"])
        if not cosine >= MIN_REFERENCE_COSINE:  # a NaN is no good either
            log.warning(
                "the bundled embedding model gives other vectors on this CPU; meaning may be found less well, "
                "and vectors that another machine made should not be shared with this one",
                extra={"fields": {"cosine": round(cosine, 5), "least": MIN_REFERENCE_COSINE}},
            )


def _data(name: str) -> Any:
    return files("carrel.search.providers").joinpath("minilm", name)


def _session() -> Any:
    try:
        onnxruntime = import_module("onnxruntime")  # it has no types
    except ImportError as error:
        raise EmbeddingFailed(f"{MISSING_RUNTIME} ({error})") from error

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
