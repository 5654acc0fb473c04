"""The words of a collection, in a tantivy index that follows the passages in SQLite."""

import json
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
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

from carrel.errors import StoreError
from carrel.search.ranking import Weights, weigh

WRITER_HEAP_BYTES = 32 * 1024 * 1024
LOCK_POLL_INTERVAL_SECONDS = 0.02


class TextDamaged(StoreError):
    """The index cannot be read; all that is in it can be made again."""


@contextmanager
def _translated_errors() -> Generator[None]:
    """tantivy's errors as ours. Some damage makes it panic, which no `except Exception` would see."""
    try:
        yield
    except StoreError:
        raise
    except BaseException as error:
        is_tantivy = isinstance(error, ValueError | OSError) or type(error).__name__ == "PanicException"
        if not is_tantivy:
            raise
        if "StorageFull" in str(error) or "No space left" in str(error):
            raise StoreError(f"search index: {error} (free space on the disk that holds it)") from error
        raise TextDamaged(f"the words of the search index are damaged: {error}") from error


class Checkpoint(NamedTuple):
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
    head: Checkpoint
    is_rebuild: bool
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
        self._folder = folder
        self.head: Checkpoint | None = None
        """How far it was followed when it was last looked at."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._open()
        except TextDamaged:  # or of another version
            self.reset()

    def reset(self) -> None:
        """Forget everything: who follows puts it in again."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(exist_ok=True)
        self.head = None
        self._open()

    def _open(self) -> None:
        with _translated_errors():
            self._index = self._open_index()
            self._index.config_reader("manual")

    def _open_index(self) -> Index:
        index = Index(self._schema, path=str(self._folder))
        index.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())
        return index

    def refresh(self) -> Checkpoint:
        """See what was written until now, by whichever process."""
        with _translated_errors():
            self.head = self._read_checkpoint()
        return self.head

    def _read_checkpoint(self) -> Checkpoint:
        self._index.reload()
        searcher = self._index.searcher()
        hits = searcher.search(Query.term_query(self._schema, "head", "head"), 1, count=False).hits
        if not hits:
            return Checkpoint()
        added, removed = searcher.doc(hits[0][1])["head"][1:]
        return Checkpoint(int(added), int(removed))

    def apply_changes(self, changes: Callable[[Checkpoint], Changes | None], *, seconds: float) -> bool:
        """Take in the changes since the head, all of them or none; False if another process writes for so long."""
        with _translated_errors():
            writer = self._writer(seconds)
            if writer is None:
                return False
            since = changes(self.refresh())
            if since is not None:
                self._write(writer, since)
            writer.wait_merging_threads()
        self.refresh()
        return True

    def _write(self, writer: IndexWriter, changes: Changes) -> None:
        writer.garbage_collect_files()  # left by a process that was killed, under names that are used again
        if changes.is_rebuild:
            writer.delete_all_documents()
        for entry in changes.entries:
            document = Document(passage=entry.passage)
            document.add_text("terms", " ".join(entry.terms))
            for key, value in entry.filters.items():
                document.add_text("filter", _filter(key, value))
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
        # Not as a set of terms, which is looked for in three times the time.
        each = [(Occur.Should, Query.term_query(self._schema, "passage", passage, "basic")) for passage in passages]
        among = Query.const_score_query(Query.boolean_query(each), 0.0)
        return self._scores([(Occur.Must, among), (Occur.Must, self._any(terms))], len(passages))

    def weigh(self, terms: Sequence[str]) -> Weights:
        with _translated_errors():
            searcher = self._index.searcher()
            return weigh([searcher.doc_freq("terms", term) for term in terms], searcher.num_docs)

    def _scores(self, clauses: Sequence[tuple[Occur, Query]], most: int) -> dict[int, float]:
        with _translated_errors():
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
                    Query.term_set_query(self._schema, "filter", [_filter(key, value) for value in values]), 0.0
                ),
            )
            for key, values in filters.items()
        ]

    def _writer(self, seconds: float) -> IndexWriter | None:
        """What is written with knows the files of all processes; an index that was opened before knows its own only."""
        deadline = time.monotonic() + seconds
        while True:
            files = self._files()
            try:
                writer = self._open_index().writer(WRITER_HEAP_BYTES, 1)
            except ValueError as error:
                if "Lock" not in str(error):
                    raise
            else:
                if self._files() == files:
                    return writer
                writer.wait_merging_threads()  # another one wrote just before: once more
            if time.monotonic() > deadline:
                return None
            time.sleep(LOCK_POLL_INTERVAL_SECONDS)

    def _files(self) -> bytes:
        """tantivy's list of them."""
        path = self._folder / ".managed.json"
        return path.read_bytes() if path.exists() else b""


def _filter(key: str, value: str) -> str:
    return json.dumps([key, value])
