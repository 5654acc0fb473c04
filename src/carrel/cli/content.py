"""`carrel content`: list, show, add, and edit content by hand.

The field options of `add` and `edit` are derived from the field lists of bundles, so that a new field of an entity
needs no change here.
"""

import json
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from carrel.cli.db import json_option
from carrel.cli.terminal import workspace_option
from carrel.content.bundle.fields import BLOCKS, ENTITIES, PROJECTS, RELATIONS, SOURCES, Kind
from carrel.content.field_types import CLAIM_TYPES, CONCEPT_KINDS, DIFFICULTIES, ENTITY_TYPES, RELATION_TYPES, STATUSES
from carrel.errors import UsageError
from carrel.untrusted import load_json

if TYPE_CHECKING:
    from carrel.content.lookup import StoredRecord
    from carrel.storage.bulk import Bulk

Command = TypeVar("Command", bound=Callable[..., Any])

ITEM_TYPES = {"source": "sourceItem", "video": "video", "distribution": "distributionEvent"}
_READ_ONLY_FIELDS = ("id", "createdAt", "updatedAt", "kind", "details")

project_option = click.option(
    "--project", metavar="SLUG", help="The project; required if there are several.", default=None
)


def _options() -> dict[str, str]:
    """Map each field option's parameter name to its field name."""
    kinds = (ENTITIES, PROJECTS, SOURCES, BLOCKS)
    names = dict.fromkeys(name for kind in kinds for name in kind.fields if name not in _READ_ONLY_FIELDS)
    return {_parameter(name): name for name in (*names, "entity")}


def _parameter(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


OPTIONS = _options()


_DATE_HELP = "A date, YYYY-MM-DD, or a time, YYYY-MM-DDTHH:mm:ssZ."
_HELP = {
    "entityType": f"{', '.join(ENTITY_TYPES)}.",
    "slug": "Short name for commands and URLs, without spaces.",
    "title": "At most 500 characters.",
    "difficulty": f"{', '.join(DIFFICULTIES)}.",
    "conceptKind": f"{', '.join(CONCEPT_KINDS)}; concepts only.",
    "comparisonTargets": "REFs of the entities that a comparison compares, separated by commas.",
    "status": f"{', '.join(STATUSES)}.",
    "canonicalUrl": "The URL that it is published at.",
    "contentRef": "Where its text is kept.",
    "publishedAt": _DATE_HELP,
    "archivedAt": _DATE_HELP,
    "lastVerifiedAt": _DATE_HELP,
    "name": "Name of a project.",
    "description": "Description of a project.",
    "url": "URL of a source, video, or distribution.",
    "text": "Text of a block; 25 to 50 words are best.",
    "claimType": f"Claim type of a block: {', '.join(CLAIM_TYPES)}.",
    "sourceCitation": "Citation of a block's source.",
    "verifiedUntil": "Date until which a block is verified.",
    "topicTag": "Topic of a block.",
    "entity": "REF of the entity that a block belongs to.",
}


def field_options(command: Command) -> Command:
    for parameter, name in reversed(OPTIONS.items()):
        words = f"--{parameter.replace('_', '-')}"
        command = click.option(words, parameter, metavar="TEXT", help=_HELP.get(name))(command)
    return click.option(
        "--set",
        "others",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set any other field of a source, video, or distribution.",
    )(command)


@click.group()
def content() -> None:
    """Group the commands; the help text is in `carrel.cli.app`, which imports this module lazily."""


@content.command()
@workspace_option
@json_option
def projects(workspace: Path | None, as_json: bool) -> None:
    """List projects."""
    from carrel.content import lookup

    with _open(workspace) as bulk:
        found = lookup.projects(bulk)
    if as_json:
        click.echo(json.dumps(found))
    for each in [] if as_json else found:
        click.echo(f"{each['slug']:24} {each['entities']:7} entities  {each['name']}")


@content.command("list")
@workspace_option
@json_option
@project_option
@click.option("--type", "entity_type", type=click.Choice(ENTITY_TYPES), help="Show only this type.")
@click.option("--status", type=click.Choice(STATUSES), help="Show only this status.")
@click.option("--search", metavar="TEXT", help="Show only entities with this text in the title or slug.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number to show.")
def list_(workspace: Path | None, as_json: bool, **filters: Any) -> None:
    """List entities, most recently changed first.

    \b
    carrel content list --project reef --type guide --status draft
    carrel content list --search plankton
    """
    from carrel.content import lookup

    with _open(workspace) as bulk:
        found, total = lookup.entities(bulk, **filters)
    if as_json:
        click.echo(json.dumps({"entities": found, "total": total}, ensure_ascii=False))
        return
    for each in found:
        ref = f"{each['entityType']}:{each['slug']}"
        click.echo(f"{each['project']:16} {ref:40} {each['status']:17} {each['title']}")
    if total > len(found):
        click.echo(f"{total - len(found)} more; see --limit", err=True)


@content.command()
@workspace_option
@json_option
@project_option
@click.argument("ref")
def show(workspace: Path | None, as_json: bool, project: str | None, ref: str) -> None:
    """Show a record's fields, and an entity's relations.

    \b
    carrel content show guide:intro --project reef
    """
    from carrel.content import lookup

    with _open(workspace) as bulk:
        record = lookup.describe(bulk, lookup.find_record(bulk, ref, project))
    if as_json:
        click.echo(json.dumps(record, ensure_ascii=False))
        return
    relations = record.pop("relations", [])
    for name, value in record.items():
        if value is not None:
            click.echo(f"{name + ':':20} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    for each in relations:
        notes = f"  ({each['notes']})" if each["notes"] else ""
        click.echo(f"  {each['from']} {each['relationType']} {each['to']}{notes}  {each['id']}")


@content.command("add-project")
@workspace_option
@click.argument("name")
@click.option("--slug", metavar="TEXT", help="Short name for commands and URLs.  [default: derived from NAME]")
@click.option("--description", metavar="TEXT", help="What the project is about.")
def add_project(workspace: Path | None, name: str, slug: str | None, description: str | None) -> None:
    """Create a project.

    All other content belongs to a project.

    \b
    carrel content add-project "Life on the Reef" --slug reef
    """
    from carrel.content import lookup

    record = {"name": name, "slug": slug or slug_of(name), "description": description}
    with _open(workspace, create=True) as bulk:
        if lookup.find_record_or_none(bulk, record["slug"] or "", None) is not None:
            raise UsageError(f"project {record['slug']} already exists; change it with carrel content edit")
        _write(bulk, PROJECTS, {key: value for key, value in record.items() if value is not None})
    click.echo(f"added the project {record['slug']}")


@content.command()
@workspace_option
@project_option
@click.argument("type_", metavar="TYPE", type=click.Choice([*ENTITY_TYPES, *ITEM_TYPES, "block"]))
@click.argument("words", metavar="TEXT")
@field_options
def add(workspace: Path | None, project: str | None, type_: str, words: str, **options: Any) -> None:
    """Add an entity, a source, a video, or a block.

    TYPE is guide, concept, project, or news for an entity; source, video, or distribution for an external item; or
    block for a quotable passage. TEXT is the title, or the text of a block. Unless you pass --slug, an entity's slug is
    derived from its title.

    \b
    carrel content add guide "Reading a tide table" --project reef --difficulty beginner
    carrel content add source "Atlas of Corals" --url https://example.org/atlas --set year=1998
    carrel content add block "A reef is ..." --entity concept:reef --claim-type definition
    """
    from carrel.content import lookup

    with _open(workspace) as bulk:
        slug = lookup.resolve_project(bulk, project)[1]
        kind = BLOCKS if type_ == "block" else _item_kind(type_) if type_ in ITEM_TYPES else ENTITIES
        record = {
            "project": slug,
            ("text" if kind is BLOCKS else "title"): words,
            **_record_from_options(bulk, slug, kind, options),
        }
        if kind is ENTITIES:
            record = {"entityType": type_, "slug": slug_of(words), **record}
            key = f"{type_}:{record['slug']}"
        else:
            key = f"{ITEM_TYPES.get(type_, '')}:{record.get('url') or words}"
        if kind is not BLOCKS and lookup.find_record_or_none(bulk, key, slug) is not None:
            raise UsageError(f"{key} already exists; change it with carrel content edit")
        report = _write(bulk, kind, record)
    done = "added" if report.counts[kind.key].added else "unchanged:"
    click.echo(f"{done} {key if kind is not BLOCKS else 'the block'}")


@content.command()
@workspace_option
@project_option
@click.argument("ref")
@field_options
def edit(workspace: Path | None, project: str | None, ref: str, **options: Any) -> None:
    """Change fields of a record. Empty text clears a field.

    \b
    carrel content edit guide:intro --status published --published-at 2026-03-01
    carrel content edit guide:intro --summary ""
    """
    from carrel.content import lookup

    with _open(workspace) as bulk:
        found = lookup.find_record(bulk, ref, project)
        changes = _record_from_options(bulk, found.project, found.kind, options)
        if not changes:
            raise UsageError("nothing to change; pass an option for each field to change, such as --title")
        report = _write(bulk, found.kind, {"id": found.id, **changes})
        counts = report.counts[found.kind.key]
    click.echo(f"changed {found.name}" if counts.updated else f"{found.name} is unchanged")


@content.command()
@workspace_option
@project_option
@click.argument("start", metavar="FROM")
@click.argument("relation_type", metavar="TYPE", type=click.Choice(RELATION_TYPES, case_sensitive=False))
@click.argument("end", metavar="TO")
@click.option("--notes", metavar="TEXT", help="Notes on the relation.")
def relate(
    workspace: Path | None, project: str | None, start: str, relation_type: str, end: str, notes: str | None
) -> None:
    """Relate two records.

    The name of TYPE says which kinds of records it connects.

    \b
    carrel content relate guide:intro GUIDE_USES_CONCEPT concept:tide
    carrel content relate "video:The night shift" VIDEO_EXPLAINS_GUIDE guide:intro

    To remove a relation, pass its ID, which `carrel content show` lists, to `carrel content remove`.
    """
    from carrel.content import lookup

    with _open(workspace) as bulk:
        ends = [lookup.find_record(bulk, each, project) for each in (start, end)]
        record = {
            "project": ends[0].project,
            "relationType": relation_type,
            "fromEntityId": ends[0].id,
            "toEntityId": ends[1].id,
        }
        for name, found in zip(("fromEntityType", "toEntityType"), ends, strict=True):
            record[name] = found.name.partition(":")[0]
        report = _write(bulk, RELATIONS, record if notes is None else {**record, "notes": notes or None})
        counts = report.counts[RELATIONS.key]
    done = "related" if counts.added else "changed the notes of" if counts.updated else "unchanged:"
    click.echo(f"{done} {ends[0].name} {relation_type} {ends[1].name}")


@content.command()
@workspace_option
@project_option
@click.option("--yes", is_flag=True, help="Remove without asking for confirmation.")
@click.argument("ref")
def remove(workspace: Path | None, project: str | None, yes: bool, ref: str) -> None:
    """Remove a record and everything that depends on it.

    \b
    carrel content remove guide:intro --project reef
    """
    from carrel.content import lookup

    with _open(workspace) as bulk:
        found = lookup.find_record(bulk, ref, project)
        target = f"the {found.kind.one} {found.name}"
        effects = _effects(lookup.count_dependents(bulk, found), found)
        if not yes:
            click.confirm(f"remove {target}{effects}?", abort=True, err=True)
        lookup.remove(bulk, found)
    click.echo(f"removed {target}{effects}")


def _effects(counts: dict[str, int], found: "StoredRecord") -> str:
    words = {name.removesuffix("InAll"): count for name, count in counts.items() if count}
    kept = words.pop("searchPerformance", 0) if found.kind is ENTITIES else 0
    removed = f" with its {', '.join(f'{count} {name}' for name, count in words.items())}" if words else ""
    return removed + (f"; {kept} search performance rows are kept without it" if kept else "")


@contextmanager
def _open(workspace: Path | None, *, create: bool = False) -> "Generator[Bulk]":
    from carrel.storage.bulk import open_bulk
    from carrel.workspace import find_workspace

    with open_bulk(find_workspace(workspace).location, create=create) as bulk:
        yield bulk


def _write(bulk: "Bulk", kind: Kind, record: dict[str, Any]) -> Any:
    from carrel.content import lookup

    report = lookup.write(bulk, kind, record)
    for warning in report.warnings:
        click.echo(f"warning: {warning}", err=True)
    return report


def _item_kind(type_: str) -> Kind:
    from carrel.content.bundle.staging_tables import ITEM_KEYS

    return ITEM_KEYS[ITEM_TYPES[type_]]


def _record_from_options(bulk: "Bulk", project: str, kind: Kind, options: dict[str, Any]) -> dict[str, Any]:
    """Read a record's fields from the options."""
    from carrel.content import lookup

    record: dict[str, Any] = {}
    for parameter, name in OPTIONS.items():
        value = options[parameter]
        if value is None:
            continue
        field = kind.fields.get(name)
        record[name] = None if value == "" and field is not None and field.nullable else value
        if name == "comparisonTargets" and value:
            record[name] = [lookup.find_record(bulk, each, project).id for each in re.split(r"[,\s]+", value) if each]
    for each in options["others"]:
        name, equals, value = each.partition("=")
        if not equals or not kind.is_open:
            raise UsageError(f"--set {each}: must be NAME=VALUE, and only for a source, a video, or a distribution")
        record[name] = _value(value)
    return record


def _value(text: str) -> Any:
    """Parse a value as JSON; text that is not JSON stands for itself, and an empty one for null."""
    try:
        return load_json(text) if text else None
    except ValueError:
        return text


def slug_of(title: str) -> str:
    from carrel.content.field_types import fold

    slug = re.sub(r"[\W_]+", "-", fold(title)).strip("-")[:100].strip("-")
    if not slug:
        raise UsageError("cannot derive a slug from the title; pass --slug")
    return slug
