/** What was learned about the code base: listed, written down, forgotten. */

import { ask, fill } from "../../asking.js";
import { copyButton } from "../../copying.js";
import { empty, h } from "../../dom.js";
import { ago, number } from "../../format.js";
import { walkable } from "../../walking.js";
import { KINDS, kindSelect, kindTag } from "./kinds.js";

const FIRST = 20;
const MOST = 100;
const SURE_MS = 4000;

export function discoveriesPane(view, params) {
  const { context } = view;
  const results = h("div", { class: "code-results" });
  const modules = h("datalist", { id: "discovery-modules" });
  const type = kindSelect("Type", "Any type", params.get("type"), changed);
  const module = h("input", {
    class: "input",
    type: "search",
    placeholder: "Any module",
    "aria-label": "Module",
    list: "discovery-modules",
    autocomplete: "off",
    data: { search: "" },
    prop: { value: params.get("module") ?? "" },
    on: { change: changed },
  });
  let limit = FIRST;

  function changed() {
    limit = FIRST;
    context.setParams({ by: "discoveries", type: type.value, module: module.value.trim() });
    load();
  }

  async function load() {
    await fill(results, listed, context.signal);
    const list = results.querySelector("ol");
    if (list) walkable(list, module, context.signal);
  }

  async function listed() {
    const args = { limit };
    if (KINDS.includes(type.value)) args.type = type.value;
    if (module.value.trim()) args.module = module.value.trim();
    const { discoveries, total } = await ask("journal", "list_discoveries", args);
    const names = new Set(discoveries.map((each) => each.module).filter(Boolean));
    if (!args.module) modules.replaceChildren(...[...names].sort().map((name) => h("option", { value: name })));
    if (!discoveries.length) return empty(nothing(args));
    const more = () => {
      limit = MOST;
      load();
    };
    return [
      h(
        "p",
        { class: "muted code-summary" },
        h(
          "span",
          { class: "code-count" },
          `${total > discoveries.length ? `${number(discoveries.length)} of ` : ""}${number(total)} discoveries`,
        ),
        ", newest first",
      ),
      h(
        "ol",
        { class: "passages" },
        discoveries.map((each) => discovery(view, each, load)),
      ),
      total > discoveries.length &&
        limit < MOST &&
        h("button", { type: "button", class: "button", on: { click: more } }, "Show more"),
      total > discoveries.length &&
        limit === MOST &&
        h("p", { class: "muted" }, "The tool returns no more than these. Filter by type or module to see others."),
    ];
  }

  load();
  return [
    h("div", { class: "code-form" }, h("div", { class: "code-options" }, type, module, modules)),
    view.has("journal", "record_discovery") && adding(view, load),
    results,
  ];
}

function nothing(args) {
  if (args.type || args.module) return "No discoveries match this type and module.";
  return "No discoveries yet. Assistants record them with record_discovery; you can use this page or `carrel discoveries add`.";
}

function discovery(view, { id, type, content, module, date }, changed) {
  const { announce } = view.context;
  return h(
    "li",
    { data: { row: "" } },
    h(
      "div",
      { class: "passage" },
      h(
        "span",
        { class: "passage-meta" },
        kindTag(type),
        module && h("span", { class: "mono" }, module),
        h("time", { datetime: date }, ago(date)),
      ),
      h("span", { class: "passage-text" }, content),
    ),
    h(
      "span",
      { class: "passage-acts" },
      copyButton(id, announce, { label: "Copy ID" }),
      view.has("journal", "forget_discovery") && forgetting(view, id, changed),
    ),
  );
}

/** Asks once more before it removes anything. */
function forgetting(view, id, changed) {
  let sure = 0;
  const button = h("button", { type: "button", class: "button button-quiet", on: { click: pressed } }, "Forget");
  function reset() {
    clearTimeout(sure);
    sure = 0;
    button.textContent = "Forget";
    button.className = "button button-quiet";
  }
  async function pressed() {
    if (!sure) {
      button.textContent = "Forget permanently?";
      button.className = "button button-danger";
      sure = setTimeout(reset, SURE_MS);
      return;
    }
    reset();
    button.disabled = true;
    try {
      await ask("journal", "forget_discovery", { id });
      view.context.announce("Forgotten");
      changed();
    } catch (error) {
      button.disabled = false;
      button.textContent = error.message;
    }
  }
  return button;
}

/** A form to write something down. */
function adding(view, added) {
  const type = kindSelect("Type of discovery", null, "decision");
  const module = h("input", {
    class: "input",
    id: "discovery-module",
    maxlength: 200,
    list: "discovery-modules",
    autocomplete: "off",
  });
  const content = h("textarea", { class: "input", id: "discovery-content", required: true, maxlength: 10000, rows: 3 });
  const fault = h("p", { class: "fault", role: "alert" });
  const submitted = async (event) => {
    event.preventDefault();
    fault.textContent = "";
    const args = { type: type.value, content: content.value.trim() };
    if (module.value.trim()) args.module = module.value.trim();
    try {
      await ask("journal", "record_discovery", args);
    } catch (error) {
      fault.textContent = error.message;
      return;
    }
    form.reset();
    view.context.announce("Recorded");
    added();
  };
  const form = h(
    "form",
    { class: "discovery-form", on: { submit: submitted } },
    h(
      "div",
      { class: "field" },
      h("label", { for: "discovery-content" }, "What was learned"),
      content,
      h("p", { class: "hint" }, "Write it so that it makes sense without context."),
      fault,
    ),
    h(
      "div",
      { class: "discovery-options" },
      h("div", { class: "field" }, h("span", { class: "label" }, "Type"), type),
      h("div", { class: "field" }, h("label", { for: "discovery-module" }, "Module (optional)"), module),
      h("button", { class: "button button-main" }, "Record"),
    ),
  );
  return h("details", { class: "panel discovery-new" }, h("summary", null, "Record a discovery"), form);
}
