"""Which entity a page is."""

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


def page_key(url: str) -> str:
    """What two addresses of one page have in common: scheme, case of the host, default port, fragment and a slash at
    the end aside."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return url
    if not host:
        return url
    if port == _DEFAULT_PORTS.get(parts.scheme):
        port = None
    query = f"?{parts.query}" if parts.query else ""
    return f"{host}{f':{port}' if port else ''}{parts.path.removesuffix('/')}{query}"


class Pages:
    """The pages of a table, to be matched with entities of which each has one address."""

    def __init__(self) -> None:
        self._entities: dict[str, list[tuple[str, str]]] = {}
        self._addresses = dict[str, None]()

    def add(self, page: str) -> None:
        self._addresses[page] = None
        self._entities.setdefault(page_key(page), [])

    def match(self, entities: Iterable[tuple[str, ...]]) -> None:
        """Take those that are pages of the table, from ids and addresses."""
        for identifier, address in entities:
            found = self._entities.get(page_key(address))
            if found is not None:
                found.append((identifier, address))

    @property
    def total(self) -> int:
        return len(self._addresses)

    @property
    def matched(self) -> int:
        return sum(self.entity(page) is not None for page in self._addresses)

    def entity(self, page: str) -> str | None:
        """The id of the entity that the page is: the one whose address is the very same, else the only one."""
        found = self._entities.get(page_key(page), [])
        same = [identifier for identifier, address in found if address == page] or [each[0] for each in found]
        return same[0] if len(same) == 1 else None

    def doubtful(self) -> Iterator[tuple[str, list[str]]]:
        """Pages that several entities could be."""
        for page in self._addresses:
            found = self._entities[page_key(page)]
            if len(found) > 1 and self.entity(page) is None:
                yield page, [identifier for identifier, _ in found]
