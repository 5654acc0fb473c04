"""Searches with the real `rg` over real files, and what they answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from carrel.code.file_access import DenyList
from carrel.code.grep.searcher import CodeSearcher, GrepResult
from carrel.toolsets.code import results

MARK = "... [truncated]"
ENDLESS = r"[a-h].{300}[a-d].{300}\d"


def write(root: Path, **files: str | bytes) -> Path:
    """`a__b_ts` is `a/b.ts`."""
    return write_paths(root, {name.replace("__", "/").replace("_", "."): text for name, text in files.items()})


def write_paths(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


async def answer(root: Path, pattern: str, **more: Any) -> Any:
    """As the contract tells it."""
    options: dict[str, Any] = {"file_pattern": None, "case_sensitive": False, "limit": 50} | more
    denied = options.pop("denied", DenyList())
    seconds = options.pop("seconds", 60.0)
    result = await CodeSearcher(root, denied, seconds=seconds).search(pattern, **options)
    return results.grep(pattern, result) if isinstance(result, GrepResult) else results.not_searched(pattern, result)


async def files(root: Path, pattern: str = "needle", **more: Any) -> list[str]:
    result = await answer(root, pattern, **more)
    assert result["filesSearched"] >= len(result["matches"])
    return [match["file"] for match in result["matches"]]
