"""What an installation weighs: bytes and distributions of all that pip installs, for each set of extras.

python3 dev.py bench size [EXTRAS ...]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import options
import tables
from process import ROOT

EXTRAS = ("", "postgres", "postgres,fast")
NOT_OURS = ("pip", "setuptools", "_distutils_hack", "distutils-precedence", "pkg_resources")


def weigh(requirement: str, *flags: str) -> tuple[float, int]:
    """Megabytes and distributions."""
    with tempfile.TemporaryDirectory() as folder:
        quiet = ("--quiet", "--disable-pip-version-check", "--no-warn-script-location")
        command = [sys.executable, "-m", "pip", "install", *quiet, *flags, "--target", folder, requirement]
        subprocess.run(command, check=True)
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        count = sum(path.suffix == ".dist-info" for path in Path(folder).iterdir())
        return sum(file.stat().st_size for file in files) / 1e6, count


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("extras", nargs="*", help="default: none, postgres, and postgres,fast")
    given = options.parse(parser)
    # The package alone, built by what is installed here: everything else would have to be fetched.
    flags = ("--no-deps", "--no-build-isolation") if given.smoke else ()
    found: dict[str, tuple[float, int]] = {}
    for extras in given.extras or EXTRAS[: 1 if given.smoke else None]:
        found[f"carrel[{extras}]" if extras else "carrel"] = weigh(f"{ROOT}[{extras}]" if extras else str(ROOT), *flags)
    rows = ((f"`{name}`", f"{size:.1f}", count) for name, (size, count) in found.items())
    print("\n".join(tables.table(("installation", "MB", "distributions"), rows)))
    options.write_json(given.json, found)


if __name__ == "__main__":
    main()
