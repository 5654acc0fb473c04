"""Ids: UUIDs in lower case."""

import re

from carrel.common import RFC_4122_UUID

_RFC_4122 = re.compile(RFC_4122_UUID)


def is_rfc_uuid(text: str) -> bool:
    return _RFC_4122.fullmatch(text) is not None
