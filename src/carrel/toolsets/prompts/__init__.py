"""Prompts that people pick, over the tools of several contracts."""

from carrel.mcp.prompts import Prompt
from carrel.toolsets.prompts.explain_module import EXPLAIN_MODULE
from carrel.toolsets.prompts.plan_from_notes import PLAN_FROM_NOTES
from carrel.toolsets.prompts.refresh_stale_content import REFRESH_STALE_CONTENT
from carrel.toolsets.prompts.weekly_review import weekly_review

__all__ = ["desk_prompts"]


def desk_prompts(*, user: str | None) -> tuple[Prompt, ...]:
    """All that there are; `user` is the one user that the desk serves, if it serves one only."""
    return weekly_review(user), EXPLAIN_MODULE, PLAN_FROM_NOTES, REFRESH_STALE_CONTENT
