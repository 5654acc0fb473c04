"""Content that has not been looked after."""

from datetime import timedelta

from carrel.mcp.prompts import Argument, Asked, Prompt, Written
from carrel.toolsets.prompts.steps import quoted, worded

STALE_DAYS = 180
EXPIRING_DAYS = 60

PROJECT = Argument("project", "Project", "The slug of the project, such as slow-bread.", kind="project")


async def _write(asked: Asked) -> Written:
    project = asked.values["project"]
    stale, expiring = (asked.today + timedelta(days=days) for days in (-STALE_DAYS, EXPIRING_DAYS))
    steps = [
        f"Call list_projects with limit 100 and take the id of the project with slug {quoted(project)}. If there is "
        "none, name those that there are, and stop.",
        'Call search_entities with that projectId, status "published" and limit 100, page by page while '
        f"pagination.hasMore. Stale is what was last verified (lastVerifiedAt, else updatedAt) before {stale}.",
        f'Call list_quotable_blocks with verifiedUntilBefore "{expiring}" and limit 100: blocks that have expired, or '
        f"will by then. Today is {asked.today}.",
        "Call list_search_performance with limit 100, page by page; add up impressions and clicks of each entity in "
        "its newest period, and compare with the one before.",
        "For the five that matter most (many impressions, falling clicks or position, expired blocks), call get_entity "
        "and get_entity_graph with depth 1 to see what else mentions them.",
    ]
    return Written(
        worded(
            "Find the content of a project that needs to be refreshed, and say how.",
            {"project": project},
            steps,
            "Then write a table, the most urgent first: title, type, last verified, impressions and clicks with their "
            "change, blocks that expire and when, and what to do in one sentence. Below it, for the first three: which "
            "claims to check against which source, and which neighbours to change with them. Change nothing yourself.",
        )
    )


REFRESH_STALE_CONTENT = Prompt(
    "refresh_stale_content",
    "Refresh stale content",
    "Find a project's content that is out of date, does worse in search, or has blocks about to expire.",
    (PROJECT,),
    frozenset(
        [
            "list_projects",
            "search_entities",
            "get_entity",
            "get_entity_graph",
            "list_search_performance",
            "list_quotable_blocks",
        ]
    ),
    _write,
)
