"""What an installation weighs: bytes and distributions of site-packages in a fresh virtual environment, pip aside."""

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_OURS = ("pip", "setuptools", "_distutils_hack", "distutils-precedence", "pkg_resources")


def weigh(requirement: str) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "bin", "python"))
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        question = "import sysconfig; print(sysconfig.get_path('purelib'))"
        answer = subprocess.run([python, "-c", question], capture_output=True, text=True, check=True)
        packages = Path(answer.stdout.strip())
        ours = [path for path in packages.iterdir() if not path.name.startswith(NOT_OURS)]
        files = [file for path in ours for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
        return sum(file.stat().st_size for file in files) / 1e6, sum(path.suffix == ".dist-info" for path in ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", default=["", "postgres", "postgres,fast"], help="extras to weigh with")
    for extras in parser.parse_args().extras:
        size, count = weigh(f"{ROOT}[{extras}]" if extras else str(ROOT))
        print(f"carrel[{extras}]: {size:.1f} MB, {count} distributions")


if __name__ == "__main__":
    sys.exit(main())
