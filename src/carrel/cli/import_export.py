"""`carrel import` and `carrel export`: content bundles and Search Console tables."""

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
dry_run_option = click.option("--dry-run", is_flag=True, help="Check the files without writing anything.")


@click.group("import")
def import_() -> None:
    """Group the commands; the help text of both groups is in `carrel.cli.app`, which imports this module lazily."""


@click.group("export")
def export() -> None:
    pass


@import_.command("content")
@workspace_option
@dry_run_option
@json_option
@click.argument("files", nargs=-1, required=True, type=file_argument, metavar="FILE...")
def import_content(workspace: Path | None, dry_run: bool, as_json: bool, files: tuple[Path, ...]) -> None:
    """Import a bundle of projects, entities, and relations.

    Each FILE is JSON or JSON Lines, optionally compressed with gzip. Several files form one bundle, so their records
    may refer to each other. Existing records are updated, and fields that the bundle leaves out keep their values, so
    importing the same bundle again changes nothing. The import is all or nothing: if any record is invalid, nothing is
    written and every error is listed with its location. See docs/content.md for the fields.

    \b
    carrel import content bundle.json
    carrel import content --dry-run projects.json entities.jsonl.gz
    """
    from carrel.content.bundle.importer import import_content as run

    with _faults_as_json(as_json), bars() as progress:
        report = run(_location(workspace), files, dry_run=dry_run, progress=progress)
    _print_report(report, dry_run=dry_run, as_json=as_json)


@import_.command("gsc")
@workspace_option
@dry_run_option
@json_option
@click.option("--project", required=True, metavar="SLUG", help="The project that the pages belong to.")
@click.option("--from", "start", required=True, metavar="DATE", help="First day of the export, YYYY-MM-DD.")
@click.option("--to", "end", required=True, metavar="DATE", help="Last day of the export, YYYY-MM-DD.")
@click.argument("file", type=file_argument)
def import_gsc(
    workspace: Path | None, dry_run: bool, as_json: bool, project: str, start: str, end: str, file: Path
) -> None:
    """Import a table exported from Google Search Console.

    FILE is Queries.csv or Pages.csv from an export, or a table with both a query and a page column. The export does not
    contain its dates, so you give them here. Pages are matched to the project's entities by canonicalUrl, ignoring the
    scheme, the case of the host, and a trailing slash. Importing the same table again changes nothing.

    \b
    carrel import gsc Queries.csv --project reef --from 2026-01-01 --to 2026-01-31
    """
    from carrel.content.bundle.search_console import import_table

    with _faults_as_json(as_json), bars() as progress:
        found = import_table(
            _location(workspace), file, project=project, start=start, end=end, dry_run=dry_run, progress=progress
        )
    matched = {"pages": found.pages, "matchedPages": found.matched}
    _print_report(found.report, dry_run=dry_run, as_json=as_json, more=matched)
    if not as_json:
        click.echo(f"{found.matched} of {found.pages} pages are entities of {project}")


@export.command("content")
@workspace_option
@json_option
@click.option("--project", metavar="SLUG", help="Export only this project.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "jsonl"]),
    help="Output format.  [default: from FILE's name, else json]",
)
@click.option("--replace", is_flag=True, help="Overwrite FILE if it exists.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), default="-")
def export_content(
    workspace: Path | None, as_json: bool, project: str | None, form: Any, replace: bool, file: Path
) -> None:
    """Export content as a bundle, to FILE or stdout.

    The bundle has every ID and timestamp, so importing it restores the same content. If FILE's name ends in .gz, the
    bundle is compressed.

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
def _faults_as_json(as_json: bool) -> Generator[None]:
    """Print the faults of a rejected import as JSON with --json; otherwise let the error reach stderr."""
    from carrel.content.bundle.faults import ContentRefused

    try:
        yield
    except ContentRefused as rejection:
        if not as_json:
            raise
        click.echo(json.dumps(_rejection_as_json(rejection)))
        click.get_current_context().exit(rejection.exit_status)


def _rejection_as_json(rejection: "ContentRefused") -> dict[str, Any]:
    faults = [{"place": fault.place, "message": fault.message} for fault in rejection.faults]
    return {"ok": False, "faults": faults, "faultsInAll": rejection.total}


def _print_report(report: "Report", *, dry_run: bool, as_json: bool, more: dict[str, int] | None = None) -> None:
    if as_json:
        counts = {
            key: {"added": each.added, "updated": each.updated, "unchanged": each.unchanged}
            for key, each in report.counts.items()
        }
        warnings = [{"place": each.place, "message": each.message} for each in report.warnings]
        value = {"ok": True, "dryRun": dry_run, "counts": counts, "warnings": warnings}
        click.echo(json.dumps({**value, "warningsInAll": report.warnings_in_all, **(more or {})}))
        return
    from carrel.content.bundle.faults import fault_lines

    if report.warnings:
        click.echo("warnings:", err=True)
        for line in fault_lines(report.warnings, report.warnings_in_all):
            click.echo(line, err=True)
    heading = "would be" if dry_run else ""
    click.echo(f"{heading:17} {'added':>9} {'updated':>9} {'unchanged':>9}")
    for key, each in report.counts.items():
        if each.added or each.updated or each.unchanged:
            click.echo(f"{key:17} {each.added:9} {each.updated:9} {each.unchanged:9}")
