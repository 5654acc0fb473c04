"""Small code bases for the tests of the code room."""

from pathlib import Path

from carrel.code.file_access import DenyList, Refusal
from carrel.code.reader import CodeReader


def tree(root: Path, files: dict[str, str] | str) -> Path:
    """Write files; of a string each word is an empty file."""
    for path, text in (files if isinstance(files, dict) else dict.fromkeys(files.split(), "")).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def imports_of(root: Path, path: str, source_roots: tuple[str, ...] = ()) -> dict[str, str]:
    """The dependencies of a file, each with its type, in the order of the answer."""
    found = CodeReader(root, DenyList(), source_roots).read_now(path, with_dependencies=True)
    assert not isinstance(found, Refusal), found
    assert not found.warnings
    paths = [each.path for each in found.dependencies]
    assert paths == sorted(set(paths))
    return {each.path: each.kind for each in found.dependencies}
