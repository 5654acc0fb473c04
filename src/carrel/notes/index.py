"""The index of a vault: its graph in memory, kept true to the files while they change.

At start, the cache of the last run is loaded, the sizes and times of all files are compared with it, and the notes that
differ are read. Then the watcher reports changes. One thread owns the cache and scans the disk, a few more parse large
notes, and only the event loop changes the graph, so that reads of the graph need no lock. Whoever awaits between
reading a file and applying it to the graph holds `Index.write_lock`, the last in the order of
`carrel.notes.vault_lock`.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from carrel.concurrency import Threads
from carrel.notes.graph import Graph, Node
from carrel.notes.index_cache import OptionalCache, gc_paused
from carrel.notes.note_reader import (
    Difference,
    Entry,
    chunks,
    compare,
    entry_of,
    entry_or_parsed,
    hash_of,
    read_all,
    reread,
    unparsed_entry,
)
from carrel.notes.note_store import Listener
from carrel.notes.parser import facts_of
from carrel.notes.vault import NoteTooLarge, Stamp, Vault
from carrel.notes.watcher import Changes, Watcher

T = TypeVar("T")

log = logging.getLogger("carrel.notes")

READY_TIMEOUT_SECONDS = 1.0
"""How long a read waits for the first read of the vault; then the answer is what there is so far."""
STARTUP_TIMEOUT_SECONDS = 10.0
"""How long after the start reads wait at all."""
CACHED_TIMEOUT_SECONDS = 0.3
"""How long after the cache was loaded reads wait: little of it can be outdated."""
READ_BATCH_SIZE = 64
"""Notes that are read before the graph is updated and other tasks run."""
BULK_THRESHOLD = 1000
"""Changed notes from which on rebuilding the graph is faster than updating it."""
MAX_PENDING_WARNINGS = 20
SMALL_NOTE_BYTES = 16 * 1024
"""Size up to which a note is read and parsed on the event loop: usually faster than changing threads, and at worst a
few milliseconds."""
READER_THREADS = 2
"""Threads that parse larger notes. More would only compete with the event loop for the interpreter lock."""


class Progress(NamedTuple):
    """How many notes of the first read are done."""

    done: int
    total: int


class _Applied(NamedTuple):
    """The outcome of one change to the graph, for the listeners."""

    changed: list[str]
    gone: list[str]
    has_others: bool
    """Whether notes came or went."""


class Index:
    """The graph of a vault, and the entry that each of its nodes was made from."""

    def __init__(self, vault: Vault, cache: Path) -> None:
        self.vault = vault
        self.graph = Graph()
        self.write_lock = asyncio.Lock()
        """Held from reading or writing a file until the graph has been changed accordingly."""
        self.progress = Progress(0, 0)
        self.listeners: list[Listener] = []
        self._entries: dict[str, Entry] = {}
        self._cache = OptionalCache(cache)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="carrel-notes")
        self._readers = Threads("carrel-notes-read", READER_THREADS)
        self._ready = asyncio.Event()
        self._wait_deadline = time.monotonic() + STARTUP_TIMEOUT_SECONDS
        self._failure: BaseException | None = None
        self._warnings: deque[str] = deque(maxlen=MAX_PENDING_WARNINGS)
        self._changes: asyncio.Queue[Changes] = asyncio.Queue()
        self._unsaved: dict[str, Entry | None] = {}
        self._save_task: asyncio.Task[None] | None = None
        self._is_graph_frozen = False
        self._watcher: Watcher | None = None
        self._run_task: asyncio.Task[None] | None = None

    # --- from start to end

    def start(self, *, watch: bool = True) -> None:
        """Start to read the vault and, with `watch`, to follow its changes."""
        if watch:
            loop = asyncio.get_running_loop()
            self._watcher = Watcher(self.vault, lambda changes: _post(loop, self._changes, changes))
        self._run_task = asyncio.create_task(self._run())
        self._run_task.add_done_callback(self._on_run_done)

    async def close(self) -> None:
        """Stop watching, save what has changed, and end the threads."""
        if self._watcher:
            self._watcher.stop()
        if self._run_task:
            self._run_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._run_task
        if self._save_task:
            await self._save_task
        # The last save has run, and nothing else uses the thread: SQLite may close on it.
        await asyncio.get_running_loop().run_in_executor(self._thread, self._cache.close)
        self._thread.shutdown(wait=False)
        await asyncio.to_thread(self._readers.close)
        if self._watcher and self._watcher.is_alive():
            await asyncio.to_thread(self._watcher.join)

    @property
    def is_ready(self) -> bool:
        """Whether every note has been read once."""
        return self._ready.is_set()

    async def wait_until_ready(self, *, no_timeout: bool = False) -> None:
        """Wait until every note has been read; without `no_timeout`, for at most `READY_TIMEOUT_SECONDS`. Raise what
        has ended the index, if anything has."""
        if not self._ready.is_set():
            await self.wait_for_ready(
                None if no_timeout else min(READY_TIMEOUT_SECONDS, self._wait_deadline - time.monotonic())
            )
        if self._failure is not None:
            raise self._failure

    async def wait_for_ready(self, seconds: float | None) -> None:
        """Wait until every note has been read, or until the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ready.wait()

    async def _run(self) -> None:
        """Load, compare, watch: the index's task from start to end."""
        await self.on_thread(self._cache.open)
        has_changed_much = False
        if not await self._load_from_cache():
            has_changed_much = (
                await self._update_from_disk()
            )  # before watching, which is told of every file that is read
        if self._watcher:
            self._watcher.start()
            # Between the first comparison and the first event, changes would be lost: compare once more below.
            await asyncio.to_thread(self._watcher.wait_until_watching)
        if self._watcher or not has_changed_much:
            has_changed_much |= await self._update_from_disk()
        self._ready.set()
        if has_changed_much:
            await self._pack()
        while True:
            changes = await self._changes.get()
            # Merge what has piled up: a burst then costs one pass over the folders instead of one for each event.
            while not self._changes.empty():
                more = self._changes.get_nowait()
                changes = Changes(changes.notes | more.notes, changes.folders | more.folders)
            await self._apply_changes(changes)

    def _on_run_done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the vault is not followed any more", exc_info=error)
            self._failure = error
            self._ready.set()

    async def _load_from_cache(self) -> bool:
        """Install what the last run has saved; return whether there was anything."""
        with gc_paused():
            cached = await self.on_thread(self._cache.load)
        if cached[0]:
            self._install(cached)
            self._wait_deadline = time.monotonic() + CACHED_TIMEOUT_SECONDS
        return bool(cached[0])

    async def _update_from_disk(self) -> bool:
        """Read the notes that differ from the index; return whether they were many."""
        suspects, gone = await self.on_thread(lambda: compare(self.vault, self._entries))
        self.progress = Progress(0, len(suspects))
        if len(suspects) >= BULK_THRESHOLD:
            with gc_paused():
                await self._read_in_bulk(suspects)
        else:
            await self._reread_notes(suspects)
        await self._remove_missing(gone)
        self.progress = Progress(len(suspects), len(suspects))
        return len(suspects) >= BULK_THRESHOLD

    async def _read_in_bulk(self, suspects: Sequence[str]) -> None:
        """Read many notes, and build the graph from them all at once."""
        problems: list[str] = []
        found = read_all(self.vault, suspects, problems)
        done, published, started = 0, BULK_THRESHOLD, time.monotonic()
        while batch := await self.on_thread(lambda: list(islice(found, READ_BATCH_SIZE))):
            self._entries.update((entry.id, entry) for entry in batch)
            done += len(batch)
            self.progress = Progress(done, len(suspects))
            # Publish early results of a long first read, each time with four times as many notes: rebuilding costs as
            # much as all notes so far, so doing it more often would be quadratic.
            is_far = done < len(suspects) // 2 and time.monotonic() > started + READY_TIMEOUT_SECONDS
            if is_far and done >= 4 * published:
                await self._rebuild()
                published = done
        await self._rebuild()
        self._warnings.extend(problems)
        self._notify([entry for entry in suspects if entry in self._entries], [], True)

    async def _rebuild(self) -> None:
        """Build a graph of all entries on the thread, then apply what has changed meanwhile."""
        async with self.write_lock:
            entries = dict(self._entries)
            graph = await self.on_thread(lambda: _graph_of(entries))
            # The graph was built from a copy, while calls went on to read notes on the event loop.
            for note_id in [each for each in self._entries if self._entries[each] is not entries.get(each)]:
                graph.put(note_id, self._entries[note_id].facts)
            for note_id in [each for each in entries if each not in self._entries]:
                graph.remove(note_id)
            self.graph = graph

    def _install(self, cached: "tuple[dict[str, Entry], Graph]") -> None:
        """Use the cached entries and graph; entries that calls have read since the start win."""
        entries, graph = cached
        for note_id, entry in self._entries.items():  # read since, because somebody asked
            graph.put(note_id, entry.facts)
        self._entries = entries | self._entries
        self.graph = graph

    # --- changes

    async def _apply_changes(self, changes: Changes) -> None:
        """Read again what the watcher has reported."""
        notes = set(changes.notes)
        for folder in {""} if "" in changes.folders else changes.folders:
            suspects, gone = await self.on_thread(lambda below=folder: compare(self.vault, self._entries, below))
            notes.update(suspects, gone)
        await self._reread_notes(sorted(notes), warn=True)

    async def _reread_notes(self, ids: Sequence[str], *, warn: bool = False) -> None:
        """Read these notes in batches, and apply what has changed."""
        for start in range(0, len(ids), READ_BATCH_SIZE):
            batch = ids[start : start + READ_BATCH_SIZE]
            async with self.write_lock:
                found = await self.on_thread(lambda some=batch: reread(self.vault, some, self._entries))
                await self.apply_in_chunks(found, warn=warn)

    async def _remove_missing(self, ids: Sequence[str]) -> None:
        """Remove the notes whose files are still missing."""
        async with self.write_lock:
            # A file that was missing a moment ago may have come back; a rename in an editor does that.
            still_gone = [note_id for note_id in ids if self.vault.stamp(note_id) is None]
            self.apply(Difference([], still_gone, []))

    async def apply_in_chunks(self, difference: Difference, *, warn: bool = False) -> None:
        """Apply a difference like `apply`, and let other tasks run in between. Listeners are called once, at the end.

        What is gone goes with the first chunk, so that a renamed note can be found all the time.
        """
        first, *others = list(chunks(difference.read)) or [[]]
        applied = [self._apply_to_graph(Difference(first, difference.gone, difference.problems), warn=warn)]
        try:
            for some in others:
                # The write lock stays held, but calls that only read the graph run here.
                await asyncio.sleep(0)
                applied.append(self._apply_to_graph(Difference(some, [], []), warn=warn))
        finally:
            changed = [note_id for each in applied for note_id in each.changed]
            self._notify(changed, applied[0].gone, any(each.has_others for each in applied))

    def apply(self, difference: Difference, *, warn: bool = False) -> None:
        """Apply a difference to the graph; with `warn`, put its problems into the next answer's warnings."""
        self._notify(*self._apply_to_graph(difference, warn=warn))

    def _apply_to_graph(self, difference: Difference, *, warn: bool) -> "_Applied":
        """Change entries and graph, and schedule a save; listeners are left to the caller."""
        changed: list[str] = []
        has_others = False
        gone = [note_id for note_id in difference.gone if self._entries.pop(note_id, None)]
        for note_id in gone:
            self.graph.remove(note_id)
            self._unsaved[note_id] = None
        for entry in difference.read:
            before = self._entries.get(entry.id)
            has_others |= before is None
            self._entries[entry.id] = self._unsaved[entry.id] = entry
            if before is None or before.hash != entry.hash:
                node = self.graph.put(entry.id, entry.facts)
                changed.append(entry.id)
                if warn:
                    self._warn_of(node)
        self._warnings.extend(difference.problems)
        if difference.read or gone:
            self._save_soon()
        return _Applied(changed, gone, has_others or bool(gone))

    def refresh(self, note_id: str, content: bytes, stamp: Stamp) -> Node:
        """Return the node of a note that was just read, after updating it if the content is new."""
        entry = self._entries.get(note_id)
        if entry is None or entry.hash != hash_of(content):
            if self._is_graph_frozen:
                self._changes.put_nowait(Changes({note_id}, set()))
                return self.graph.detached(note_id, facts_of(note_id, content))
            self.apply(Difference([entry_of(note_id, content, stamp)], [], []))
        node = self.graph.get(note_id)
        return node if node is not None else self.graph.put(note_id, self._entries[note_id].facts)

    async def refresh_off_loop(self, note_id: str, content: bytes, stamp: Stamp) -> Node:
        """Return the node as `refresh` does, but parse a large note on a reader thread."""
        if len(content) <= SMALL_NOTE_BYTES:
            return self.refresh(note_id, content, stamp)
        before = self._entries.get(note_id)
        entry = await self.on_reader_thread(lambda: entry_or_parsed(before, note_id, content, stamp))
        # Another call may have applied newer content while this thread was parsing; that one wins.
        if entry is not before and self._entries.get(note_id) is before:
            if self._is_graph_frozen:
                self._changes.put_nowait(Changes({note_id}, set()))
                return self.graph.detached(note_id, entry.facts)
            self.apply(Difference([entry], [], []))
        node = self.graph.get(note_id)
        return node if node is not None else self.graph.put(note_id, self._entries[note_id].facts)

    def refresh_too_large(self, error: NoteTooLarge) -> Node:
        """Return the node of a note that is too large to be read."""
        entry = self._entries.get(error.note_id)
        if (entry is None or entry.stamp != error.stamp) and not self._is_graph_frozen:
            self.apply(Difference([unparsed_entry(error)], [], []))
        node = self.graph.get(error.note_id)
        return node or self.graph.detached(error.note_id, unparsed_entry(error).facts)

    async def on_reader_thread(self, job: Callable[[], T]) -> T:
        """Run a job that reads or parses a note on a reader thread; a canceled call does not wait for it."""
        return await self._readers.begin(job)

    def remove(self, note_id: str) -> None:
        """Remove a note whose file has turned out to be missing."""
        if self._is_graph_frozen:
            self._changes.put_nowait(Changes({note_id}, set()))
            return
        self.apply(Difference([], [note_id], []))

    async def find(self, note_id: str) -> Node | None:
        """Return the node that an ID means; a note that is not indexed yet is read from disk."""
        node = self.graph.find(note_id)
        if node is None and (real := self.vault.id_on_disk(note_id)) is not None:
            try:
                if found := await self.on_reader_thread(lambda: self.vault.read(real)):
                    node = await self.refresh_off_loop(real, *found)
            except NoteTooLarge as error:
                node = self.refresh_too_large(error)
        return node

    def entry(self, note_id: str) -> Entry | None:
        """Return what is known of a note's file."""
        return self._entries.get(note_id)

    def versions(self) -> list[tuple[str, str]]:
        """List every note's ID with its content hash, for the search index to compare."""
        return [(note_id, entry.hash.hex()) for note_id, entry in self._entries.items()]

    async def rescan(self) -> None:
        """Apply whatever has changed in the vault up to now, without waiting for the watcher."""
        await self._apply_changes(Changes(set(), {""}))

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call, each once, and clear them."""
        found = list(dict.fromkeys(self._warnings))
        self._warnings.clear()
        if not self.is_ready:
            done, total = self.progress
            found.insert(0, f"The vault is still being indexed: {done} of {total} notes so far")
        return found

    def _warn_of(self, node: Node) -> None:
        self._warnings.extend(f"{node.id}: {warning}" for warning in node.facts.warnings)
        if node.unresolved:
            self._warnings.append(f"{node.id}: has links that lead to no note")

    def _notify(self, changed: Sequence[str], gone: Sequence[str], has_others: bool) -> None:
        for listener in self.listeners if changed or gone else ():
            listener(changed, gone, has_others)

    # --- the cache, on its thread

    async def on_thread(self, job: Callable[[], T]) -> T:
        """Run a job on the index's own thread, one after the other."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    def _save_soon(self) -> None:
        if self._save_task is None or self._save_task.done():
            self._save_task = asyncio.create_task(self._save())

    async def _save(self) -> None:
        """Save changed entries until there are none; pack the cache when its rows have become many."""
        while self._unsaved:
            unsaved, self._unsaved = self._unsaved, {}
            put = [entry for entry in unsaved.values() if entry is not None]
            gone = [note_id for note_id, entry in unsaved.items() if entry is None]
            rows = await self.on_thread(lambda some=put, others=gone: self._cache.change(some, others))
            if rows > max(BULK_THRESHOLD, len(self._entries) // 20):
                await self._pack()

    async def _pack(self) -> None:
        """Rewrite the cache as one pack of columns."""
        async with self.write_lock:
            graph, entries = self.graph, dict(self._entries)
            if len(graph) == len(entries):
                # `pack` reads the graph on the thread without a copy. Meanwhile calls get detached nodes, and their
                # changes go through the queue, to be applied afterwards.
                self._is_graph_frozen = True
                try:
                    await self.on_thread(lambda: self._cache.pack(entries, graph))
                finally:
                    self._is_graph_frozen = False


def _graph_of(entries: dict[str, Entry]) -> Graph:
    """Build the graph of these entries."""
    graph = Graph()
    graph.load((entry.id, entry.facts) for entry in entries.values())
    return graph


def _post(loop: asyncio.AbstractEventLoop, queue: "asyncio.Queue[Changes]", changes: Changes) -> None:
    """Put changes into the queue of an event loop from the watcher's thread."""
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(queue.put_nowait, changes)
