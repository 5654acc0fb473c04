"""The links to a note that gets another title, in the texts of all notes that have one."""

from collections.abc import Callable
from typing import Final

from carrel.notes.drafting import Draft
from carrel.notes.facts import decoded, encoded, facts_of
from carrel.notes.names import SUFFIX, key, name_of, stem
from carrel.notes.neo4j.connecting import Transaction
from carrel.notes.neo4j.linking import Known, Resolver, Saying, candidates
from carrel.notes.neo4j.records import file_id
from carrel.notes.rewriting import Name, links_to_change, rewritten

LINKING: Final = """
MATCH (n:Node)-[:LINKS_TO]->(:Node {id: $id}) WHERE n.id <> $id
RETURN DISTINCT n.id AS id, n.head AS head, n.content AS content
"""


async def rewritten_links(transaction: Transaction, note: Known, draft: Draft) -> dict[str, str]:
    """The texts that change, by id: those of notes that link to it, and its own, which is the last."""
    facts = facts_of(file_id(draft.id), draft.content)
    before, after = Name(file_id(note.id), note.title), Name(file_id(draft.id), facts.title)
    texts = {
        row["id"]: (row["head"] or "") + (row["content"] or "") for row in await transaction.run(LINKING, id=note.id)
    }
    texts[note.id] = decoded(draft.content)
    sayings = [Saying(each, facts_of(file_id(each), encoded(text)).targets) for each, text in texts.items()]
    possible = [Saying(saying.id, [*saying.targets, *_new_names(after)]) for saying in sayings]
    others = [other for other in await candidates(transaction, possible) if other.id != note.id]
    old, new = Resolver([*others, note]), Resolver([*others, Known(draft.id, facts.title, facts.aliases)])
    changed: dict[str, str] = {}
    for saying in sayings:
        leads = _leading(old, saying.folder, note.id)
        changes = links_to_change(
            texts[saying.id],
            leads_there={target for target in saying.targets if leads(target)}.__contains__,
            will_lead_there=_leading(new, saying.folder, draft.id),
            before=before,
            after=after,
        )
        if changes or saying.id == note.id:
            text = decoded(rewritten(encoded(texts[saying.id]), changes))
            changed[draft.id if saying.id == note.id else saying.id] = text
    return changed


def _new_names(after: Name) -> list[str]:
    """All that a link may come to say."""
    names = [key(name) for name in (after.title, name_of(after.id), stem(after.id))]
    return [*names, *(name + SUFFIX for name in names)]


def _leading(resolver: Resolver, folder: str, note_id: str) -> Callable[[str], bool]:
    return lambda target: resolver.resolve(target, folder) == note_id
