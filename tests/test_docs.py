"""The documentation's Python runs, its links lead somewhere, and its site is built and complete in itself."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest

from tests.wire import environment

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
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


def test_each_claim_of_the_threat_model_names_tests_that_there_are() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    rows = [line for part in text.split("| Shown by |")[1:] for line in part.partition("\n\n")[0].splitlines()[2:]]
    assert len(rows) >= 30
    shown = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
    assert [row for row in rows if not shown.search(row)] == []
    for path, name in set(shown.findall(text)):
        found = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
        assert re.search(rf"def {name}\(", found), f"{path}::{name}"


def test_the_architecture_names_packages_and_modules_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "carrel"
    for row in re.findall(r"^\| (`\w+/`.*)", text, re.MULTILINE):
        packages, _, modules = re.split(r" \| ", row.removesuffix(" |"))
        folders = [source / name for name in re.findall(r"`([\w/]+)/`", packages)]
        assert [folder for folder in folders if not folder.is_dir()] == []
        for module in re.findall(r"`([\w/]+\.py)`", modules):
            assert any((folder / module).is_file() for folder in [*folders, source]), module
    for path in re.findall(r"`((?:[a-z]\w*/)+\w+\.py)`", text.partition("## The life of a call")[2]):
        assert (source / path).is_file() or (ROOT / path).is_file(), path


# --- the site


class Addresses(HTMLParser):
    """What a page makes a browser load, and how it is written."""

    LOADING: ClassVar = {
        "script": "src",
        "link": "href",
        "img": "src",
        "iframe": "src",
        "source": "src",
        "object": "data",
    }

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.classes: set[str] = set()
        self.words_like_marks: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.classes.update((given.get("class") or "").split())
        if tag in self.LOADING and given.get("rel") not in ("prev", "next", "canonical"):
            self.found.append(given.get(self.LOADING[tag]) or "")

    def handle_data(self, data: str) -> None:
        if re.search(r"^(- |\* |\d+\. |\| )", data.lstrip("\n"), re.MULTILINE) and self.get_starttag_text() == "<p>":
            self.words_like_marks.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `python3 dev.py site` builds it: what MkDocs warns of is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = environment(NO_MKDOCS_2_WARNING="1")
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        read = Addresses()
        read.feed(page.read_text(encoding="utf-8"))
        assert [each for each in read.found if re.match(r"([a-z]+:)?//", each)] == [], page
        places = [(site / each[1:]) if each[:1] == "/" else (page.parent / each) for each in read.found if each]
        assert [place for place in places if not place.exists()] == [], page
        assert "mermaid" not in read.classes, "the theme would fetch it"
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", sheet.read_text(encoding="utf-8")) == []


def test_lists_and_tables_of_the_site_are_read_as_such(site: Path) -> None:
    """Its markdown is not GitHub's: there a list needs an empty line before it."""
    for page in site.rglob("*.html"):
        read = Addresses()
        read.feed(page.read_text(encoding="utf-8"))
        assert read.words_like_marks == [], page


def test_every_page_is_on_the_site_and_can_be_searched(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages |= {Path("changelog.html"), Path("measurements.html"), Path("contributing.html")}
    assert [str(page) for page in pages if not (site / page).is_file()] == []
    indexed = {
        entry["location"].split("#")[0]
        for entry in json.loads((site / "search/search_index.json").read_bytes())["docs"]
    }
    assert {str(page) for page in pages} - indexed == set()
