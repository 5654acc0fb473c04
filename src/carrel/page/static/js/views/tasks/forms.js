/** A task being written, and one about to be deleted. */

import { h } from "../../dom.js";

let made = 0;

/**
 * A form of a title and a description. What a tool says about one of them is shown there, anything else below the title.
 *
 * @param {{name: string, label: string, titleHint?: string, task?: any, onSave: (given: {title: string, description: string}) => void, onCancel?: () => void}} how
 */
export function taskForm({ name, label, titleHint, task, onSave, onCancel }) {
  made += 1;
  const title = field("Title", h("input", { class: "input", type: "text", autocomplete: "off", placeholder: titleHint, dir: "auto", prop: { value: task?.title ?? "" } }));
  const description = field("Description", h("textarea", { class: "input", rows: 2, placeholder: "Description (optional)", dir: "auto", prop: { value: task?.description ?? "" } }));
  const save = h("button", { class: "button button-main" }, label);
  const cancel = onCancel && h("button", { type: "button", class: "button", on: { click: onCancel } }, "Cancel");
  const node = h("form", { class: "task-form", "aria-label": name, novalidate: true, on: { submit, keydown } }, title.node, description.node, h("div", { class: "bar" }, save, cancel));

  function submit(event) {
    event.preventDefault();
    for (const each of [title, description]) each.fault("");
    onSave({ title: title.input.value, description: description.input.value });
  }
  function keydown(event) {
    if (event.key === "Escape" && onCancel) onCancel();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) node.requestSubmit();
  }
  return {
    node,
    async busy(promise) {
      save.disabled = true;
      try {
        return await promise;
      } finally {
        save.disabled = false;
      }
    },
    fail(text) {
      const at = /description/i.test(text) ? description : title;
      at.fault(text);
      at.input.focus();
    },
    clear() {
      for (const each of [title, description]) each.input.value = "";
      title.input.focus();
    },
  };
}

/** A labelled control with a place for what is wrong with it. */
export function field(label, input) {
  made += 1;
  const [id, faultId] = [`field-${made}`, `fault-${made}`];
  input.id = id;
  input.setAttribute("aria-describedby", faultId);
  const fault = h("p", { class: "fault", id: faultId, role: "alert" });
  const node = h("div", { class: "field" }, h("label", { for: id }, label), input, fault);
  return {
    node,
    input,
    fault(text) {
      fault.textContent = text;
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
  };
}

/** Whether the user means it. @param {string} title @returns {Promise<boolean>} */
export function confirmDelete(title) {
  const no = h("button", { class: "button", value: "no", autofocus: true }, "Keep");
  const yes = h("button", { class: "button button-danger", value: "yes" }, "Delete");
  const dialog = h(
    "dialog",
    { "aria-labelledby": "delete-title" },
    h("h2", { id: "delete-title" }, "Delete this task?"),
    h("p", { dir: "auto" }, title),
    h("p", { class: "muted" }, "This cannot be undone."),
    h("form", { method: "dialog", class: "bar" }, no, yes),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}
