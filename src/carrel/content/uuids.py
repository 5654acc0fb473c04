"""Ids: UUIDs in lower case."""

import re

RFC_4122 = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"

_RFC_4122 = re.compile(RFC_4122)


def is_rfc_uuid(text: str) -> bool:
    return _RFC_4122.fullmatch(text) is not None
