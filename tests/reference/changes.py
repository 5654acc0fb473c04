"""A second bundle over a first: rows that are known by their ids and have become others, and some that are new."""

from random import Random
from typing import Any

from tests.reference.generate import Bundle, generate
from tests.reference.model import CLAIM_TYPES, CONCEPT_KINDS, STATUSES, Row

PROSE = ("", "  blank", "\nline", " Straße", " 漢字", " 100%", " zz", " İ", " qx")


def change(bundle: Bundle, seed: int) -> Bundle:
    """What becomes of some of the rows; all fields of each are given."""
    rng = Random(seed)
    changes: Bundle = {name: [] for name in bundle}
    for name, alter in (
        ("entities", _entity),
        ("relations", _relation),
        ("searchPerformance", _performance),
        ("quotableBlocks", _block),
    ):
        for row in rng.sample(bundle[name], len(bundle[name]) // 3):
            changes[name].append({**row, **alter(row, rng)})
    _add(bundle, changes, seed)
    return changes


def merge(bundle: Bundle, changes: Bundle) -> Bundle:
    """What is stored once both were imported."""
    merged: Bundle = {}
    for name, rows in bundle.items():
        by_id = {row["id"].lower(): row for row in (*rows, *changes[name])}
        merged[name] = list(by_id.values())
    return merged


def _text(text: str | None, rng: Random) -> str | None:
    """Another text: longer, shorter, none, or the same."""
    draw = rng.random()
    if text is None or draw < 0.5:
        return f"{text or 'new'}{rng.choice(PROSE)}"
    return text if draw < 0.8 else None


def _line(text: str, rng: Random) -> str:
    return f"{text[: rng.randint(1, 12)].strip() or 'x'}{rng.choice(PROSE)}".replace("\n", " ")


def _entity(row: Row, rng: Random) -> dict[str, Any]:
    kind = rng.choice((None, *CONCEPT_KINDS)) if row["entityType"] == "concept" else None
    return {
        "title": _line(row["title"], rng),
        "slug": f"{row['slug']}-moved" if rng.random() < 0.5 else row["slug"],
        "summary": _text(row["summary"], rng),
        "status": rng.choice(STATUSES),
        "conceptKind": kind,
        "createdAt": row["updatedAt"],
    }


def _relation(row: Row, rng: Random) -> dict[str, Any]:
    return {"notes": _text(row["notes"], rng), "createdAt": f"2025-01-{rng.randint(10, 20)}T00:00:00.000Z"}


def _performance(row: Row, rng: Random) -> dict[str, Any]:
    """The query gets the row's id, so that no two rows come to the same key."""
    query = f"{_line(row['query'], rng)} {row['id'][:8].lower()}" if rng.random() < 0.6 else row["query"]
    return {"query": query, "entityId": row["entityId"] if rng.random() < 0.7 else None, "ctr": rng.random()}


def _block(row: Row, rng: Random) -> dict[str, Any]:
    tag = _text(row["topicTag"], rng)
    return {
        "claimType": rng.choice(CLAIM_TYPES),
        "topicTag": tag.replace("\n", " ") if tag else None,
        "verifiedUntil": rng.choice((None, row["createdAt"], row["verifiedUntil"])),
    }


def _add(bundle: Bundle, changes: Bundle, seed: int) -> None:
    """Some rows of another world, in the projects of this one."""
    other = generate(seed)
    homes = {
        row["id"].lower(): next(each["id"] for each in bundle["projects"] if each["slug"] == row["slug"])
        for row in other["projects"]
    }
    for row in other["entities"][:60]:
        alone = {**row, "projectId": homes[row["projectId"].lower()], "slug": f"added-{row['slug']}"}
        alone.pop("comparisonTargets", None)
        changes["entities"].append(alone)
    for row in other["searchPerformance"][:60]:
        home = homes[row["projectId"].lower()]
        changes["searchPerformance"].append(
            {**row, "projectId": home, "query": f"{row['query']} added", "entityId": None}
        )
