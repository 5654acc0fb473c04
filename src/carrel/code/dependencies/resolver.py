"""Which files of the root a scan's imports are."""

from collections.abc import Callable, Iterable, Iterator

from carrel.code.dependencies import cfamily, ecmascript_resolver, golang, java, php, python, ruby, rust
from carrel.code.dependencies.lexer import KINDS, Import, Kind
from carrel.code.dependencies.root_files import DeadlineExceeded, RootFiles

Resolve = Callable[[RootFiles, str, Iterable[Import]], Iterator[tuple[str, Import]]]

_RESOLVERS: dict[str, Resolve] = {
    "astro": ecmascript_resolver.resolve,
    "c": cfamily.resolve,
    "cpp": cfamily.resolve,
    "cuda": cfamily.resolve,
    "go": golang.resolve,
    "java": java.resolve,
    "javascript": ecmascript_resolver.resolve,
    "objective-c": cfamily.resolve,
    "objective-cpp": cfamily.resolve,
    "php": php.resolve,
    "python": python.resolve,
    "ruby": ruby.resolve,
    "rust": rust.resolve,
    "svelte": ecmascript_resolver.resolve,
    "typescript": ecmascript_resolver.resolve,
    "vue": ecmascript_resolver.resolve,
}


def resolve_imports(
    files: RootFiles, language: str, path: str, imports: Iterable[Import]
) -> tuple[dict[str, Kind], bool]:
    """Paths from the root in order, each with how it is imported, without the file itself; and whether time ran out."""
    found: dict[str, Kind] = {}
    timed_out = False
    if resolve := _RESOLVERS.get(language):
        try:
            for target, each in resolve(files, path, imports):
                if target != path and (target not in found or KINDS.index(each.kind) < KINDS.index(found[target])):
                    found[target] = each.kind
        except DeadlineExceeded:
            timed_out = True
    return dict(sorted(found.items())), timed_out
