/** Code: looking for text and for meaning, what was learned about the code base, and the file around a result. */

import { empty, h, replace } from "../dom.js";
import { contextPane } from "./code/context.js";
import { discoveriesPane } from "./code/discoveries.js";
import { grepPane } from "./code/grep.js";
import { reader } from "./code/reader.js";

export const title = "Code";

const WAYS = [
  { name: "grep", label: "Text", pane: grepPane, toolset: "code", tool: "grep_codebase" },
  { name: "context", label: "Meaning", pane: contextPane, toolset: "code", tool: "context_search" },
  { name: "discoveries", label: "Discoveries", pane: discoveriesPane, toolset: "journal", tool: "list_discoveries" },
];

/** @param {Element} root @param {import("../app.js").Context} context */
export async function show(root, context) {
  new CodeView(root, context);
}

/** A way of looking with its results, beside the file that is open. */
class CodeView {
  constructor(root, context) {
    this.context = context;
    this.pane = h("div", { class: "code-pane" });
    this.file = h("div", { class: "code-file" });
    this.body = h("div", { class: "code-body" }, this.pane, this.file);
    const ways = WAYS.filter((way) => this.has(way.toolset, way.tool));
    const way = ways.find((each) => each.name === context.params.get("by")) ?? ways[0];
    if (!way) return void replace(root, empty("Your token's scopes include no tool that reads code or discoveries."));
    replace(root, this.choice(ways, way), this.body);
    this.enter(way, context.params);
    const path = context.params.get("file");
    if (path) this.read(path, Number(context.params.get("line")) || null);
  }

  /** Whether a tool is open to the caller. */
  has(toolset, tool) {
    return this.context.desk.toolsets.some((each) => each.name === toolset && each.tools.includes(tool));
  }

  choice(ways, current) {
    const chosen = (way) => () => {
      this.close();
      history.pushState(null, "", `#/code?by=${way.name}`);
      this.enter(way, new URLSearchParams());
    };
    const options = ways.map((way) =>
      h(
        "label",
        null,
        h("input", {
          type: "radio",
          name: "code-by",
          value: way.name,
          checked: way === current,
          on: { change: chosen(way) },
        }),
        way.label,
      ),
    );
    return h("fieldset", { class: "choice code-ways" }, h("legend", { class: "unseen" }, "Search by"), options);
  }

  enter(way, params) {
    replace(this.pane, way.pane(this, params));
  }

  /** A link that opens a file here, at a line. */
  link(path, line, props, ...children) {
    const params = new URLSearchParams(location.hash.split("?")[1]);
    params.set("file", path);
    params.set("line", line);
    const opened = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      this.open(path, line);
    };
    return h(
      "a",
      { ...props, href: `#/code?${params}`, data: { place: `${path}:${line}` }, on: { click: opened } },
      children,
    );
  }

  async open(path, line) {
    const params = new URLSearchParams(location.hash.split("?")[1]);
    params.set("file", path);
    params.set("line", line);
    history.pushState(null, "", `#/code?${params}`);
    await this.read(path, line);
    this.context.announce(`${path}, line ${line}`);
    if (!this.pane.checkVisibility()) this.file.querySelector("h2")?.focus();
  }

  async read(path, line) {
    this.body.classList.add("has-file");
    this.mark(`${path}:${line}`);
    await reader(this, path, line);
  }

  close() {
    this.body.classList.remove("has-file");
    this.mark(null);
    replace(this.file);
    this.context.setParams({ file: null, line: null });
  }

  /** Which result is open. */
  mark(place) {
    this.place = place;
    for (const link of this.pane.querySelectorAll("a[data-place]")) {
      if (link.dataset.place === place) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
}
