"""Reading a file of the code base, with the files that it imports."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from carrel.code.dependencies.lexer import Kind, ScanWarning
from carrel.code.dependencies.resolver import resolve_imports
from carrel.code.dependencies.root_files import DeadlineExceeded, RootFiles, ScanJob
from carrel.code.dependencies.scanner import Scanner
from carrel.code.file_access import DenyList, FileOpener, OpenedFile, Reason, Refusal
from carrel.code.languages import language_of
from carrel.code.metadata import Modules, Role, role_of
from carrel.code.text_decoder import DecodedText, decode_text
from carrel.concurrency import Threads

_MAX_CONTENTS = 50
_MAX_CONTENT_BYTES = 1024 * 1024
_MAX_DEPENDENCIES = 2000
_MAX_CONCURRENT_READS = 4


@dataclass(frozen=True, slots=True)
class Text:
    """What a file holds."""

    content: str
    lines: int
    language: str
    encoding: str | None
    """None for UTF-8."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A file that is imported."""

    path: str
    kind: Kind
    size: int
    text: Text | None = None
    """None where it is too large, or not text."""
    is_shown: bool = False
    """Whether there is room for its content."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file as it was read, with what it imports where that was asked for."""

    path: str
    size: int
    text: Text
    module: str | None
    role: Role
    modified: int
    """Nanoseconds since 1970, UTC."""
    dependencies: Sequence[Dependency] = ()
    warnings: Sequence[ScanWarning] = ()
    is_truncated: bool = False


class CodeReader:
    """Reads the files of a root. `source_roots` are folders, from the root, that imports and modules start from."""

    def __init__(self, root: Path, denied: DenyList, source_roots: Sequence[str] = ()) -> None:
        self._opener = FileOpener(root, denied)
        self._source_roots = tuple(source_roots)
        self._modules = Modules(self._opener.root, denied, source_roots)
        self._scanner = Scanner()
        self._threads = Threads("carrel-read", _MAX_CONCURRENT_READS)
        self._import_threads = Threads("carrel-imports", _MAX_CONCURRENT_READS)

    def with_deny_list(self, denied: DenyList) -> "CodeReader":
        """The same for callers who are denied other files."""
        reader = copy.copy(self)
        reader._opener = FileOpener(Path(self._opener.root), denied)
        return reader

    async def read(self, path: str, *, include_deps: bool, max_depth: int) -> ReadFile | Refusal:
        """`include_deps` and a `max_depth` of 1 bring the files that it imports."""
        if not include_deps or max_depth < 1:
            return await self._threads.begin(lambda: self.read_now(path, with_dependencies=False))
        job = ScanJob()
        try:
            # On threads of their own: files that are read alone need not wait for those that take long.
            return await self._import_threads.begin(lambda: self.read_now(path, with_dependencies=True, job=job))
        finally:
            job.stop()

    def read_now(self, path: str, *, with_dependencies: bool, job: ScanJob | None = None) -> ReadFile | Refusal:
        """The same, on the caller's thread."""
        opened = self._opener.open(path)
        if isinstance(opened, Refusal):
            return opened
        text = decode_text(opened.content)
        if not isinstance(text, DecodedText):
            return Refusal(Reason.NOT_TEXT, path, text.kind)
        file = ReadFile(
            opened.path,
            len(opened.content),
            _text(opened, text),
            self._modules.module_of(opened.path),
            role_of(opened.path, text.text),
            opened.stat.st_mtime_ns,
        )
        return self._with_dependencies(file, path, opened.real, job or ScanJob()) if with_dependencies else file

    def text(self, path: str) -> str | None:
        """The text of a file that may be read; None of any other."""
        opened = self._opener.open(path)
        text = decode_text(opened.content) if isinstance(opened, OpenedFile) else None
        return text.text if isinstance(text, DecodedText) else None

    def module_of(self, path: str) -> str | None:
        return self._modules.module_of(path)

    def _with_dependencies(self, file: ReadFile, path: str, real: str, job: ScanJob) -> ReadFile | Refusal:
        language = language_of(real, file.text.content)
        found = self._scanner.scan(language, file.text.content, job)
        if found.error_line is not None:
            return Refusal(Reason.NOT_PARSED, path, line=found.error_line)
        targets, timed_out = resolve_imports(
            RootFiles(self._opener, self._source_roots, job), language, real, found.imports
        )
        targets.pop(file.path, None)
        listing = _DependencyList(self._opener)
        try:
            for target, kind in targets.items():
                job.check()
                listing.add(target, kind)
        except DeadlineExceeded:
            timed_out = True
        timeout_warnings = [ScanWarning(1, "Not all imports were followed in time")] if timed_out else []
        return replace(
            file,
            dependencies=listing.entries,
            warnings=[*found.warnings, *timeout_warnings],
            is_truncated=listing.is_truncated or timed_out,
        )


@dataclass(slots=True)
class _DependencyList:
    """The files that are imported, with their content as long as there is room."""

    opener: FileOpener
    entries: list[Dependency] = field(default_factory=list[Dependency])
    is_truncated: bool = False
    bytes: int = 0

    def add(self, path: str, kind: Kind) -> None:
        """What may not be read is left out; what cannot be shown is listed without content."""
        if len(self.entries) >= _MAX_DEPENDENCIES:
            self.is_truncated = True
            return
        opened = self.opener.open(path)
        if isinstance(opened, Refusal):
            if opened.reason is Reason.TOO_LARGE:
                self.is_truncated = True
                self.entries.append(Dependency(path, kind, opened.size))
            return
        size, text = len(opened.content), decode_text(opened.content)
        if not isinstance(text, DecodedText):
            self.entries.append(Dependency(path, kind, size))
            return
        if len(self.entries) >= _MAX_CONTENTS or self.bytes + size > _MAX_CONTENT_BYTES:
            self.is_truncated = True
        if not self.is_truncated:
            self.bytes += size
        self.entries.append(Dependency(path, kind, size, _text(opened, text), is_shown=not self.is_truncated))


def _text(opened: OpenedFile, text: DecodedText) -> Text:
    lines = text.text.count("\n") + (text.text[-1:] not in ("", "\n"))
    return Text(text.text, lines, language_of(opened.path, text.text), text.encoding)
