"""Real passages for `search_real.py`: what is installed here, split as notes are, embedded once.

Functions of the standard library and of installed packages, sections of documentation, manual pages, and the texts of
/usr/share/doc. Where a docstring's first line or a heading is asked for, it is taken out of the text that answers.
"""

from __future__ import annotations

import ast
import gzip
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from retrieval_sets import LARGEST_SOURCE, MANUAL, SEED, Text, _files, _function, _manual_parts, _name, sections

from carrel.search.documents import Document, Passage, split
from carrel.search.index_store import digest, embedded_text
from carrel.search.providers.provider import Provider

DOCUMENTATION = Path("/usr/share/doc")
NODE_MODULES = Path("/usr/lib/node_modules")
TEXTS = ("README*", "NEWS*", "*.txt", "*.txt.gz", "*.md", "*.md.gz", "*.rst", "copyright", "changelog.gz")
MAX_TEXT_LENGTH = 20_000
"""Characters of a file of documentation."""
MIN_PASSAGE_LENGTH = 120
MAX_PASSAGES_PER_DOCUMENT = 6
"""Passages."""
CHUNK = 1000
"""Passages that are embedded before they are written to a file: what a kill costs."""

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Real:
    documents: list[Document]
    queries: list[str]

    @property
    def texts(self) -> list[str]:
        """What is embedded of each passage, in order."""
        return [embedded_text(each.title, passage) for each in self.documents for passage in each.passages]


def gathered(folder: Path, passages: int, queries: int, limit: int | None = None) -> Real:
    """From the folder where so many were gathered before, whatever was installed since: the first of them."""
    path = folder / "real.json"
    if path.exists():
        kept = _read(path)
        if len(kept.texts) >= passages and len(kept.queries) >= queries:
            return Real(list(_first(kept.documents, passages)), kept.queries[:queries])
    made = _drawn(passages, queries, limit)
    path.write_text(json.dumps([[(each.id, each.title, _texts(each)) for each in made.documents], made.queries]))
    return made


def _read(path: Path) -> Real:
    rows, asked = json.loads(path.read_text())
    return Real([_document(id, title, texts) for id, title, texts in rows], asked)


def _first(documents: list[Document], passages: int) -> Iterator[Document]:
    for each in documents:
        if passages <= 0:
            return
        yield _document(each.id, each.title, _texts(each)[:passages])
        passages -= len(each.passages)


def _texts(document: Document) -> list[str]:
    return [passage.text for passage in document.passages]


def _document(id: str, title: str, texts: list[str]) -> Document:
    return Document(id, title, [Passage(text) for text in texts], "1")


def _drawn(passages: int, queries: int, limit: int | None) -> Real:
    sources = chain.from_iterable(islice(each, limit) for each in (functions(), sections(), manual(), documentation()))
    found = [each for each in sources if len(each.text) >= MIN_PASSAGE_LENGTH]
    found = sorted({each.id: each for each in {each.text: each for each in sorted(found)}.values()}.values())
    rng = random.Random(SEED)
    rng.shuffle(found)
    split_up = [_document(each.id, each.title, split(each.text)[:MAX_PASSAGES_PER_DOCUMENT]) for each in found]
    documents = list(_first(split_up, passages))
    count = sum(len(each.passages) for each in documents)
    if count < passages:
        print(f"there are {count} passages here, not {passages}", file=sys.stderr)
    asked = sorted({each.asked for each in found[: len(documents)] if each.asked})
    return Real(documents, rng.sample(asked, min(queries, len(asked))))


def functions() -> Iterator[Text]:
    """All that have a body worth reading; those whose docstring says what they are for are asked for by that."""
    for path in _files("*.py"):
        if path.stat().st_size >= LARGEST_SOURCE:
            continue
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        lines, name = source.splitlines(), _name(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body, asked = _function(node, lines) or ("\n".join(lines[node.lineno - 1 : node.end_lineno]), "")
                yield Text(f"{name}:{node.lineno}", name.removesuffix(".py").replace("/", "."), body, asked)


def manual() -> Iterator[Text]:
    for path in sorted(MANUAL.glob("man[1-8]/*.gz")):
        if not path.is_symlink():
            parts = _manual_parts(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))
            for heading, body in parts.items():
                yield Text(f"{path.name}:{heading}", path.name.removesuffix(".gz"), body)


def documentation() -> Iterator[Text]:
    found = {path for pattern in TEXTS for path in DOCUMENTATION.glob(f"*/{pattern}") if path.is_file()}
    for path in sorted(found | {path for path in NODE_MODULES.rglob("*.md") if path.is_file()}):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
        yield Text(str(path), path.parent.name, text[:MAX_TEXT_LENGTH])


def embedded(folder: Path, texts: list[str], provider: Provider) -> Vectors:
    """The vector of each text, from files in the folder as far as they are there."""
    parts: list[Vectors] = []
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        path = folder / f"real-{digest(provider.name + chr(0).join(chunk)).hex()}.npy"
        if not path.exists():
            began = time.perf_counter()
            unfinished = path.with_suffix(".part.npy")
            np.save(unfinished, provider.embed(chunk))
            unfinished.rename(path)
            rate = len(chunk) / (time.perf_counter() - began)
            print(f"{start + len(chunk)} of {len(texts)} embedded, {rate:.0f} a second", file=sys.stderr, flush=True)
        parts.append(np.load(path))
    return np.concatenate(parts)
