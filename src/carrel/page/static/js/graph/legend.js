/** What colours, shapes and rings mean, how many there are of each, and whether they are shown. */

import { h } from "../dom.js";
import { number } from "../format.js";
import { brokenIcon, groupIcon, orphanIcon } from "./marks.js";

/**
 * @param {import("./model.js").Model} model
 * @param {{onToggle: (what: number|"orphans"|"broken", isOn: boolean) => void, onList: (query: string) => void}} told
 */
export function legend(model, { onToggle, onList }) {
  const row = (what, icon, name, count, query) => {
    const box = h("input", { type: "checkbox", prop: { checked: true }, on: { change: () => onToggle(what, box.checked) } });
    const list = query && count > 0 && h("button", { type: "button", class: "button button-quiet", "aria-label": `List ${name}`, on: { click: () => onList(query) } }, "List");
    return h("li", null, h("label", null, box, icon, h("span", { class: "graph-name" }, name), " ", h("span", { class: "num muted" }, number(count))), list);
  };
  const groups = model.groups.map(({ name, count }, group) => row(group, groupIcon(model, group), name, count));
  const marks = [row("orphans", orphanIcon(), "orphans", model.orphans, "is:orphan")];
  if (model.source === "notes") marks.unshift(row("broken", brokenIcon(), "broken links", model.broken, "is:broken"));
  return h("details", { class: "graph-legend", open: innerWidth > 820 }, h("summary", null, "Legend"), h("ul", null, marks, groups));
}
