"""The closed sets of words in content."""

from collections import Counter
from typing import Literal, get_args

EntityType = Literal["guide", "concept", "project", "news"]
EntityStatus = Literal["draft", "publish_requested", "published", "archived"]
ConceptKind = Literal["standard", "model", "comparison"]
Difficulty = Literal["beginner", "intermediate", "advanced"]
ClaimType = Literal["statistic", "comparison", "definition", "howto_step"]
RelationType = Literal[
    "GUIDE_USES_CONCEPT",
    "GUIDE_EXPLAINS_CONCEPT",
    "GUIDE_REFERENCES_SOURCE",
    "CONCEPT_RELATES_TO_CONCEPT",
    "CONCEPT_REFERENCES_SOURCE",
    "NEWS_DERIVED_FROM_SOURCE",
    "NEWS_REFERENCES_SOURCE",
    "NEWS_REFERENCES_CONCEPT",
    "PROJECT_IMPLEMENTS_CONCEPT",
    "PROJECT_REFERENCES_SOURCE",
    "PROJECT_HAS_GUIDE",
    "DISTRIBUTION_PROMOTES_GUIDE",
    "DISTRIBUTION_PROMOTES_CONCEPT",
    "DISTRIBUTION_PROMOTES_PROJECT",
    "DISTRIBUTION_PROMOTES_NEWS",
    "VIDEO_EXPLAINS_GUIDE",
    "VIDEO_EXPLAINS_CONCEPT",
    "VIDEO_EXPLAINS_PROJECT",
    "VIDEO_EXPLAINS_NEWS",
]
RELATION_TYPES: tuple[str, ...] = get_args(RelationType)
ENTITY_TYPES: tuple[str, ...] = get_args(EntityType)
STATUSES: tuple[str, ...] = get_args(EntityStatus)
CONCEPT_KINDS: tuple[str, ...] = get_args(ConceptKind)
DIFFICULTIES: tuple[str, ...] = get_args(Difficulty)
CLAIM_TYPES: tuple[str, ...] = get_args(ClaimType)

SOURCE, VIDEO, DISTRIBUTION = "sourceItem", "video", "distributionEvent"
ITEM_KINDS = (SOURCE, VIDEO, DISTRIBUTION)
"""What a relation can end in besides entities."""

_KINDS = {kind.upper(): kind for kind in ENTITY_TYPES} | {
    "SOURCE": SOURCE,
    "VIDEO": VIDEO,
    "DISTRIBUTION": DISTRIBUTION,
}
ENDS = {name: (_KINDS[name.partition("_")[0]], _KINDS[name.rpartition("_")[2]]) for name in RELATION_TYPES}
"""The kinds of a relation's two ends, which its name tells."""
MOST_PARALLEL = max(Counter(ENDS.values()).values())
"""How many relations can lead from one entity to another: one of each type that fits them."""
