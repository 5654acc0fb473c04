"""Which code base something was learned about. Several may share one database and must not mix."""

from pathlib import Path

from carrel.common import is_storable
from carrel.storage.database import Location, SqliteLocation

DEFAULT_CODE_BASE = "default"
"""The one code base of a database that lies within its folder: moving or renaming the folder keeps what was learned."""
MAX_NAME_BYTES = 400  # it is part of every key, and PostgreSQL's indexes take no long ones


def code_base_of(folder: Path, location: Location, name: str = "") -> str:
    """The name that the settings give it, else one that fits: a database elsewhere may have several of them."""
    if name:
        return validated_name(name)
    if isinstance(location, SqliteLocation) and location.path.resolve().is_relative_to(folder.resolve()):
        return DEFAULT_CODE_BASE
    return "".join(filter(is_storable, folder.resolve().name))[: MAX_NAME_BYTES // 4] or DEFAULT_CODE_BASE


def validated_name(name: str) -> str:
    if not name or not is_storable(name) or len(name.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"a code base needs a name of 1 to {MAX_NAME_BYTES} bytes")
    return name
