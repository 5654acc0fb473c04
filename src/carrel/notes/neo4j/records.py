"""A note as the properties of a node.

Besides id, title, content and tags, which are all that others need to write, a node has what it takes to find it and to
change it as a file would be changed. These are ours:

head                      the frontmatter that stands before the content in a file
path, name, titleKey      what links and look-ups call it by, as keys (`carrel.notes.names.key`)
aliases, aliasKeys
tagKeys
targets, mentions         what its links say, and the names on which it depends what they lead to, as keys
broken                    those of its targets that lead nowhere
warnings                  what is wrong with it, broken links aside
sortKey                   sorts as ids do by code point, in a database that compares UTF-16
version, seen             by which a change is noticed; `seen` is the server's own view of title, content and tags
turn                      the last change of the graph that it was part of
pushed                    the version that was last copied from a vault
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from carrel.notes.facts import encoded, facts_of, shown
from carrel.notes.frontmatter import Unreadable, read
from carrel.notes.names import is_note, key, name_of, stem
from carrel.notes.parsing import parse
from carrel.notes.resolving import names_in
from carrel.notes.splicing import with_tags, with_title

Properties = dict[str, Any]

EMPTY_HEAD = "---\n---\n"
LONGEST_KEY = 1000


def file_id(note_id: str) -> str:
    """The id as a file's: those that others make up need not end in `.md`."""
    return note_id if is_note(note_id) else f"{note_id}.md"


def path_of(note_id: str) -> str:
    return key(stem(file_id(note_id)))


def folder_in(path: str) -> str:
    return path[: path.rfind("/") + 1]


def name_in(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def title_of(note_id: str, title: str | None) -> str:
    return title or name_of(file_id(note_id))


def index_key(title: str) -> str:
    """The key of a title, as far as an index takes it."""
    return key(title)[:LONGEST_KEY]


def sort_key(note_id: str) -> str:
    return note_id.encode(errors="surrogatepass").decode("latin-1")


def words_in(value: list[str] | str | None) -> list[str]:
    """A property that is a list, also where somebody wrote one word, or nothing."""
    return [value] if isinstance(value, str) else value or []


def properties_of(note_id: str, text: str) -> Properties:
    """Of a note with this text; what is no Unicode in it is replaced."""
    warnings = facts_of(file_id(note_id), encoded(text)).warnings
    text = shown(text)
    facts = facts_of(file_id(note_id), text.encode())
    body = read(text).body
    return {
        "title": facts.title,
        "content": text[body:],
        "tags": list(facts.tags),
        "head": text[:body],
        **names_of(note_id, facts.title, facts.aliases),
        "tagKeys": _keys(facts.tags),
        "targets": list(facts.targets),
        "mentions": sorted(names_in(facts.targets)),
        "warnings": list(warnings),
        "version": version_of(facts.title, text),
    }


def names_of(note_id: str, title: str, aliases: Sequence[str]) -> Properties:
    path = path_of(note_id)
    return {
        "sortKey": sort_key(note_id),
        "path": path,
        "name": name_in(path),
        "titleKey": index_key(title),
        "aliases": list(aliases),
        "aliasKeys": _keys(aliases),
    }


def version_of(title: str, text: str) -> str:
    return hashlib.blake2b(f"{title}\0{text}".encode(), digest_size=16).hexdigest()


def adopted(note_id: str, head: str | None, title: str, content: str, tags: Sequence[str]) -> Properties:
    """What others leave out when they write a note, or did not see to when they changed one."""
    text = _text(note_id, head, title, content, tags)
    found = properties_of(note_id, text)
    for name in ("title", "content", "tags"):
        del found[name]  # theirs
    found["titleKey"], found["tagKeys"] = index_key(title), _keys(tags)
    return found


def _text(note_id: str, head: str | None, title: str, content: str, tags: Sequence[str]) -> str:
    """The text of a file that says the same."""
    if head is None or read(head + content).body != len(head):
        head = EMPTY_HEAD if content.lstrip("\ufeff").startswith("---") else ""
    text = head + content
    inline = set(_keys(parse(EMPTY_HEAD + content, "").tags))
    name = name_of(file_id(note_id))
    try:
        if _keys(parse(text, name).tags) != _keys(tags):
            text = with_tags(text, [tag for tag in tags if key(tag) not in inline])
        if parse(text, name).title != title:
            text = with_title(text, title)
    except Unreadable:
        return EMPTY_HEAD + content
    return text


def _keys(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(key, words)))
