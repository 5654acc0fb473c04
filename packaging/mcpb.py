"""Builds the MCPB bundle, which desktop clients install with one click: python packaging/mcpb.py [FILE]

The bundle contains the sources and the manifest. The client's own uv creates an environment from them when it first
starts the server, so one bundle works on every system. Builds are reproducible: equal sources give equal bytes.
"""

import runpy
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that ZIP can represent


def contents() -> Iterator[tuple[str, Path]]:
    """Yields each file of the bundle: its name in the archive and its path."""
    yield "manifest.json", ROOT / "packaging" / "manifest.json"
    yield "server/main.py", ROOT / "packaging" / "start.py"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        yield name, ROOT / name
    for path in sorted((ROOT / "src").rglob("*")):
        name = path.relative_to(ROOT)
        if path.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in name.parts):
            yield name.as_posix(), path


def build(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, path in contents():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            bundle.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    version = runpy.run_path(str(ROOT / "src" / "carrel" / "version.py"))["__version__"]
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / f"carrel-{version}.mcpb"
    build(file)
    sys.stdout.write(f"{file}\n")
