"""MkDocs hook: adds pages from outside docs/ and rewrites their links, so that the same links also work on GitHub."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/RESULTS.md": "measurements.md",
    "model/README.md": "model.md",
}
"""Project files outside docs/ and their paths on the site."""
SOURCES = "source"
"""The folder on the site for every other file that a page links to."""
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages from outside docs/, and each file that a page links to."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text(encoding="utf-8")))
    for file in list(files.documentation_pages()):
        folder = posixpath.dirname(_origin(file))
        for _, link, _ in LINK.findall(file.content_string):
            path = posixpath.normpath(posixpath.join(folder, link))
            place = f"{SOURCES}/{path}"
            if _is_elsewhere(path) and (ROOT / path).is_file() and files.get_file_from_path(place) is None:
                files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Rewrites links to the paths on the site. Links to folders become plain text."""
    origin, here = _origin(page.file), posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        if path in PAGES:
            place = PAGES[path]
        elif path.startswith("docs/"):
            place = path.removeprefix("docs/")
        elif (ROOT / path).is_dir():
            return text
        else:
            place = f"{SOURCES}/{path}"
        return f"[{text}]({posixpath.relpath(place, here or '.')}{anchor or ''})"

    return LINK.sub(moved, markdown)


def _origin(file: File) -> str:
    """Returns the path of a page in the project."""
    elsewhere = {target: source for source, target in PAGES.items()}
    return elsewhere.get(file.src_uri, f"docs/{file.src_uri}")


def _is_elsewhere(path: str) -> bool:
    return path not in PAGES and not path.startswith(("docs/", ".."))
