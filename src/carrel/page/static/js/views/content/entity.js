/** One entity: all its fields, what it is related to, how it does in search, and what can be quoted from it. */

import { fill } from "../../asking.js";
import { copyButton } from "../../copying.js";
import { empty, h } from "../../dom.js";
import { blocksPanel } from "./blocks.js";
import { performancePanel } from "./performance.js";
import { TYPES } from "./source.js";
import { dayOf, statusTag, typeMark, words } from "./words.js";

/** Shown in the heading already. */
const ABOVE = new Set(["id", "projectId", "entityType", "title", "summary", "status", "relationshipCounts"]);
const NAMES = {
  repoUrl: "Repository",
  repoDefaultBranch: "Default branch",
  canonicalUrl: "URL",
  contentRef: "Content",
  lastVerifiedAt: "Verified",
};

export async function entityDetail(view, id) {
  const entity = await view.source.entity(view.project.id, id);
  return [
    heading(view, entity),
    relationsPanel(view, entity),
    performancePanel(view, entity),
    view.source.blocks && blocksPanel(view, entity),
  ];
}

function heading(view, entity) {
  const back = (event) => {
    event.preventDefault();
    view.open(null);
  };
  return h(
    "section",
    { class: "panel entity-head" },
    h(
      "div",
      { class: "entity-ways" },
      h("a", { class: "entity-back", href: view.address({}), on: { click: back } }, `← ${view.project.name}`),
      h("a", { href: graphAddress(view, entity.id) }, "Show in the graph"),
    ),
    h("h2", { class: "entity-name", tabindex: -1 }, entity.title),
    h("p", { class: "entity-meta" }, typeMark(entity.entityType, TYPES), statusTag(entity.status)),
    entity.summary && h("p", { class: "entity-summary" }, entity.summary),
    h(
      "dl",
      { class: "entity-facts" },
      Object.entries(entity).map((each) => fact(each)),
      fact(["id", entity.id], view),
    ),
  );
}

function fact([name, value], view) {
  const isCopied = Boolean(view);
  if (value === null || value === undefined || (ABOVE.has(name) && !isCopied)) return null;
  if (Array.isArray(value) && !value.length) return null;
  return h(
    "div",
    null,
    h("dt", null, NAMES[name] ?? words(name.replace(/At$/, "").replaceAll(/([A-Z])/g, "_$1"))),
    h("dd", null, shown(name, value), isCopied && copyButton(value, view.context.announce, { label: "Copy ID" })),
  );
}

function shown(name, value) {
  if (name.endsWith("At")) return h("time", { datetime: value, title: value }, dayOf(value));
  if (["difficulty", "conceptKind"].includes(name)) return words(value);
  return h("span", { class: "mono" }, Array.isArray(value) ? value.join(", ") : String(value));
}

function graphAddress(view, id) {
  return `#/graph?source=content&project=${view.project.id}&node=${id}`;
}

function relationsPanel(view, entity) {
  const place = h("div", null);
  fill(
    place,
    async () => relations(view, await view.source.relations(view.project.id, entity.id)),
    view.context.signal,
  );
  return h("section", { class: "panel" }, h("h2", null, "Relations"), place);
}

/** One group for each type and direction, the largest first. */
function relations(view, found) {
  if (!found.relations.length) return empty("This entity has no relations.");
  const groups = new Map();
  for (const each of found.relations) {
    const name = `${each.type} ${each.isOut}`;
    groups.set(name, [...(groups.get(name) ?? []), each]);
  }
  const inOrder = [...groups.values()].sort((one, other) => other.length - one.length);
  return [
    h(
      "div",
      { class: "relations" },
      inOrder.map((group) => relationGroup(view, group)),
    ),
    found.truncated && h("p", { class: "muted" }, "The tool returns only the first of these relations."),
  ];
}

function relationGroup(view, group) {
  const { type, isOut } = group[0];
  return h(
    "section",
    { class: "relation-group" },
    h("h3", null, words(type), " ", h("span", { class: "relation-way" }, isOut ? "→ outgoing" : "← incoming")),
    h(
      "ul",
      null,
      group.map((each) =>
        h("li", null, related(view, each), each.notes && h("span", { class: "muted relation-notes" }, each.notes)),
      ),
    ),
  );
}

function related(view, { type, isOut, other }) {
  if (!other) return h("span", { class: "muted" }, `A ${farEnd(type, isOut)} (not an entity)`);
  return [
    view.link(other.id, { class: `kind kind-${TYPES.indexOf(other.entityType)}` }, other.title),
    other.status !== "published" && statusTag(other.status),
    h(
      "a",
      { class: "relation-graph", href: graphAddress(view, other.id), "aria-label": `Show ${other.title} in the graph` },
      "graph",
    ),
  ];
}

/** Of a type such as GUIDE_REFERENCES_SOURCE, the end that is not the entity. */
function farEnd(type, isOut) {
  const parts = type.toLowerCase().split("_");
  return isOut ? parts.at(-1) : parts[0];
}
