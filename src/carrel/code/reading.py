"""Reading a file of the code base, with the files that it imports."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from carrel.code.decoding import NOT_TEXT, Decoded, decoded
from carrel.code.denied import Denied
from carrel.code.dependencies.files import Files
from carrel.code.dependencies.imports import Kind
from carrel.code.dependencies.resolving import resolved
from carrel.code.dependencies.scanning import Scanner
from carrel.code.languages import language_of
from carrel.code.modules import Modules
from carrel.code.opening import TOO_LARGE, Opened, Opening, Refusal
from carrel.code.roles import role_of

NOT_PARSED = "Failed to parse imports"
_MOST_CONTENTS = 50
_MOST_BYTES = 1024 * 1024
_MOST_LISTED = 2000


class CodeReader:
    """Reads the files of a root. `source_roots` are folders, from the root, that imports and modules start from."""

    def __init__(self, root: Path, denied: Denied, source_roots: Sequence[str] = ()) -> None:
        self._opening = Opening(root, denied)
        self._source_roots = tuple(source_roots)
        self._modules = Modules(self._opening.root, denied, source_roots)
        self._scanner = Scanner()

    async def read(self, path: str, *, include_deps: bool, max_depth: int) -> dict[str, Any] | Refusal:
        """The contract's result; `include_deps` and a `max_depth` of 1 bring the files that it imports."""
        return await asyncio.to_thread(self.read_now, path, with_dependencies=include_deps and max_depth >= 1)

    def read_now(self, path: str, *, with_dependencies: bool) -> dict[str, Any] | Refusal:
        """The same, on the caller's thread."""
        opened = self._opening.open(path)
        if isinstance(opened, Refusal):
            return opened
        text = decoded(opened.content)
        if not isinstance(text, Decoded):
            return Refusal(NOT_TEXT, path, text.kind)
        result: dict[str, Any] = {
            "file": {"path": opened.path, "content": text.text, **_facts(opened, text)},
            "dependencies": [],
            "metadata": {
                "module": self._modules.module_of(opened.path),
                "role": role_of(opened.path, text.text),
                "lastModified": _timestamp(opened.stat.st_mtime_ns),
            },
        }
        return self._with_dependencies(result, path, opened, text) if with_dependencies else result

    def text(self, path: str) -> str | None:
        """The text of a file that may be read; None of any other."""
        opened = self._opening.open(path)
        text = decoded(opened.content) if isinstance(opened, Opened) else None
        return text.text if isinstance(text, Decoded) else None

    def module_of(self, path: str) -> str | None:
        return self._modules.module_of(path)

    def _with_dependencies(
        self, result: dict[str, Any], path: str, opened: Opened, text: Decoded
    ) -> dict[str, Any] | Refusal:
        language = language_of(opened.real, text.text)
        found = self._scanner.scan(language, text.text)
        if found.error_line is not None:
            return Refusal(NOT_PARSED, path, f"Syntax error at line {found.error_line}")
        warnings = [{"line": flaw.line, "message": flaw.message} for flaw in found.flaws]
        files = Files(self._opening, self._source_roots)
        targets, is_late = resolved(files, language, opened.real, found.imports)
        if is_late:
            warnings.append({"line": 1, "message": "Not all imports were followed in time"})
        targets.pop(opened.path, None)
        listing = _Listing(self._opening)
        for target, kind in targets.items():
            listing.add(target, kind)
        result["dependencies"] = listing.entries
        if warnings:
            result["warnings"] = warnings
        if listing.is_truncated or is_late:
            result["truncated"] = True
        return result


class _Listing:
    """The files that are imported, with their content as long as there is room."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self.entries: list[dict[str, Any]] = []
        self.is_truncated = False
        self._bytes = 0

    def add(self, path: str, kind: Kind) -> None:
        """What may not be read is left out; what cannot be shown is listed without content."""
        if len(self.entries) >= _MOST_LISTED:
            self.is_truncated = True
            return
        opened = self._opening.open(path)
        entry: dict[str, Any] = {"path": path, "type": kind, "level": 1}
        if isinstance(opened, Refusal):
            if opened.error == TOO_LARGE:
                self.is_truncated = True
                self.entries.append(entry | {"size": opened.size})
            return
        text = decoded(opened.content)
        if isinstance(text, Decoded):
            self.is_truncated = (
                self.is_truncated
                or len(self.entries) >= _MOST_CONTENTS
                or self._bytes + len(opened.content) > _MOST_BYTES
            )
            if not self.is_truncated:
                self._bytes += len(opened.content)
                entry["content"] = text.text
            entry |= _facts(opened, text)
        else:
            entry["size"] = len(opened.content)
        self.entries.append(entry)


def _facts(opened: Opened, text: Decoded) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "size": len(opened.content),
        "lines": text.text.count("\n") + (text.text[-1:] not in ("", "\n")),
        "language": language_of(opened.path, text.text),
    }
    if text.encoding is not None:
        facts["encoding"] = text.encoding
    return facts


def _timestamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
