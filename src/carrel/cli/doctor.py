"""`carrel doctor`."""

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from carrel.cli.db import json_option
from carrel.cli.options import workspace_option

if TYPE_CHECKING:
    from carrel.doctor import Finding

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@workspace_option
@json_option
@click.pass_context
def doctor(context: click.Context, workspace: Path | None, as_json: bool) -> None:
    """Look everything over: settings, database, programs, vault, embeddings, ports, permissions, auth.

    Each line tells what was seen and, where something is wrong, the cure. Nothing is made or changed. Exit status 1
    when there is a problem; warnings do not count.
    """
    from carrel.doctor import examine

    logging.disable(logging.CRITICAL)  # what is wrong is told below, once
    try:
        findings = examine(workspace, os.environ, _hint)
    finally:
        logging.disable(logging.NOTSET)
        _clear_hint()
    counts = {state: sum(each.state == state for each in findings) for state in COLOURS}
    if as_json:
        value = {"ok": not counts["problem"], "counts": counts, "findings": [_as_json(each) for each in findings]}
        click.echo(json.dumps(value))
    else:
        _show(findings)
        many = {"warning": "warnings", "problem": "problems"}
        told = (f"{count} {many.get(state, state) if count != 1 else state}" for state, count in counts.items())
        click.echo(f"{len(findings)} findings: {', '.join(told)}")
    context.exit(1 if counts["problem"] else 0)


def _as_json(finding: "Finding") -> dict[str, str]:
    return {"check": finding.check, "state": finding.state, "seen": finding.seen, "cure": finding.cure}


def _show(findings: "Sequence[Finding]") -> None:
    width = max(len(each.check) for each in findings)
    for each in findings:
        state = click.style(f"{each.state:7}", fg=COLOURS[each.state])
        click.echo(f"{state}  {each.check:{width}}  {each.seen}")
        if each.cure:
            click.echo(f"{'':{width + 11}}cure: {each.cure}")


def _hint(names: Sequence[str]) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[Kstill looking at {', '.join(names)} ...", err=True, nl=False)


def _clear_hint() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
