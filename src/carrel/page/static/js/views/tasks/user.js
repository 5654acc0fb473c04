/** Whose tasks: those of who signed in, of the server's one user, or of whom the page was told about. */

import { h, replace } from "../../dom.js";
import { field } from "./forms.js";

const USER = "carrel.user";

/** @returns {string | null} */
export function knownUser(desk) {
  return desk.user ?? localStorage.getItem(USER);
}

export function forgetUser() {
  localStorage.removeItem(USER);
}

/** Ask once; the answer is kept in this browser. @param {Element} root @param {() => void} then @returns {HTMLElement} the field */
export function askForUser(root, then) {
  const user = field("User", h("input", { class: "input", type: "text", autocomplete: "username", spellcheck: "false" }));
  function submit(event) {
    event.preventDefault();
    const name = user.input.value.trim();
    if (!name) {
      user.fault("Enter a user");
      user.input.focus();
      return;
    }
    localStorage.setItem(USER, name);
    then();
  }
  const form = h(
    "form",
    { class: "panel who-form", novalidate: true, on: { submit } },
    h("h2", null, "Whose tasks?"),
    h("p", { class: "muted" }, "Every task belongs to a user. This desk does not require a token and has no user in its settings, so enter the user whose list to show: the user_id that your assistant sends."),
    user.node,
    h("div", { class: "bar" }, h("button", { class: "button button-main" }, "Show tasks")),
  );
  replace(root, form);
  return user.input;
}
