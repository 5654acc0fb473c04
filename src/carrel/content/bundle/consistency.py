"""Checks of records against each other and against stored rows."""

from collections.abc import Iterator

from carrel.content.bundle.fields import (
    BLOCKS,
    ENTITIES,
    ID_BIT,
    PERFORMANCE,
    PROJECTS,
    RELATIONS,
    SOURCES,
    Key,
    Kind,
    Ref,
)
from carrel.content.bundle.reference_resolver import keeps_key, same_key
from carrel.content.bundle.staging_tables import BROKEN, BY_ID, COMPARED, NEW, PROJECT_REFS, Stage, kind_of
from carrel.content.bundle.values import quoted
from carrel.content.field_types import ITEM_KINDS
from carrel.storage.bulk import NO_PARAMETERS, Bulk, Parameters, Row

_IN_OTHER_PROJECT = "; it is in another project"


class Consistency:
    """Reports the faults of ready rows, one kind after another."""

    def __init__(self, bulk: Bulk, stage: Stage) -> None:
        self._bulk = bulk
        self._stage = stage

    def before_matching(self, kind: Kind) -> None:
        if kind.in_project:
            self._projects(kind)
        self._other_homes(kind)
        for key in kind.keys:
            self._taken_keys(kind, key)

    def after_matching(self, kind: Kind) -> None:
        self._missing_fields(kind)
        self._duplicates(kind, Key(("id",)), "id")
        for key in kind.keys:
            self._duplicates(kind, key, "key")
        for ref in kind.refs:
            self._ends(kind, ref)
        if kind is ENTITIES:
            self._changed_types()
            self._compared()
        elif kind is SOURCES:
            self._nameless()
        elif kind is PERFORMANCE:
            self._performance()

    def _fault(self, kind: Kind, row: Row, message: str) -> None:
        """Add a fault of a row that starts with file, place and, for an item, its kind."""
        self._stage.faults.add(self._stage.place(kind_of(kind, row[2]), row[1], row[0]), message)

    def _select(self, kind: Kind, columns: str, rest: str, parameters: Parameters = NO_PARAMETERS) -> Iterator[Row]:
        item_kind = "s.kind" if kind.is_open else "NULL"
        return self._bulk.rows(f"SELECT s.file, s.place, {item_kind}, {columns} FROM {rest} ORDER BY s.n", parameters)

    def _projects(self, kind: Kind) -> None:
        rest = f"""
            {kind.ready} s JOIN {kind.staged} r ON r.n = s.n JOIN {PROJECT_REFS} p ON p.n = r.project
            WHERE p.pk IS NULL
              AND NOT EXISTS (SELECT 1 FROM {BROKEN} b WHERE b.name = p.id OR b.name = p.slug)
        """
        for row in self._select(kind, "p.id, p.slug", rest):
            named = f"with the id {row[3]}" if row[3] else row[4]
            self._fault(kind, row, f"there is no project {named}: add it to projects, or create it first")

    def _other_homes(self, kind: Kind) -> None:
        """Report ids that belong to another project or another kind of item: an id never moves."""
        if kind.in_project:
            rest = f"{kind.ready} s WHERE s.found = {BY_ID} AND s.home <> s.project_pk"
            for row in self._select(kind, "s.id", rest):
                message = f"the id {row[3]} is that of a record in another project: leave the id out"
                self._fault(kind, row, message)
        if kind is SOURCES:
            rest = f"ready_item s JOIN item t ON t.pk = s.pk WHERE s.found = {BY_ID} AND t.kind <> s.kind"
            for row in self._select(kind, "s.id, t.kind", rest):
                self._fault(kind, row, f"the id {row[3]} is that of a {row[4]}: leave the id out")

    def _taken_keys(self, kind: Kind, key: Key) -> None:
        """Report records whose key belongs to a stored row with a different id."""
        rest = f"""
            {kind.ready} s JOIN {kind.table} t ON {same_key(key)}
            WHERE (s.given & {ID_BIT}) <> 0 AND t.id <> s.id AND {keeps_key(kind)}
              AND (s.found = {NEW} OR EXISTS (SELECT 1 FROM moved_{kind.table} o WHERE o.pk = s.pk))
        """
        for row in self._select(kind, f"t.id, {_label(kind)}", rest):
            self._fault(kind, row, f"{row[4]} has the id {row[3]} already: give that id, or none")

    def _missing_fields(self, kind: Kind) -> None:
        needed = {field.name: kind.bits[field.name] for field in kind.fields.values() if field.needed}
        needed |= {ref.name: kind.bits[ref.name] for ref in kind.refs if ref.needed}
        if kind.in_project:
            needed["project"] = kind.bits["project"]
        every = sum(needed.values())
        rest = f"{kind.ready} s WHERE s.found = {NEW} AND (s.given & {every}) <> {every}"
        for row in self._select(kind, "s.given, s.id", rest):
            names = ", ".join(name for name, bit in needed.items() if not row[3] & bit)
            verb = "is" if "," not in names else "are"
            self._fault(kind, row, f"{names} {verb} missing, and nothing with the id {row[4]} is stored yet")

    def _duplicates(self, kind: Kind, key: Key, what: str) -> None:
        columns = ", ".join(key.columns)
        present = [f"{column} IS NOT NULL" for column in key.columns]
        if key.where:
            present.append(key.where.format(kind.ready))
        if what == "id":
            present.append(f"(given & {ID_BIT}) <> 0")
        groups = f"""
            SELECT {columns}, min(n) AS first FROM {kind.ready} WHERE {" AND ".join(present)}
            GROUP BY {columns} HAVING count(*) > 1
        """
        same = " AND ".join(f"s.{column} = g.{column}" for column in key.columns)
        rest = f"""
            ({groups}) g JOIN {kind.ready} s ON {same} AND s.n > g.first JOIN {kind.ready} f ON f.n = g.first
            {"WHERE " + key.where.format("s") if key.where else ""}
        """
        has_duplicates = False
        for row in self._select(kind, f"f.file, f.place, {_label(kind)}", rest):
            has_duplicates = True
            first = self._stage.place(kind_of(kind, row[2]), row[4], row[3]).text
            if what == "id":
                self._fault(kind, row, f"it has the same id as {first}: leave one of them out")
            else:
                self._fault(kind, row, f"{row[5]} is there already, at {first}: leave one of them out")
        if has_duplicates:  # nothing will be written; what refers to them is to find one of them
            others = f"SELECT s.n FROM {rest}"
            self._bulk.execute(f"DELETE FROM {kind.ready} WHERE n IN ({others})")

    def _ends(self, kind: Kind, ref: Ref) -> None:
        r = ref.name
        item = f", r.{r}_item_id, r.{r}_item_key" if ref.to_items else ", NULL, NULL"
        name = f"coalesce(r.{r}_id, r.{r}_kind || :colon || r.{r}_key)"
        if ref.to_items:
            name = f"coalesce(r.{r}_id, r.{r}_item_id, r.{r}_kind || :colon || coalesce(r.{r}_key, r.{r}_item_key))"
        type_column = "s.relation_type" if kind is RELATIONS else "NULL"
        slug = "(SELECT o.slug FROM project o WHERE o.pk = s.project_pk)"
        ready_slug = "(SELECT o.slug FROM ready_project o WHERE o.pk = s.project_pk)"
        rest = f"""
            {kind.ready} s JOIN {kind.staged} r ON r.n = s.n
            WHERE s.{r}_problem IS NOT NULL AND s.project_pk IS NOT NULL
              AND NOT EXISTS (SELECT 1 FROM {BROKEN} b WHERE b.name = {name})
        """
        columns = (
            f"s.{r}_problem, r.{r}_kind, r.{r}_id, r.{r}_key{item}, {type_column}, coalesce({ready_slug}, {slug}), "
            "s.project_pk"
        )
        for row in self._select(kind, columns, rest, {"colon": ":"}):
            problem, end_kind, entity_id, entity_key, item_id, item_key, relation_type, project, project_pk = row[3:]
            identifier, key = entity_id or item_id, entity_key or item_key
            called = f"{end_kind or 'entity'} with the id {identifier}" if identifier else f"{end_kind}:{key}"
            if problem == "ambiguous":
                message = (
                    f"several have the title {quoted(key)} in the project {project}: name the one by its url or id"
                )
            elif problem in ("missing", "elsewhere"):
                message = f"there is no {called} in the project {project}"
                if problem == "elsewhere" or (key and self._is_elsewhere(end_kind, key, project_pk)):
                    message += _IN_OTHER_PROJECT
            else:
                message = f"{relation_type} leads {r} a {end_kind}, and {identifier} is a {problem}"
            self._fault(kind, row, f"{r}: {message}")

    def _is_elsewhere(self, kind: str, key: str, project_pk: int) -> bool:
        """Whether another project has a record of that name; queried project by project, since the indexes start with
        it."""
        if self._stage.faults.is_full:
            return False
        is_item = kind in ITEM_KINDS
        table, type_column = ("item", "kind") if is_item else ("entity", "entity_type")
        ways = [
            f"SELECT 1 FROM {projects} p CROSS JOIN {prefix}{table} o "
            f"WHERE o.project_pk = p.pk AND p.pk <> :project AND o.{type_column} = :kind AND o.{name} = :key"
            for prefix, projects in (("", "project"), ("ready_", PROJECT_REFS))
            for name in (("url", "title") if is_item else ("slug",))
        ]
        values = {"kind": kind, "key": key, "project": project_pk}
        return any(self._bulk.first(f"{each} LIMIT 1", values) is not None for each in ways)

    def _changed_types(self) -> None:
        rest = f"""
            ready_entity s JOIN entity t ON t.pk = s.pk
            WHERE s.found = {BY_ID} AND s.entity_type <> t.entity_type AND (
                EXISTS (SELECT 1 FROM relation r WHERE r.project_pk = t.project_pk AND r.from_pk = t.pk)
                OR EXISTS (SELECT 1 FROM relation r WHERE r.project_pk = t.project_pk AND r.to_pk = t.pk))
        """
        for row in self._select(ENTITIES, "t.entity_type, t.slug, s.entity_type", rest):
            message = (
                f"{row[3]}:{row[4]} cannot become a {row[5]} while relations depend on its type: remove them first"
            )
            self._fault(ENTITIES, row, message)

    def _compared(self) -> None:
        rest = f"""
            {COMPARED} c JOIN ready_entity s ON s.n = c.entity
            LEFT JOIN ready_entity a ON a.id = c.target AND a.project_pk = s.project_pk
            LEFT JOIN entity b ON b.id = c.target AND b.project_pk = s.project_pk
            WHERE a.n IS NULL AND b.pk IS NULL AND s.project_pk IS NOT NULL
              AND NOT EXISTS (SELECT 1 FROM {BROKEN} x WHERE x.name = c.target)
        """
        for row in self._select(ENTITIES, "c.target", rest):
            place = self._stage.place(ENTITIES, row[1], row[0])
            self._stage.warnings.add(place, f"comparisonTargets: no entity of the project has the id {row[3]}")

    def _nameless(self) -> None:
        for row in self._select(SOURCES, "s.id", "ready_item s WHERE s.url IS NULL AND s.title IS NULL"):
            self._fault(SOURCES, row, "url or title must be there: one of them")

    def _performance(self) -> None:
        """Report partial records that are inconsistent once merged with the stored row."""
        rest = f"""
            ready_search_performance s WHERE s.found <> {NEW}
            AND (s.clicks > s.impressions OR s.date_start > s.date_end OR (s.query = '' AND s.page_url = ''))
        """
        for row in self._select(PERFORMANCE, "s.clicks, s.impressions, s.date_start, s.date_end", rest):
            if row[3] > row[4]:
                self._fault(PERFORMANCE, row, f"clicks must not be more than impressions: {row[3]} of {row[4]}")
            elif row[5] > row[6]:
                self._fault(PERFORMANCE, row, "dateStart must not be after dateEnd")
            else:
                self._fault(PERFORMANCE, row, "query and pageUrl must not both be empty")


def _label(kind: Kind) -> str:
    """Return the SQL expression for the name of a ready row `s` in messages."""
    return {
        PROJECTS.table: "s.slug",
        ENTITIES.table: "s.entity_type || ':' || s.slug",
        SOURCES.table: "s.kind || ':' || coalesce(s.url, s.title)",
        RELATIONS.table: "s.relation_type",
        PERFORMANCE.table: "coalesce(nullif(s.query, ''), s.page_url)",
        BLOCKS.table: "s.claim_type",
    }[kind.table]
