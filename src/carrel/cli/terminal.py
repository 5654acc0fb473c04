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
    help="The project's folder. Default: the nearest one upwards with a carrel.toml, else the current one.",
)


@contextmanager
def bars() -> Generator[StepProgress]:
    """A bar for each step, one after another; to be called with the step, how much more is done, and of how much."""
    bar: Any = None
    label = ""

    def progress(step: str, more: int, total: int) -> None:
        nonlocal bar, label
        if not sys.stderr.isatty():
            return
        if step != label:
            if bar is not None:
                bar.render_finish()
            bar = click.progressbar(length=max(total, 1), label=f"{step:8}", file=sys.stderr, update_min_steps=1)
            label = step
            bar.render_progress()
        bar.length = max(total, 1)  # more may have become known
        bar.update(more)

    try:
        yield progress
    finally:
        if bar is not None:
            bar.render_finish()


@contextmanager
def counter(label: str, what: str) -> Generator[Progress]:
    """A line that counts; to be called with how many more there are."""
    total = 0

    def progress(more: int) -> None:
        nonlocal total
        total += more
        if sys.stderr.isatty():
            click.echo(f"\r{label}: {total} {what}", err=True, nl=False)

    try:
        yield progress
    finally:
        if total and sys.stderr.isatty():
            click.echo(err=True)
