"""The words of a collection, in a tantivy index that follows the passages in SQLite."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tantivy import (
    Document,
    Index,
    IndexWriter,
    Occur,
    Query,
    Schema,
    SchemaBuilder,
    TextAnalyzerBuilder,
    Tokenizer,
)

WRITER_BYTES = 32 * 1024 * 1024
RETRY_SECONDS = 0.02


class Head(NamedTuple):
    """How far the index has followed."""

    added: int = 0
    """The last passage that is in it."""
    removed: int = 0
    """The last removal that is done."""


class Entry(NamedTuple):
    passage: int
    terms: Sequence[str]
    filters: Mapping[str, str]


class Changes(NamedTuple):
    entries: Iterable[Entry]
    removed: Iterable[int]
    head: Head
    anew: bool
    """Everything there was is to go first."""


def _schema() -> Schema:
    builder = SchemaBuilder()
    builder.add_integer_field("passage", indexed=True, fast=True)
    builder.add_text_field("terms", tokenizer_name="terms", index_option="freq")
    builder.add_text_field("filter", tokenizer_name="raw", index_option="basic")
    # One document has no passage, but these.
    builder.add_text_field("head", tokenizer_name="raw", index_option="basic", stored=True)
    return builder.build()


class TextIndex:
    """Any process may read it; one at a time writes, which tantivy's lock file sees to, also after a crash."""

    def __init__(self, folder: Path) -> None:
        self._schema = _schema()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._index = Index(self._schema, path=str(folder))
        except ValueError:  # damaged, or of another version: it can be made again
            shutil.rmtree(folder)
            folder.mkdir()
            self._index = Index(self._schema, path=str(folder))
        self._index.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())
        self._index.config_reader("manual")

    def refresh(self) -> Head:
        """See what was written until now, by whichever process."""
        self._index.reload()
        searcher = self._index.searcher()
        hits = searcher.search(Query.term_query(self._schema, "head", "head"), 1, count=False).hits
        if not hits:
            return Head()
        added, removed = searcher.doc(hits[0][1])["head"][1:]
        return Head(int(added), int(removed))

    def follow(self, changes: Callable[[Head], Changes | None], *, seconds: float) -> bool:
        """Take in the changes since the head, all of them or none; False if another process writes for so long."""
        writer = self._writer(seconds)
        if writer is None:
            return False
        since = changes(self.refresh())
        if since is not None:
            self._write(writer, since)
        writer.wait_merging_threads()
        self._index.reload()
        return True

    def _write(self, writer: IndexWriter, changes: Changes) -> None:
        if changes.anew:
            writer.delete_all_documents()
        for entry in changes.entries:
            document = Document(passage=entry.passage)
            document.add_text("terms", " ".join(entry.terms))
            for key, value in entry.filters.items():
                document.add_text("filter", f"{key}={value}")
            writer.add_document(document)
        for passage in changes.removed:
            writer.delete_documents_by_term("passage", passage)
        writer.delete_documents_by_term("head", "head")
        writer.add_document(Document(head=["head", str(changes.head.added), str(changes.head.removed)]))
        writer.commit()

    def search(self, terms: Sequence[str], most: int, filters: Mapping[str, Sequence[str]]) -> dict[int, float]:
        """The passages with the best of these terms, and the BM25 of each."""
        return self._scores([(Occur.Must, self._any(terms)), *self._filters(filters)], most)

    def scores(self, terms: Sequence[str], passages: Sequence[int]) -> dict[int, float]:
        """The BM25 of those of the passages that have one of the terms."""
        among = Query.const_score_query(Query.term_set_query(self._schema, "passage", list(passages)), 0.0)
        return self._scores([(Occur.Must, among), (Occur.Must, self._any(terms))], len(passages))

    def _scores(self, clauses: Sequence[tuple[Occur, Query]], most: int) -> dict[int, float]:
        searcher = self._index.searcher()
        hits = searcher.search(Query.boolean_query(clauses), max(1, most), count=False).hits
        if not hits:
            return {}
        passages = searcher.fast_field_values("passage", [address for _, address in hits])
        return {int(passage or 0): float(score) for passage, (score, _) in zip(passages, hits, strict=True)}

    def _any(self, terms: Sequence[str]) -> Query:
        return Query.boolean_query(
            [(Occur.Should, Query.term_query(self._schema, "terms", term, "freq")) for term in terms]
        )

    def _filters(self, filters: Mapping[str, Sequence[str]]) -> list[tuple[Occur, Query]]:
        return [
            (
                Occur.Must,
                Query.const_score_query(
                    Query.term_set_query(self._schema, "filter", [f"{key}={value}" for value in values]), 0.0
                ),
            )
            for key, values in filters.items()
        ]

    def _writer(self, seconds: float) -> IndexWriter | None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._index.writer(WRITER_BYTES, 1)
            except ValueError as error:
                if "Lock" not in str(error):
                    raise
                if time.monotonic() > deadline:
                    return None
            time.sleep(RETRY_SECONDS)
