"""Two servers, two workspaces, one vault, one editor: how many acknowledged changes are lost.

    python3 dev.py bench lost_updates [--changes N] [--json FILE]

Both servers are asked over stdio to change tags and titles of notes that they share, and to rename notes that one board
links to, while an editor saves the text of the shared notes atomically. What each was told to be done must be in the
vault, unless the editor has overwritten it with what it had read before. Exits 1 when anything was lost. Linux only.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import options
import tables
from tests import lost_updates

HEAD = ("", "tags", "titles", "renames", "editor's saves", "acknowledged", "refused", "overwritten by editor", "lost")


def main() -> int:
    parser = options.parser(__doc__)
    parser.add_argument("--changes", type=int, default=3000, help="asked of the servers; default %(default)s")
    chosen = options.parse(parser, changes=40)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = lost_updates.run(Path(folder), chosen.changes, options.say)
    row = (
        "servers and editor",
        found.tags,
        found.titles,
        found.renames,
        found.saves,
        found.acknowledged,
        found.refused,
        found.overwritten,
        len(found.lost),
    )
    print("\n".join(tables.table(HEAD, [row])))
    for each in found.lost[:20]:
        print(f"- {each}")
    options.write_json(chosen.json, asdict(found) | {"seconds": time.monotonic() - started})
    return 1 if found.lost else 0


if __name__ == "__main__":
    sys.exit(main())
