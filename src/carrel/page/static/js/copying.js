/** Copying a short text, with the button that does it. */

import { h } from "./dom.js";

const TOLD_MS = 1500;

/**
 * @param {string} text
 * @param {(text: string) => void} announce
 * @param {{label?: string, shown?: string}} [how] `label` is the whole name of the button, `shown` what stands on it
 */
export function copyButton(text, announce, { label = `Copy ${text}`, shown = "Copy" } = {}) {
  const button = h(
    "button",
    { type: "button", class: "button button-quiet copy", "aria-label": label, title: label },
    shown,
  );
  button.addEventListener("click", async () => {
    const isCopied = await copy(text);
    button.textContent = isCopied ? "Copied" : "Copy failed";
    announce(isCopied ? `Copied ${text}` : "The browser does not allow this page to copy");
    setTimeout(() => (button.textContent = shown), TOLD_MS);
  });
  return button;
}

/** The clipboard is there over https and on this machine only; elsewhere the old way may still work. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyFromField(text);
  }
}

function copyFromField(text) {
  const before = document.activeElement;
  const field = h("textarea", { class: "unseen", "aria-hidden": "true", prop: { value: text } });
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  before?.focus();
  return isCopied;
}
