/** The search field with its list of results: a combobox, whose hits are picked out in the graph as one types. */

import { h, replace } from "../dom.js";
import { number } from "../format.js";
import { find } from "./model.js";
import { marksOf } from "./marks.js";

const MOST = 50;

export class Finder {
  /** @param {{onFound: (nodes: number[]) => void, onChosen: (node: number) => void, announce: (text: string) => void}} told */
  constructor(told) {
    this.told = told;
    this.model = null;
    this.nodes = [];
    this.active = -1;
    this.field = h("input", {
      class: "input", id: "graph-search", type: "search", role: "combobox", placeholder: "Find by title or path", autocomplete: "off",
      spellcheck: "false", "aria-label": "Find in the graph", "aria-controls": "graph-found", "aria-expanded": "false", "aria-autocomplete": "list",
      data: { search: "" },
      on: { input: () => this.search(), keydown: (event) => this.#pressed(event), focus: () => this.nodes.length && this.#open(true), blur: () => this.#open(false) },
    });
    this.list = h("ul", { id: "graph-found", role: "listbox", "aria-label": "Matches", class: "graph-found", hidden: true });
    this.tally = h("p", { class: "graph-tally muted" });
    this.node = h("div", { class: "graph-finder" }, this.field, this.tally, this.list);
  }

  use(model) {
    this.model = model;
    this.field.value = "";
    this.search();
  }

  ask(query) {
    this.field.value = query;
    this.field.focus();
    this.search();
  }

  search() {
    const { value } = this.field;
    this.nodes = this.model ? find(this.model, value) : [];
    this.active = -1;
    const rows = this.nodes.slice(0, MOST).map((node, place) => this.#row(node, place));
    replace(this.list, rows);
    const more = this.nodes.length > MOST ? `, showing the ${MOST} most linked` : "";
    this.tally.textContent = value.trim() ? `${number(this.nodes.length)} found${more}` : "";
    this.#open(rows.length > 0 && document.activeElement === this.field);
    this.field.removeAttribute("aria-activedescendant");
    this.told.onFound(this.nodes);
    if (value.trim()) this.told.announce(this.tally.textContent);
  }

  #row(node, place) {
    const { titles, ids, source } = this.model;
    const marks = marksOf(this.model, node).map((mark) => h("span", { class: "tag" }, mark));
    const where = source === "notes" ? h("span", { class: "muted graph-where" }, ids[node]) : null;
    const props = { role: "option", id: `graph-found-${place}`, "aria-selected": "false" };
    const row = h("li", props, h("span", { class: "graph-name" }, titles[node]), marks, where);
    row.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
    row.addEventListener("click", () => this.#choose(place));
    return row;
  }

  #pressed(event) {
    const rows = this.list.children.length;
    if (event.key === "ArrowDown" && rows) this.#point((this.active + 1) % rows);
    else if (event.key === "ArrowUp" && rows) this.#point((this.active <= 0 ? rows : this.active) - 1);
    else if (event.key === "Enter" && rows) this.#choose(Math.max(0, this.active));
    else if (event.key === "Escape" && this.field.value) this.ask("");
    else return;
    event.preventDefault();
  }

  #point(place) {
    this.#open(true);
    this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = place;
    const row = this.list.children[place];
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", row.id);
  }

  #choose(place) {
    this.#open(false);
    this.told.onChosen(this.nodes[place]);
  }

  #open(isOpen) {
    this.list.hidden = !isOpen;
    this.field.setAttribute("aria-expanded", String(isOpen));
  }
}
