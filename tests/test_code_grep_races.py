"""grep_codebase while names are swapped for links that lead out of the root."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from carrel.code.file_access import DenyList
from carrel.code.grep.searcher import CodeSearcher, GrepResult
from tests.code_searches import answer, write_paths

FOLDERS, FILES = 20, 5
SECONDS = 4
SWAPPER = """
import os, sys
root, outside, folders = sys.argv[1:]
os.chdir(root)
names = [f"d{number:02}" for number in range(int(folders))]
print("ready", flush=True)
while True:
    for name in names:
        os.rename(name, f".kept-{name}"); os.symlink(outside, name)
    for name in names:
        os.unlink(name); os.rename(f".kept-{name}", name)
"""


@pytest.mark.rule("code.grep.race")
def test_nothing_outside_is_counted_while_folders_are_swapped_for_links(tmp_path: Path) -> None:
    inside = {f"d{folder:02}/f{number}": "plain\n" for folder in range(FOLDERS) for number in range(FILES)}
    root = write_paths(tmp_path / "root", inside)
    outside = write_paths(tmp_path / "outside", {f"f{number}": "needle\n" for number in range(2 * FILES)})
    searcher = CodeSearcher(root, DenyList(), seconds=60)
    seen: set[int] = set()
    command = [sys.executable, "-c", SWAPPER, str(root), str(outside), str(FOLDERS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == b"ready\n"
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                found = asyncio.run(searcher.search("needle", file_pattern=None, case_sensitive=True, limit=100))
                assert isinstance(found, GrepResult)
                assert (found.total, list(found.matches)) == (0, [])
                assert found.files <= len(inside)
                seen.add(found.files)
            assert swapper.poll() is None
        finally:
            swapper.kill()
    assert max(seen) > 0


@pytest.mark.anyio
@pytest.mark.rule("code.grep.race")
async def test_a_search_among_files_that_have_just_changed_counts_what_is_there(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {f"d/{number:03}": "needle\nplain\nneedle\n" for number in range(450)}
    write_paths(
        tmp_path, {**files, "d/none": "plain\n", "d/binary": b"needle\n\0", "utf-16": "needle".encode("utf-16")}
    )
    result = await answer(tmp_path, "needle", limit=3)
    assert (result["totalMatches"], result["filesSearched"]) == (901, 452)
    assert [(match["file"], match["line"]) for match in result["matches"]] == [("d/000", 1), ("d/000", 3), ("d/001", 1)]
