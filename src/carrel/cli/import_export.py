"""`carrel import` and `carrel export`: content in and out."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carrel.cli.db import json_option
from carrel.cli.terminal import bars, counter, workspace_option
from carrel.storage.database import Location

if TYPE_CHECKING:
    from carrel.content.bundle.faults import ContentRefused
    from carrel.content.bundle.importer import Report

file_argument = click.Path(path_type=Path, exists=True, dir_okay=False)
dry_run_option = click.option("--dry-run", is_flag=True, help="Check everything and write nothing.")


@click.group("import")
def import_() -> None:
    """The help of both groups is in `carrel.cli.app`, which does not read this module for it."""


@click.group("export")
def export() -> None:
    pass


@import_.command("content")
@workspace_option
@dry_run_option
@json_option
@click.argument("files", nargs=-1, required=True, type=file_argument, metavar="FILE...")
def import_content(workspace: Path | None, dry_run: bool, as_json: bool, files: tuple[Path, ...]) -> None:
    """Bring in a bundle: projects, entities, relations and what is known about them.

    A FILE is JSON or JSON Lines, either of them also packed with gzip. Several are one bundle: they may refer to each
    other. Records that are there already are brought up to date, and fields that a record does not have stay as they
    are: the same import again changes nothing. Everything is written or, where anything is wrong, nothing; all faults
    are then listed, each with its place. docs/content.md describes the fields.

    \b
    carrel import content bundle.json
    carrel import content --dry-run projects.json entities.jsonl.gz
    """
    from carrel.content.bundle.importer import import_content as run

    with _refusals(as_json), bars() as progress:
        report = run(_location(workspace), files, dry_run=dry_run, progress=progress)
    _tell(report, dry_run=dry_run, as_json=as_json)


@import_.command("gsc")
@workspace_option
@dry_run_option
@json_option
@click.option("--project", required=True, metavar="SLUG", help="The project whose pages these are.")
@click.option("--from", "start", required=True, metavar="DATE", help="The first day of the export, YYYY-MM-DD.")
@click.option("--to", "end", required=True, metavar="DATE", help="The last day of the export, YYYY-MM-DD.")
@click.argument("file", type=file_argument)
def import_gsc(
    workspace: Path | None, dry_run: bool, as_json: bool, project: str, start: str, end: str, file: Path
) -> None:
    """Bring in a table that Google Search Console exported.

    FILE is Queries.csv or Pages.csv of an export, or a table with both columns, query and page. Google does not write
    the days into it, so they are given here. Pages are matched with the project's entities by canonicalUrl; scheme,
    case of the host and a slash at the end aside. The same table again changes nothing.

    \b
    carrel import gsc Queries.csv --project reef --from 2026-01-01 --to 2026-01-31
    """
    from carrel.content.bundle.search_console import import_table

    with _refusals(as_json), bars() as progress:
        found = import_table(
            _location(workspace), file, project=project, start=start, end=end, dry_run=dry_run, progress=progress
        )
    matched = {"pages": found.pages, "matchedPages": found.matched}
    _tell(found.report, dry_run=dry_run, as_json=as_json, more=matched)
    if not as_json:
        click.echo(f"{found.matched} of {found.pages} pages are entities of {project}")


@export.command("content")
@workspace_option
@json_option
@click.option("--project", metavar="SLUG", help="This project only.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "jsonl"]),
    help="JSON or JSON Lines.  [default: as the file is called, else json]",
)
@click.option("--replace", is_flag=True, help="Write over FILE if it exists.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), default="-")
def export_content(
    workspace: Path | None, as_json: bool, project: str | None, form: Any, replace: bool, file: Path
) -> None:
    """Write all content to FILE as a bundle, with every id and time; to stdout without one.

    What it writes can be imported again, and gives the same content. A name that ends in .gz packs it.

    \b
    carrel export content bundle.json
    carrel export content --project reef - | less
    """
    from carrel.content.bundle.exporter import export_content as run

    form = form or ("jsonl" if ".jsonl" in file.suffixes else "json")
    is_stdout = str(file) == "-"
    target = None if is_stdout else file
    output = sys.stdout.buffer if is_stdout else None
    with counter("exporting", "records") as progress:
        counts = run(
            _location(workspace), target, project=project, form=form, replace=replace, output=output, progress=progress
        )
    if not is_stdout:
        text = f"wrote {sum(counts.values())} records to {file}"
        click.echo(json.dumps({"file": str(file), "records": counts}) if as_json else text)


def _location(workspace: Path | None) -> Location:
    from carrel.workspace import find_workspace

    return find_workspace(workspace).location


@contextmanager
def _refusals(as_json: bool) -> Generator[None]:
    """Faults as JSON on stdout where that was asked for; otherwise they go their way to stderr."""
    from carrel.content.bundle.faults import ContentRefused

    try:
        yield
    except ContentRefused as refused:
        if not as_json:
            raise
        click.echo(json.dumps(_refused(refused)))
        click.get_current_context().exit(refused.exit_status)


def _refused(refused: "ContentRefused") -> dict[str, Any]:
    faults = [{"place": fault.place, "message": fault.message} for fault in refused.faults]
    return {"ok": False, "faults": faults, "faultsInAll": refused.total}


def _tell(report: "Report", *, dry_run: bool, as_json: bool, more: dict[str, int] | None = None) -> None:
    if as_json:
        counts = {
            key: {"added": each.added, "updated": each.updated, "unchanged": each.unchanged}
            for key, each in report.counts.items()
        }
        warnings = [{"place": each.place, "message": each.message} for each in report.warnings]
        value = {"ok": True, "dryRun": dry_run, "counts": counts, "warnings": warnings}
        click.echo(json.dumps({**value, "warningsInAll": report.warnings_in_all, **(more or {})}))
        return
    from carrel.content.bundle.faults import listed

    if report.warnings:
        click.echo("warnings:", err=True)
        for line in listed(report.warnings, report.warnings_in_all):
            click.echo(line, err=True)
    heading = "would be" if dry_run else ""
    click.echo(f"{heading:17} {'added':>9} {'updated':>9} {'unchanged':>9}")
    for key, each in report.counts.items():
        if each.added or each.updated or each.unchanged:
            click.echo(f"{key:17} {each.added:9} {each.updated:9} {each.unchanged:9}")
