"""Numbers as tables made for people have them: with percent signs, and separators between thousands."""

import re
from decimal import Decimal

_BLANKS = re.compile("[\u00a0\u2009\u202f ](?=[0-9]{3})")
_GROUPED = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*", re.ASCII)
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


class Unclear(Exception):
    """Why a text is not taken for a number, to be read after the name of its column."""


def whole(text: str, *, is_english: bool) -> int:
    found = _number(text, text, is_english=is_english, is_whole=True)
    if found != found.to_integral_value():
        raise Unclear(f"must be a whole number, not {text!r}")
    return int(found)


def decimal(text: str, *, is_english: bool) -> float:
    return float(_number(text, text, is_english=is_english, is_whole=False))


def as_share(text: str, *, is_english: bool) -> float:
    """A share of one, from a percentage or from itself."""
    digits = text.removesuffix("%")
    found = _number(digits, text, is_english=is_english, is_whole=False)
    if digits != text:
        found /= 100
    if found > 1:
        raise Unclear(f"must be a percentage up to 100% or a number up to 1, not {text!r}")
    return float(found)


def _number(digits: str, text: str, *, is_english: bool, is_whole: bool) -> Decimal:
    """In English a comma separates thousands and a point decimals; elsewhere what cannot be both."""
    digits = _BLANKS.sub("", digits).strip()
    if "," in digits and "." in digits:
        digits = _two_separators(digits, is_english=is_english)
    elif "," in digits or "." in digits:
        digits = _one_separator(digits, text, is_english=is_english, is_whole=is_whole)
    if not _PLAIN.fullmatch(digits):
        raise Unclear(f"must be a number, not {text!r}")
    return Decimal(digits)


def _two_separators(digits: str, *, is_english: bool) -> str:
    """The last one is the decimal point. What is no number stays as it is."""
    mark = "," if digits.rindex(",") > digits.rindex(".") else "."
    groups, _, rest = digits.rpartition(mark)
    if (is_english and mark == ",") or not _GROUPED.fullmatch(groups):
        return digits
    return f"{re.sub('[.,]', '', groups)}.{rest}"


def _one_separator(digits: str, text: str, *, is_english: bool, is_whole: bool) -> str:
    mark = "," if "," in digits else "."
    grouped = _GROUPED.fullmatch(digits) is not None
    if is_english and mark == ".":
        return digits
    if is_english or digits.count(mark) > 1:
        return digits.replace(mark, "") if grouped else digits
    if grouped and not is_whole:
        raise Unclear(f"could be two numbers, with thousands or with decimals: {text!r}; write it without a separator")
    return digits.replace(mark, "") if grouped else digits.replace(mark, ".")
