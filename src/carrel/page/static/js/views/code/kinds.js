/** The kinds of discoveries. */

import { h } from "../../dom.js";

export const KINDS = ["pattern", "rule", "decision", "issue"];
const COLOURS = { pattern: 0, rule: 1, decision: 2, issue: 4, session: 3, code: 5 };

const named = (kind) => kind.charAt(0).toUpperCase() + kind.slice(1);

export function kindTag(kind) {
  return h("span", { class: `kind kind-${COLOURS[kind] ?? 5}` }, named(kind));
}

/** A select of kinds; `any` is the first option, where there is to be one. */
export function kindSelect(label, any, value, changed) {
  const options = KINDS.map((kind) => h("option", { value: kind, selected: kind === value }, named(kind)));
  return h(
    "select",
    { class: "input", "aria-label": label, on: { change: changed } },
    any && h("option", { value: "" }, any),
    options,
  );
}
