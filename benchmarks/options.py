"""What every benchmark program takes on its command line, and how it says how far it is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def parser(doc: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def parse(parser: argparse.ArgumentParser, **smoke: Any) -> argparse.Namespace:
    """Parse the command line; with --smoke, `smoke` holds the values of options that are not given."""
    parser.add_argument("--smoke", action="store_true", help="the smallest run that has every part of the table")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    if "--smoke" in sys.argv[1:]:
        parser.set_defaults(**smoke)
    return parser.parse_args()


def write_json(file: Path | None, document: Any) -> None:
    """Write to the file that --json names, if it does."""
    if file:
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def say(text: str) -> None:
    """Report progress on stderr: stdout is for the table."""
    print(text, file=sys.stderr, flush=True)
