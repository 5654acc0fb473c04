"""Python's garbage collection, while very many objects are made that stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def nothing_is_garbage() -> Generator[None]:
    """Whatever is made meanwhile is never looked through for garbage: it is not, and there are millions of it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
