"""Drafts: the text and the ID that a note gets by a write, planned before anything is written."""

import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from carrel.notes.frontmatter import Unreadable, read
from carrel.notes.frontmatter_edits import with_tags, with_title
from carrel.notes.note_names import SUFFIX, folder_of, name_from, name_of
from carrel.notes.note_store import Refusal
from carrel.notes.parser import decoded, encoded, parse
from carrel.notes.vault import ALWAYS_IGNORED

MAX_FOLDER_NAME_BYTES = 255
MAX_FOLDER_DEPTH = 64
"""Nested folders that `directory` may name."""


class Draft(NamedTuple):
    """The planned content and ID of a note."""

    id: str
    content: bytes
    original_frontmatter: str | None = None
    """The frontmatter before its tags were changed, if that change cannot be undone from the result alone."""

    @property
    def frontmatter(self) -> str:
        """The frontmatter of the draft."""
        text = decoded(self.content)
        return text[: read(text).body]


def draft_new(title: str, content: str, tags: Sequence[str], directory: str) -> Draft | Refusal:
    """Plan a new note."""
    if isinstance(folder := _folder(directory), Refusal):
        return folder
    if isinstance(name := _name(title), Refusal):
        return name
    try:
        text = with_tags(content, _normalized_tags(tags)) if tags else content
        if parse(text, name).title != title:
            text = with_title(text, title)
    except Unreadable as error:
        return Refusal("INVALID_PARAMS", f"content has frontmatter that cannot be read: {error}")
    return Draft(f"{folder}{name}{SUFFIX}", encoded(text))


def draft_change(
    note_id: str,
    before: bytes,
    *,
    title: str | None,
    content: str | None,
    tags: Sequence[str] | None,
    original_of: Callable[[str], str] = str,
) -> Draft | Refusal:
    """Plan a change. `original_of` returns what the frontmatter was made from, see `FrontmatterBackup`."""
    text = decoded(before)
    new_id, kept = note_id, None
    if content is not None:
        body = read(text).body
        text = text[:body] + _with_newlines_of(content, text)
    try:
        if tags is not None:
            body = read(text).body
            base = original_of(text[:body])
            text, styled = with_tags(base + text[body:], _normalized_tags(tags)), base + text[body:]
            if with_tags(text, read(styled).tags) != styled:
                kept = base
        if title is not None and title != parse(text, name_of(note_id)).title:
            if isinstance(name := _name(title), Refusal):
                return name
            new_id = f"{folder_of(note_id)}{name}{SUFFIX}"
            if parse(text, name).title != title:
                text = with_title(text, title)
    except Unreadable as error:
        return Refusal(
            "INVALID_PARAMS",
            f"the frontmatter of {note_id} cannot be read ({error}); mend it, or replace it with content alone",
        )
    return Draft(new_id, encoded(text), kept)


def _name(title: str) -> str | Refusal:
    try:
        title.encode()
    except UnicodeEncodeError:
        return Refusal("INVALID_PARAMS", "title must be Unicode text")
    return name_from(title) or Refusal("INVALID_PARAMS", "title must have a character that a file name can have")


def _folder(directory: str) -> str | Refusal:
    """Check `directory`, and return it with a final slash; empty for the vault itself."""
    if not directory.strip("/") and not directory.startswith("/"):
        return ""
    parts = directory.rstrip("/").split("/")
    if directory.startswith("/") or "\\" in directory or "\0" in directory or ":" in parts[0]:
        return Refusal("INVALID_PARAMS", "directory must be relative to the vault, with / between folders")
    if any(unicodedata.category(each) == "Cc" for each in directory):
        return Refusal("INVALID_PARAMS", "directory must have no control characters")
    if len(parts) > MAX_FOLDER_DEPTH:
        return Refusal("INVALID_PARAMS", f"directory must have at most {MAX_FOLDER_DEPTH} folders within each other")
    for part in parts:
        if part.strip() in ("", "..") or part.startswith(".") or part == ALWAYS_IGNORED:
            return Refusal("INVALID_PARAMS", "directory must be inside the vault, and no part of it hidden")
        if len(part.encode(errors="replace")) > MAX_FOLDER_NAME_BYTES:
            return Refusal("INVALID_PARAMS", "directory has a part that is too long for a folder's name")
    return "/".join(parts) + "/"


def _normalized_tags(tags: Sequence[str]) -> list[str]:
    """Strip `#` and blanks from tags, and drop duplicates."""
    first: dict[str, str] = {}
    for tag in tags:
        if stripped := tag.strip().lstrip("#").strip():
            first.setdefault(stripped.casefold(), stripped)
    return list(first.values())


def _with_newlines_of(content: str, text: str) -> str:
    """Return the content with the line ends of a text."""
    if "\r\n" not in text or text.count("\r\n") != text.count("\n"):
        return content
    return content.replace("\r\n", "\n").replace("\n", "\r\n")
