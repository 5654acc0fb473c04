"""The documentation's examples run, and its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wire import environment

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_as_it_stands(example: str, tmp_path: Path) -> None:
    words = [sys.executable, "-W", "error", "-c", example]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_commands_that_the_readme_shows_are_understood(tmp_path: Path) -> None:
    """Each `carrel ...` line parses: click refuses unknown commands and options before anything runs."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^carrel ([^#\n]+)", text, re.MULTILINE)
    assert len(shown) >= 5
    for line in shown:
        words = [sys.executable, "-m", "carrel", *line.split(), "--help"]
        assert subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, check=False).returncode == 0
