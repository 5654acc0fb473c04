"""What is wrong with a pattern that `rg` would take."""

import re

_UNSEARCHABLE = re.compile("[\0\ud800-\udfff]")
_NO_NUL = "a pattern is Unicode text without NUL, as no text file holds anything else"
_VERBOSE = re.compile(r"\(\?[a-wyzA-Z]*x")


def fault(pattern: str) -> str | None:
    """In words for the caller. Most faults are left to `rg` to tell."""
    if _UNSEARCHABLE.search(pattern):
        return _NO_NUL
    if _closes_too_much(pattern):
        return "unopened group"
    return None


def complaint_about(complaint: str) -> str | None:
    """What `rg` found wrong with a pattern, in words for the caller; None where it complains about something else."""
    if 'pattern contains "\\0"' in complaint:  # written as \x00
        return _NO_NUL
    if "regex" not in complaint:
        return None
    return complaint.removeprefix("rg: ").split("\n\n")[0].strip()  # what follows is about options


def _closes_too_much(pattern: str) -> bool:
    """`rg` puts a group around what it is given, and so finds nothing wrong with `a)|(b`."""
    if _VERBOSE.search(pattern):
        return False  # a parenthesis may be in a comment
    groups = classes = position = 0
    while position < len(pattern):
        sign = pattern[position]
        position += 1 + (sign == "\\")
        if sign == "[":
            classes += 1
            position += pattern.startswith("^", position)
            position += pattern.startswith("]", position)
        elif classes:
            classes -= sign == "]"
        elif sign in "()":
            groups += 1 if sign == "(" else -1
            if groups < 0:
                return True
    return False
