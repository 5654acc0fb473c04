"""A look back at the week."""

from datetime import timedelta

from carrel.mcp.prompts import Argument, Asked, Misasked, Prompt, Written
from carrel.toolsets.prompts.steps import quoted, worded

MOST_NOTES = 20
SEARCH_DAYS = 90

WHOSE = Argument(
    "user_id",
    "User",
    "Whose tasks are looked at; not needed where the desk knows whom it serves.",
    is_required=False,
)


def weekly_review(user: str | None) -> Prompt:
    """`user` is the one user that the desk serves, if it serves one only."""

    async def write(asked: Asked) -> Written:
        return await _write(asked, asked.user or user)

    return Prompt(
        "weekly_review",
        "Weekly review",
        "Look back at the week: tasks done and open, notes that have changed, content that does poorly in search.",
        () if user else (WHOSE,),
        frozenset(["list_tasks"]),
        write,
    )


async def _write(asked: Asked, user: str | None) -> Written:
    named = asked.values.get("user_id")
    if user and named and named != user:
        raise Misasked("user_id must be your own")
    whose = user or named
    if whose:
        ask = f'Call list_tasks with user_id {quoted(whose)} and status "all".'
    else:
        ask = 'Call list_tasks with the person\'s user_id and status "all"; ask them for it if you do not know it.'
    steps = [f"{ask} Sort the tasks into done and open; ids that are higher were added later."]
    if "get_node" in asked.tools:
        steps.append(await _about_notes(asked))
    if "list_search_performance" in asked.tools:
        since = asked.today - timedelta(days=SEARCH_DAYS)
        steps.append(
            "Call list_projects. For each project call list_search_performance with "
            f'dateStart "{since}" and limit 100; without dateStart where that finds nothing. Note the pages '
            "with many impressions and few clicks, and those whose position has become worse from one period to the "
            "next. get_entity tells what such a page is."
        )
    parts = ["what was done", "what is open, the three that matter most first"]
    parts += ["what the notes say that bears on it"] if "get_node" in asked.tools else []
    parts += ["content to look after"] if "list_search_performance" in asked.tools else []
    wanted = "; ".join(parts)
    offer = (
        "Close with three suggestions for next week. Offer to add them with add_task, and add none before the person "
        "agrees."
        if "add_task" in asked.tools
        else "Close with three suggestions for next week."
    )
    return Written(
        worded(
            f"Write a weekly review for the person. Today is {asked.today}.",
            {},
            steps,
            f"Then write the review, at most a page: {wanted}. Name tasks by title, notes by id. {offer}",
        )
    )


async def _about_notes(asked: Asked) -> str:
    recent = await asked.suggest("recent note", MOST_NOTES)
    if not recent.values:
        return (
            "No note is known to have changed within the last seven days: leave notes out, unless a task names a "
            "subject; then find it and read it with get_node."
        )
    more = f" (and {recent.total - len(recent.values)} more)" if recent.total > len(recent.values) else ""
    ids = ", ".join(map(quoted, recent.values))
    return (
        f"These notes have changed within the last seven days, the newest first: {ids}{more}. Read them with get_node."
    )
