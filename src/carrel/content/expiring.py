"""A project's quotable blocks whose word runs out, or has run out already."""

from typing import NamedTuple

from carrel.content.blocks import BlockFilter, BlockRepository
from carrel.content.page import Page
from carrel.content.projects import Project
from carrel.storage.database import Session


class ExpiringBlock(NamedTuple):
    id: str
    text: str
    claim_type: str
    topic_tag: str | None
    verified_until: int
    entity_id: str
    entity_title: str


async def expiring_blocks(session: Session, project: Project, until: int, limit: int) -> Page[ExpiringBlock]:
    """Those that are verified no longer than until then, the soonest first."""
    rows = await session.all(
        f"""
        SELECT kept.id, kept.text, kept.claim_type, kept.topic_tag, kept.verified_until, entity.id, entity.title
        FROM (
            SELECT pk, verified_until, id FROM quotable_block {session.syntax.using("quotable_block_by_expiry")}
            WHERE project_pk = :project AND verified_until <= :until ORDER BY verified_until, id LIMIT :limit
        ) AS soonest
        JOIN quotable_block AS kept ON kept.pk = soonest.pk JOIN entity ON entity.pk = kept.entity_pk
        ORDER BY soonest.verified_until, soonest.id
        """,
        {"project": project.pk, "until": until, "limit": limit},
    )
    total = await BlockRepository(session, project).total(BlockFilter(verified_until_before=until))
    return Page([ExpiringBlock(*row) for row in rows], total)
