"""Edits of a note's frontmatter that leave every other byte as it is, and backups of frontmatter."""

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from carrel.notes.frontmatter import BOM, TAGS, Entry, Fenced, Unreadable, as_text, find, first, items, read
from carrel.notes.parser import decoded, encoded

INDENT = "  "
_ANCHOR = re.compile(r"&\S+")
QUOTES = ("'", '"')


def with_tags(text: str, tags: Sequence[str]) -> str:
    """Return the text with these tags in its frontmatter, in their present style. Raises `Unreadable`."""
    fenced = find(text)
    if list(read(text).tags) == list(tags):
        return text
    if fenced is None:
        return _with_new_frontmatter(text, tags)
    entry = first(fenced.entries, TAGS)
    if entry is None:
        return _applied(text, fenced, _new_tags_edit(fenced, tags))
    changed = _applied(text, fenced, _tags_edit(fenced, entry, tags))
    if not tags and read(changed).tags:  # of another key, which comes to light where this one goes
        changed = _applied(text, fenced, _empty_list_edit(fenced, entry))
    if list(read(changed).tags) != list(tags):
        raise Unreadable("its tags are written in a way that cannot be changed, since others refer to them")
    return _without_empty_frontmatter(changed) if not tags else changed


def with_title(text: str, title: str) -> str:
    """Return the text with this title in its frontmatter. Raises `Unreadable`."""
    fenced = find(text)
    newline = fenced.newline if fenced else _newline(text)
    if fenced is None:
        start = len(BOM) if text.startswith(BOM) else 0
        head = f"---{newline}title: {_scalar(title)}{newline}---{newline}"
        return text[:start] + head + text[start:]
    changed = _applied(text, fenced, _title_edit(fenced, title))
    if read(changed).title != title.strip():
        raise Unreadable("its title is written in a way that cannot be changed, since others refer to it")
    return changed


def _title_edit(fenced: Fenced, title: str) -> "_Edit":
    in_braces = fenced.yaml.lstrip().startswith("{")
    entry = fenced.entries.get("title")
    if entry is None and in_braces:
        place = fenced.yaml.index("{") + 1
        return _Edit(place, place, f"title: {_scalar(title, in_list=True)}{', ' if fenced.entries else ''}")
    if entry is None:
        return _Edit(0, 0, f"title: {_scalar(title)}{fenced.newline}")
    style = entry.value.style or "" if entry.value.id == "scalar" else ""
    start, end = _value_span(fenced, entry)
    anchor = _ANCHOR.match(fenced.yaml, start)
    blank = ("" if fenced.yaml[start - 1 : start].isspace() else " ") + (f"{anchor[0]} " if anchor else "")
    return _Edit(start, end, blank + _scalar(title, style, in_list=in_braces))


class _Edit(NamedTuple):
    """A replacement of a range of the YAML."""

    start: int
    end: int
    text: str


def _applied(text: str, fenced: Fenced, change: _Edit) -> str:
    return text[: fenced.start + change.start] + change.text + text[fenced.start + change.end :]


def _tags_edit(fenced: Fenced, entry: Entry, tags: Sequence[str]) -> _Edit:
    node = entry.value
    is_here = node.start_mark.index > entry.key.start_mark.index  # an alias is where its anchor stands
    anchor = _ANCHOR.match(fenced.yaml, node.start_mark.index) if is_here else None
    if node.id == "sequence" and is_here and node.value and (node.flow_style or not anchor):
        return (_flow_edit if node.flow_style else _block_edit)(fenced, entry, tags)
    start, end = _value_span(fenced, entry)
    blank = ("" if fenced.yaml[start - 1 : start].isspace() else " ") + (f"{anchor[0]} " if anchor else "")
    if node.id == "scalar" and is_here and as_text(node) and _fit_one_string(tags):
        separator = ", " if "," in node.value else " "
        return _Edit(start, end, blank + _scalar(separator.join(tags), node.style or ""))
    return _Edit(start, end, blank + f"[{', '.join(_scalar(tag, in_list=True) for tag in tags)}]")


def _empty_list_edit(fenced: Fenced, entry: Entry) -> _Edit:
    return _Edit(fenced.yaml.index(":", entry.key.end_mark.index) + 1, _value_span(fenced, entry)[1], " []")


def _fit_one_string(tags: Sequence[str]) -> bool:
    return bool(tags) and not any("," in tag or any(map(str.isspace, tag)) for tag in tags)


def _flow_edit(fenced: Fenced, entry: Entry, tags: Sequence[str]) -> _Edit:
    """Between the brackets; what stands between the first two items stands between all that are new."""
    nodes = items(entry.value)
    start, end = nodes[0].start_mark.index, nodes[-1].end_mark.index
    if not tags:
        return _Edit(fenced.yaml.index("[", entry.value.start_mark.index) + 1, _value_span(fenced, entry)[1] - 1, "")
    separator = fenced.yaml[nodes[0].end_mark.index : nodes[1].start_mark.index] if len(nodes) > 1 else ", "
    return _Edit(start, end, separator.join(_item_texts(fenced, nodes, tags, in_list=True)))


def _block_edit(fenced: Fenced, entry: Entry, tags: Sequence[str]) -> _Edit:
    """One line for each item, indented as the first is."""
    nodes, yaml = items(entry.value), fenced.yaml
    start = _line_start(yaml, entry.value.start_mark.index)
    end = _next_line_start(yaml, nodes[-1].end_mark.index)
    if not tags:
        return _Edit(_line_start(yaml, entry.key.start_mark.index), end, "")
    dash = yaml[start : nodes[0].start_mark.index]
    lines = (f"{dash}{each}{fenced.newline}" for each in _item_texts(fenced, nodes, tags, in_list=False))
    return _Edit(start, end, "".join(lines))


def _item_texts(fenced: Fenced, nodes: Sequence[Any], tags: Sequence[str], *, in_list: bool) -> list[str]:
    """Return each tag as written already, else in the style of the others."""
    there = {as_text(node): fenced.yaml[node.start_mark.index : node.end_mark.index] for node in nodes}
    style = _style(nodes, in_list=in_list)
    return [there.get(tag) or _scalar(tag, style, in_list=in_list) for tag in tags]


def _style(nodes: Sequence[Any], *, in_list: bool) -> str:
    """The quotes that all items have, also one that could do without; none otherwise."""
    styles = {node.style or "" for node in nodes if node.id == "scalar"}
    chosen = any(_is_plain(text, in_list=in_list) for node in nodes if (text := as_text(node)))
    return styles.pop() if len(styles) == 1 and chosen else ""


def _new_tags_edit(fenced: Fenced, tags: Sequence[str]) -> _Edit:
    """Append tags, in a mapping in braces before the closing one."""
    if not fenced.yaml.lstrip().startswith("{"):
        return _Edit(len(fenced.yaml), len(fenced.yaml), _block(tags, fenced.newline))
    place = fenced.yaml.rindex("}")
    listed = ", ".join(_scalar(tag, in_list=True) for tag in tags)
    return _Edit(place, place, f"{', ' if fenced.entries else ''}tags: [{listed}]")


def _block(tags: Sequence[str], newline: str) -> str:
    """Return a block of tags, a style that disappears without a trace with the last tag."""
    return f"tags:{newline}" + "".join(f"{INDENT}- {_scalar(tag)}{newline}" for tag in tags)


def _value_span(fenced: Fenced, entry: Entry) -> tuple[int, int]:
    """Return the range of an entry's value after its colon, also of an alias or an empty one."""
    node, key_end = entry.value, entry.key.end_mark.index
    if node.start_mark.index > entry.key.start_mark.index and node.start_mark.index < node.end_mark.index:
        start, end = node.start_mark.index, node.end_mark.index
        return start, start + len(fenced.yaml[start:end].rstrip())  # a block of text takes its line end with it
    colon = fenced.yaml.index(":", key_end) + 1
    line = fenced.yaml[colon : _next_line_start(fenced.yaml, colon)]
    if line.lstrip(" \t").startswith("*"):
        start = colon + len(line) - len(line.lstrip(" \t"))
        return start, start + len(line.strip().split()[0])
    return colon, colon


def _with_new_frontmatter(text: str, tags: Sequence[str]) -> str:
    newline, start = _newline(text), len(BOM) if text.startswith(BOM) else 0
    return f"{text[:start]}---{newline}{_block(tags, newline)}---{newline}{text[start:]}"


def _without_empty_frontmatter(text: str) -> str:
    fenced = find(text)
    if fenced is None or fenced.yaml:
        return text
    return (BOM if text.startswith(BOM) else "") + text[fenced.body :]


def _scalar(text: str, style: str = "", *, in_list: bool = False) -> str:
    """The text in YAML: in this style of quotes, else in none where it can do without."""
    if style == "'" and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    if style not in QUOTES and _is_plain(text, in_list=in_list):
        return text
    escaped = "".join(each if each.isprintable() and each not in '"\\' else _escape(each) for each in text)
    return f'"{escaped}"'


def _escape(character: str) -> str:
    return f"\\{character}" if character in '"\\' else f"\\U{ord(character):08x}"


def _is_plain(text: str, *, in_list: bool) -> bool:
    yaml = f"key: [{text}]" if in_list else f"key: {text}"
    found = read(f"---\n{yaml.replace('key', 'aliases')}\n---\n")
    return "\n" not in text and found.aliases == (text,)


def _newline(text: str) -> str:
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _next_line_start(text: str, place: int) -> int:
    return text.find("\n", place) + 1 or len(text)


class FrontmatterBackup:
    """Backups of frontmatter that a change of tags has rewritten beyond restoring.

    Setting tags and then setting them back gives the original bytes again, comments and style included.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def original(self, note_id: str, head: str) -> str:
        """Return the frontmatter that this one was made from; itself if there is no backup or it was edited since."""
        try:
            kept = self._path(note_id).read_bytes()
        except OSError:
            return head
        made, earlier = kept[: len(_hash(head))], kept[len(_hash(head)) :]
        return decoded(earlier) if made == _hash(head) else head

    def save(self, note_id: str, head: str, earlier: str) -> None:
        """Save what this frontmatter was made from. A failure loses style, and nothing else."""
        path = self._path(note_id)
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)  # a link would lead elsewhere
            with path.open("xb") as file:
                file.write(_hash(head) + encoded(earlier))

    def delete(self, note_id: str) -> None:
        """Delete a note's backup."""
        with suppress(OSError):
            os.unlink(self._path(note_id))

    def _path(self, note_id: str) -> Path:
        return self._folder / hashlib.blake2b(note_id.encode(), digest_size=16).hexdigest()


def _hash(head: str) -> bytes:
    return hashlib.blake2b(encoded(head), digest_size=16).digest()
