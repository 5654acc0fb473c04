/** A file, opened at a line. */

import { ask, fill } from "../../asking.js";
import { copyButton } from "../../copying.js";
import { h } from "../../dom.js";
import { bytes, number } from "../../format.js";

const BLOCK = 200;

/** Reads the file into the view's place for it. @param {any} view @param {string} path @param {number | null} line */
export async function reader(view, path, line) {
  const { context, file } = view;
  const isRead = await fill(
    file,
    async () => drawn(view, await ask("code", "read_file", { path }), line),
    context.signal,
  );
  if (!isRead) return;
  const current = file.querySelector(".file-line[aria-current]");
  const text = file.querySelector(".file-text");
  if (current) text.scrollTop = current.offsetTop - text.clientHeight / 3;
}

function drawn(view, { file, metadata, warnings }, line) {
  const facts = [
    file.language,
    `${number(file.lines)} ${file.lines === 1 ? "line" : "lines"}`,
    bytes(file.size),
    file.encoding,
    metadata?.module && `module ${metadata.module}`,
    metadata?.role,
  ];
  const closed = () => {
    const from = view.pane.querySelector("a[aria-current]") ?? view.pane.querySelector("[data-search]");
    view.close();
    from?.focus();
  };
  return h(
    "section",
    { class: "panel file", "aria-label": "File" },
    h(
      "div",
      { class: "file-head" },
      h("h2", { class: "mono", tabindex: -1 }, file.path),
      copyButton(line ? `${file.path}:${line}` : file.path, view.context.announce),
      h("button", { type: "button", class: "button button-quiet", on: { click: closed } }, "Close"),
      h("p", { class: "muted" }, facts.filter(Boolean).join(" · ")),
      warnings?.map((warning) => h("p", { class: "muted" }, typeof warning === "string" ? warning : warning.message)),
    ),
    h(
      "div",
      { class: "file-text", tabindex: 0, role: "region", "aria-label": `Text of ${file.path}` },
      blocks(file.content, line),
    ),
  );
}

/** Lines in blocks that the browser lays out only where they are seen, so that a long file opens at once. */
function blocks(content, current) {
  const lines = content.replace(/\r?\n$/, "").split(/\r?\n/);
  const made = [];
  for (let first = 0; first < lines.length; first += BLOCK) {
    const part = lines.slice(first, first + BLOCK);
    const block = h(
      "div",
      { class: "file-block" },
      part.map((text, at) => row(text, first + at + 1, current)),
    );
    block.style.setProperty("--lines", part.length);
    made.push(block);
  }
  return made;
}

function row(text, line, current) {
  return h("div", { class: "file-line", "aria-current": line === current && "true", data: { line } }, text || " ");
}
