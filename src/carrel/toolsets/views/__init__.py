"""MCP Apps views: pages in which hosts render results.

A host loads a view as one HTML document from a resource and nothing else, so a view's script, with every ES module that
it imports from the page, is bundled into the document when it is first read.
"""

import re
from functools import lru_cache
from importlib.resources import files
from pathlib import PurePosixPath
from posixpath import normpath

from carrel.mcp.toolset import View

_IMPORT = re.compile(r'^import \{ (.+?) \} from "(.+?)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?:/\*\*.*?\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
_SCRIPT = "<script></script>"


class _ScriptedView(View):
    """A view whose script is the ES module next to its page, bundled with everything that it imports."""

    __slots__ = ()

    @property
    def html(self) -> str:
        return _page(self.package, self.file)


GRAPH = _ScriptedView(
    uri="ui://carrel/graph",
    name="graph",
    title="Graph",
    description="What is around an entity or a note, drawn, and expanded on request",
    package="carrel.toolsets.views",
    file="graph.html",
)


@lru_cache
def _page(package: str, file: str) -> str:
    folder = PurePosixPath(*package.split(".")[1:])
    modules = dict[str, str]()
    _bundle(folder / file.replace(".html", ".js"), modules)
    script = "\n".join(["const modules = {};", *modules.values()])
    return _text(folder / file).replace(_SCRIPT, f'<script>\n"use strict";\n{script}</script>')


def _bundle(path: PurePosixPath, modules: dict[str, str]) -> None:
    """Add a module to the bundle, after those that it imports, as a function that is called once."""
    text = _text(path)
    exported = [name for _, name in _EXPORT.findall(text)]

    def imported(found: re.Match[str]) -> str:
        target = PurePosixPath(normpath(path.parent / found[2]))
        if str(target) not in modules:
            _bundle(target, modules)
        return f'const {{ {found[1]} }} = modules["{target}"];'

    body = _EXPORT.sub(r"\1", _IMPORT.sub(imported, _COMMENT.sub("", text)))
    modules[str(path)] = f'modules["{path}"] = (() => {{\n{body}\nreturn {{ {", ".join(exported)} }};\n}})();'


def _text(path: PurePosixPath) -> str:
    return files("carrel").joinpath(str(path)).read_text(encoding="utf-8")
