"""Options and progress bars that commands share."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from carrel.common import Progress, StepProgress

workspace_option = click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Project folder.  [default: the nearest parent folder with a carrel.toml, else the current folder]",
)


@contextmanager
def bars() -> Generator[StepProgress]:
    """Show a progress bar for each step on stderr, if it is a terminal.

    The callback takes the step, how much more of it is done, and the total, which may grow.
    """
    bar: Any = None
    label = ""

    def progress(step: str, more: int, total: int) -> None:
        nonlocal bar, label
        if not sys.stderr.isatty():
            return
        if step != label:
            if bar is not None:
                bar.render_finish()
            bar = click.progressbar(length=max(total, 1), label=f"{step:9}", file=sys.stderr, update_min_steps=1)
            label = step
            bar.render_progress()
        bar.length = max(total, 1)
        bar.update(more)

    try:
        yield progress
    finally:
        if bar is not None:
            bar.render_finish()


@contextmanager
def counter(label: str, unit: str) -> Generator[Progress]:
    """Show a running count on stderr, if it is a terminal. The callback takes how many more there are."""
    total = 0

    def progress(more: int) -> None:
        nonlocal total
        total += more
        if sys.stderr.isatty():
            click.echo(f"\r{label}: {total} {unit}", err=True, nl=False)

    try:
        yield progress
    finally:
        if total and sys.stderr.isatty():
            click.echo(err=True)
