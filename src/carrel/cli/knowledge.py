"""What `carrel discoveries` and `carrel sessions` share."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from carrel.code.knowledge.discoveries import TYPES
from carrel.code.knowledge.times import FORMATS, instant
from carrel.errors import UsageError

if TYPE_CHECKING:
    from carrel.storage.database import Database

T = TypeVar("T")

SHOWN_CHARACTERS = 100

type_option = click.option("--type", "type_", type=click.Choice(TYPES), help="Of this type only.")
module_option = click.option("--module", metavar="NAME", help="About this module only.")
limit_option = click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="At most so many."
)
date_option = click.option("--date", metavar="DATE", help=f"When it was: {FORMATS}.  [default: now]")


def given_text(words: str) -> str:
    """A text from the command line, or from stdin where it is `-`, without the line feeds at its end."""
    if words != "-":
        return words
    try:
        return sys.stdin.buffer.read().decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageError("stdin must be UTF-8") from error


def given_date(text: str | None) -> int | None:
    moment = None if text is None else instant(text)
    if text is not None and moment is None:
        raise UsageError(f"--date must be {FORMATS}")
    return moment


def with_database(workspace: Path | None, work: "Callable[[Database, str], Awaitable[T]]") -> T:
    """Run `work` with the database and the name of the code base."""
    import asyncio

    from carrel.storage.opening import open_database
    from carrel.workspace import find_workspace

    found = find_workspace(workspace)

    async def run() -> T:
        database = await open_database(found.location, pool_size=1)
        try:
            return await work(database, found.code_base)
        finally:
            await database.close()

    return asyncio.run(run())
