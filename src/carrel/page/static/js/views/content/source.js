/** Where content comes from: the bridge toolset, or catalog where only that is served; both in one shape. */

import { ask } from "../../asking.js";
import { data } from "../../mcp.js";

export const TYPES = ["guide", "concept", "project", "news"];
export const STATUSES = ["draft", "publish_requested", "published", "archived"];

const PAGE = 20;
const MOST = 100;
const MOST_PAGES = 10;

/** @param {{toolsets: {name: string}[]}} desk */
export function contentSource(desk) {
  const served = new Set(desk.toolsets.map((toolset) => toolset.name));
  if (served.has("bridge")) return new Bridge(served.has("catalog"));
  return served.has("catalog") ? new Catalog() : null;
}

/** Search performance, one point a period; of a project or of one of its entities. */
export function performance(project, entity) {
  return data("performance", entity ? { project, entity } : { project });
}

/** Blocks that expire within some days, or have expired. */
export function expiring(project, days) {
  return data("blocks", { project, days });
}

class Bridge {
  hasStatus = true;
  hasRows = true;

  /** @param {boolean} hasCatalog catalog knows some fields of an entity that bridge does not */
  constructor(hasCatalog) {
    this.hasCatalog = hasCatalog;
  }

  async projects() {
    return (await allPages("list_projects", {})).rows;
  }

  async entities(project, { search, type, status, page }) {
    const args = { projectId: project, page, limit: PAGE };
    if (search) args.search = search;
    if (type) args.entityType = type;
    if (status) args.status = status;
    const answer = await ask("bridge", "search_entities", args);
    return {
      rows: answer.data,
      total: answer.pagination.total,
      first: (page - 1) * PAGE,
      hasMore: answer.pagination.hasMore,
    };
  }

  async entity(project, id) {
    const args = { projectId: project, entityId: id };
    const [more, known] = await Promise.all([
      this.hasCatalog ? ask("catalog", "get_entity", args) : { entity: {} },
      ask("bridge", "get_entity", args),
    ]);
    return { ...more.entity, ...known.data };
  }

  async relations(project, id) {
    const { data: graph } = await ask("bridge", "get_entity_graph", { projectId: project, entityId: id });
    const relations = graph.relationships.map((each) => ({
      type: each.relationType,
      isOut: each.fromEntityId === id,
      other: each.relatedEntity,
      notes: each.notes,
    }));
    return { relations, truncated: Boolean(graph.truncated) };
  }

  async blocks(project, entity) {
    return allPages("list_quotable_blocks", { projectId: project, entityId: entity });
  }

  /** The rows of one period: `{rows, total}`, the first thousand. */
  async rows(project, entity, period) {
    const args = { projectId: project, dateStart: period.from, dateEnd: period.to };
    if (entity) args.entityId = entity;
    const found = await allPages("list_search_performance", args);
    const isWithin = (row) => row.dateStart.slice(0, 10) === period.from && row.dateEnd.slice(0, 10) === period.to;
    return { rows: found.rows.filter(isWithin), isWhole: found.rows.length === found.total };
  }
}

class Catalog {
  hasStatus = false;
  hasRows = false;

  async projects() {
    return (await ask("catalog", "list_projects", {})).projects;
  }

  async entities(project, { search, type }) {
    if (!search) return null;
    const args = { projectId: project, query: search, limit: 50 };
    if (type) args.entityTypes = [type];
    const { entities, totalCount } = await ask("catalog", "search_entities", args);
    return { rows: entities, total: totalCount, first: 0, hasMore: false };
  }

  async entity(project, id) {
    return (await ask("catalog", "get_entity", { projectId: project, entityId: id })).entity;
  }

  async relations(project, id) {
    const { nodes, edges, truncated } = await ask("catalog", "get_entity_graph", { projectId: project, entityId: id });
    const known = new Map(nodes.map((node) => [node.id, node]));
    const relations = edges.map((edge) => {
      const isOut = edge.fromEntityId === id;
      return {
        type: edge.relationType,
        isOut,
        other: known.get(isOut ? edge.toEntityId : edge.fromEntityId) ?? null,
        notes: edge.notes,
      };
    });
    return { relations, truncated: Boolean(truncated) };
  }
}

/** All rows of a list of bridge, up to a thousand. */
async function allPages(tool, args) {
  const rows = [];
  for (let page = 1; page <= MOST_PAGES; page += 1) {
    const answer = await ask("bridge", tool, { ...args, page, limit: MOST });
    rows.push(...answer.data);
    if (!answer.pagination.hasMore) return { rows, total: answer.pagination.total };
  }
  return { rows, total: Infinity };
}
