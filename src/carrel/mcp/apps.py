"""Views of tools' results for the hosts of MCP Apps."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class View:
    """A page that stands in a package; it holds no data, only the way to draw it."""

    uri: str
    name: str
    title: str
    description: str
    package: str
    file: str

    @property
    def html(self) -> str:
        return _text(self.package, self.file)


@lru_cache
def _text(package: str, file: str) -> str:
    return (files(package) / file).read_text(encoding="utf-8")
