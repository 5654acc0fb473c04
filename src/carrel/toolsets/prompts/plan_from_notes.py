"""A plan out of what was noted down."""

from carrel.mcp.prompts import Argument, Asked, Embedded, Prompt, Written
from carrel.toolsets.prompts.steps import quoted, worded

MOST_EMBEDDED = 10_000
"""Characters; a longer note is read with get_node."""

NOTE = Argument(
    "note",
    "Note or topic",
    "A note's id, such as ideas/garden.md, or a topic that notes are about.",
    kind="note",
)


async def _write(asked: Asked) -> Written:
    from carrel.toolsets.notes.resources import uri_of  # which brings all of the notes with it

    named = asked.values["note"]
    found = await asked.read(uri_of(named))
    steps = _from_note(named, found) if found else _from_topic(named, asked)
    steps.append(
        "Call get_neighbors on the note that matters most, in both directions, and read what bears on the plan."
    )
    if "list_tasks" in asked.tools:
        whose = f"user_id {quoted(asked.user)}" if asked.user else "the person's user_id"
        steps.append(f"Call list_tasks with {whose}, so that nothing is planned twice.")
    offer = (
        " Offer to put the steps on the task list with add_task, and add none before the person agrees."
        if "add_task" in asked.tools
        else ""
    )
    embedded = (found,) if found and len(found.text) <= MOST_EMBEDDED else ()
    return Written(
        worded(
            "Make a plan from the person's notes.",
            {"note or topic": named},
            steps,
            "Then write the plan: the goal in a sentence; what is known, with the ids of the notes that say so; "
            f"at most ten steps in order, each small enough for a day, with what it waits for; open questions.{offer}",
        ),
        embedded,
    )


def _from_note(named: str, found: Embedded) -> list[str]:
    if len(found.text) <= MOST_EMBEDDED:
        return [f"Read the note {quoted(named)}, which is attached, and call get_node on it with depth 1."]
    return [f"Call get_node with id {quoted(named)} and depth 1, and read it."]


def _from_topic(named: str, asked: Asked) -> list[str]:
    if "search" in asked.tools:
        return [f"Call search with query {quoted(named)} and limit 10, and read the notes that fit with get_node."]
    return [
        f"Call search_by_tags with the words of {quoted(named)} as tags, mode any, and read what fits with get_node; "
        "get_hubs shows where to begin where no tag fits."
    ]


PLAN_FROM_NOTES = Prompt(
    "plan_from_notes",
    "Plan from notes",
    "Make a plan from a note, or from all notes about a topic.",
    (NOTE,),
    frozenset(["get_node", "get_neighbors", "search_by_tags"]),
    _write,
)
