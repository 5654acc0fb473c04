"""A turn that is taken on one thread and left on another, also where whoever waited for it has gone meanwhile."""

from contextlib import ExitStack
from threading import Lock

from carrel.search.store import Store


class HeldTurn:
    def __init__(self, work: str) -> None:
        self._work = work
        self._stack = ExitStack()
        self._lock = Lock()
        self._is_over = False

    def take(self, store: Store) -> bool:
        """Whether it is ours."""
        with self._lock:
            if self._is_over:
                return False
            is_ours = self._stack.enter_context(store.turn(self._work))
            if not is_ours:
                self._stack.close()
            return is_ours

    def leave(self, _store: Store) -> None:
        with self._lock:
            self._is_over = True
            self._stack.close()
