/** The form that a search of code begins with. */

import { h } from "../../dom.js";

/** @param {string} name of the field @param {HTMLInputElement} field @param {() => void} run @param {...Node} options */
export function searchForm(name, field, run, ...options) {
  const submitted = (event) => {
    event.preventDefault();
    run();
  };
  return h(
    "form",
    { class: "code-form", role: "search", on: { submit: submitted } },
    h(
      "div",
      { class: "code-query" },
      h("label", { class: "unseen", for: field.id }, name),
      field,
      h("button", { class: "button button-main" }, "Search"),
    ),
    h("div", { class: "code-options" }, options),
  );
}
