"""Bytes to text: by byte order mark, then strict UTF-8, then detection; or what kind of file it is instead."""

import codecs
import re
from dataclasses import dataclass

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32le"),
    (codecs.BOM_UTF32_BE, "utf-32be"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
"""The longer of two that begin alike first."""
_CONTROL = re.compile("[\x00-\x06\x0e-\x1a\x7f\ufffe\uffff]")
"""What no text that had to be guessed at holds."""
_WESTERN = "windows-1252"
_BINARY = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class DecodedText:
    text: str
    encoding: str | None = None
    """None for UTF-8."""


@dataclass(frozen=True, slots=True)
class NotText:
    kind: str
    """A media type."""


def decode_text(content: bytes) -> DecodedText | NotText:
    """The text of a file, without a byte order mark and with its line ends as they are."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            try:
                text = content[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
            return DecodedText(text, None if encoding == "utf-8" else encoding)
    if b"\0" not in content:
        try:
            return DecodedText(content.decode("utf-8"))
        except UnicodeDecodeError:
            pass
    return _detect(content)


def _detect(content: bytes) -> DecodedText | NotText:
    import chardet  # 50 ms, for the rare file

    # Older encodings than the web's would win by guesses of one in fifty.
    found = chardet.detect(content, encoding_era=chardet.EncodingEra.MODERN_WEB, prefer_superset=True)
    encoding = found["encoding"]
    if encoding is None:
        return NotText(found["mime_type"] or _BINARY)
    encoding = encoding.lower().replace("utf-16-", "utf-16").replace("utf-32-", "utf-32")
    if b"\0" in content and not encoding.startswith(("utf-16", "utf-32")):
        return NotText(_BINARY)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        if encoding.startswith("utf-"):
            return NotText(_BINARY)
        text = content.decode(encoding, "replace")  # only its beginning was looked at
    if _CONTROL.search(text):
        return NotText(_BINARY)
    if encoding != _WESTERN and text == content.decode(_WESTERN, "replace"):
        encoding = _WESTERN  # of several that read alike, the usual one
    return DecodedText(text, encoding)
