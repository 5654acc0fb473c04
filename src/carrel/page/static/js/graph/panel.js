/** The side panel: a node as an assistant gets it, with its links as buttons; without a node, the graph in words. */

import { fill } from "../asking.js";
import { copyButton } from "../copying.js";
import { h, problem, replace } from "../dom.js";
import { number } from "../format.js";
import { callTool } from "../mcp.js";
import { walkable } from "../walking.js";
import { groupIcon, marksOf } from "./marks.js";
import { degreeOf, neighboursOf } from "./model.js";

const MOST_LINKS = 60;
const BEST = 15;

export class Panel {
  /**
   * @param {{contentToolset: string|null, onGo: (node: number) => void, onClose: () => void, announce: (text: string) => void}} told
   * @param {AbortSignal} signal
   */
  constructor(told, signal) {
    this.told = told;
    this.signal = signal;
    this.node = h("aside", { class: "panel graph-panel", "aria-label": "Details" });
  }

  focus() {
    this.node.querySelector("h2")?.focus();
  }

  overview(model) {
    const things = model.source === "notes" ? "notes" : "entities";
    const facts = [
      [number(model.count), things],
      [number(model.links.length / 2), model.source === "notes" ? "links" : "relations"],
      model.source === "notes" && [number(model.broken), "with broken links"],
      [number(model.orphans), "orphans"],
    ].filter(Boolean);
    const best = [...model.ranked.subarray(0, BEST)].filter((node) => degreeOf(model, node) > 0);
    replace(
      this.node,
      h("h2", { tabindex: -1 }, model.source === "notes" ? "All notes" : model.project.name),
      h("dl", { class: "graph-facts" }, facts.map(([value, name]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
      model.truncated && h("p", { class: "graph-truncated" }, `Truncated: showing the ${number(model.count)} most linked of ${number(model.total)} ${things}.`),
      h("h3", null, "Most linked"),
      this.#buttons(model, best, (node) => number(degreeOf(model, node))),
      h("p", { class: "muted" }, "Select a node to see what an assistant sees."),
    );
  }

  async show(model, node) {
    const around = neighboursOf(model, node);
    const [to, from] = [around.filter((each) => each.out), around.filter((each) => each.in)];
    const answer = h("section", { class: "graph-answer", "aria-label": "What the assistant sees" });
    const known = h("div");
    replace(
      this.node,
      h("div", { class: "graph-head" }, h("h2", { tabindex: -1 }, model.titles[node]), h("button", { type: "button", class: "button button-quiet button-icon", "aria-label": "Close", on: { click: this.told.onClose } }, "×")),
      h("p", { class: "muted mono graph-id" }, model.ids[node]),
      h("p", { class: "bar" }, groupIcon(model, model.group[node]), model.groups[model.group[node]].name, marksOf(model, node).map((mark) => h("span", { class: mark === "orphan" ? "tag" : "tag tag-bad" }, mark))),
      known,
      this.#links(model, "Links to", to),
      this.#links(model, "Linked from", from),
      answer,
    );
    await fill(answer, () => this.#asked(model, node, known), this.signal);
  }

  async #asked(model, node, known) {
    const isNote = model.source === "notes";
    const [toolset, tool] = isNote ? ["notes", "get_node"] : [this.told.contentToolset, "get_entity"];
    const args = isNote ? { id: model.ids[node] } : { projectId: model.project.id, entityId: model.ids[node] };
    const { ok, value, text } = await callTool(toolset, tool, args);
    const heading = h("div", { class: "graph-head" }, h("h3", null, "What the assistant sees"), copyButton(text, this.told.announce, { label: "Copy the result" }));
    const asked = h("p", { class: "mono muted graph-id" }, `${toolset} ${tool} ${JSON.stringify(args)}`);
    if (!ok) return [heading, asked, problem(text)];
    if (value === null) return [heading, asked, problem("This node no longer exists: it was deleted or renamed after the graph was loaded.")];
    replace(known, summary(value));
    return [heading, asked, h("pre", { class: "graph-json", tabindex: 0, "aria-label": "JSON result" }, JSON.stringify(value, null, 2))];
  }

  #links(model, name, around) {
    if (!around.length) return null;
    const byTitle = (a, b) => model.titles[a].localeCompare(model.titles[b]);
    const nodes = around.map((each) => each.node).sort(byTitle);
    const place = h("div", null, this.#buttons(model, nodes.slice(0, MOST_LINKS)));
    const more = nodes.length > MOST_LINKS && h("button", { type: "button", class: "button", on: { click: () => {
      replace(place, this.#buttons(model, nodes));
      place.querySelectorAll("button")[MOST_LINKS].focus();
      more.remove();
    } } }, `Show all ${number(nodes.length)}`);
    return h("section", { "aria-label": name }, h("h3", null, name, " ", h("span", { class: "muted" }, number(nodes.length))), place, more);
  }

  #buttons(model, nodes, beside = () => "") {
    const rows = nodes.map((node) => {
      const button = h("button", { type: "button", class: "button button-quiet", on: { click: () => this.told.onGo(node) } }, groupIcon(model, model.group[node]), h("span", { class: "graph-name" }, model.titles[node]));
      return h("li", { data: { row: "" } }, button, h("span", { class: "num muted" }, beside(node)));
    });
    const list = h("ul", { class: "graph-links" }, rows);
    walkable(list, null, this.signal);
    return list;
  }
}

/** What people read first: tags, a summary, warnings. */
function summary(value) {
  const it = value.entity ?? value.data ?? value;
  const tags = it.tags ?? [it.status, it.difficulty, it.conceptKind].filter(Boolean);
  return [
    tags.length > 0 && h("p", { class: "bar" }, tags.map((tag) => h("span", { class: "tag" }, tag))),
    it.summary && h("p", null, it.summary),
    (value._warnings ?? []).map((warning) => h("p", { class: "graph-warning" }, warning)),
  ];
}
