"""The names of notes: IDs, the keys by which names are compared, and file names made from titles."""

import re
import unicodedata

SUFFIX = ".md"
MAX_NAME_BYTES = 120
"""Bytes of a file name that is made from a title."""

_ATTACHMENT = re.compile(
    r"\.(?:3gp|avif|base|bmp|canvas|csv|docx?|flac|gif|html?|jpe?g|json|m4a|mkv|mov|mp3|mp4|og[agv]|opus|pdf|png|pptx?|svg|txt"
    r"|wav|webm|webp|xlsx?|zip)$"
)
_BLANKS = re.compile(r"\s+")
_FORBIDDEN = re.compile(r'[/\\:*?"<>|#^\[\]\x00-\x1f\x7f-\x9f]')


MAX_NORMALIZED_LENGTH = 1024
"""Characters up to which text is normalized: ordering a run of combining marks takes quadratic time."""


def key(text: str) -> str:
    """Return the form by which names are compared: NFC and casefolded."""
    if text.isascii():
        return text.lower()
    if len(text) > MAX_NORMALIZED_LENGTH:
        return text.casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def is_note(name: str) -> bool:
    """Whether a file name is a note's."""
    return name.endswith(SUFFIX) or name[-len(SUFFIX) :].lower() == SUFFIX


def is_attachment(target: str) -> bool:
    """Whether a target, as a key, names a picture or another file that is no note."""
    return _ATTACHMENT.search(target) is not None


def stem(note_id: str) -> str:
    """Return the ID without `.md`."""
    return note_id[: -len(SUFFIX)]


def name_of(note_id: str) -> str:
    """Return the file name without folders and `.md`."""
    return stem(note_id[note_id.rfind("/") + 1 :])


def folder_of(note_id: str) -> str:
    """Return the folder with a final slash; empty at the top."""
    return note_id[: note_id.rfind("/") + 1]


def name_from(title: str) -> str:
    """Make a file name, without `.md`, from a title; empty if no character is left."""
    name = _BLANKS.sub("-", unicodedata.normalize("NFC", title[:MAX_NORMALIZED_LENGTH]).lower())
    name = _FORBIDDEN.sub("", unicodedata.normalize("NFC", name)).strip(".-")
    return name.encode()[:MAX_NAME_BYTES].decode(errors="ignore").strip(".-")
