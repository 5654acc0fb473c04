/** A call as it goes over the wire: the request, a curl line that sends it, the answer and the whole response. */

import { copyButton } from "../../copying.js";
import { h, problem, replace } from "../../dom.js";
import { bytes, ms } from "../../format.js";
import { pretty } from "./json.js";

/** @param {(text: string) => void} announce @param {{hasDoors: boolean}} how */
export function exchange(announce, { hasDoors }) {
  const answer = h("div", { class: "answer" });
  const request = h("div");
  const curl = h("div");
  const node = h("div", { class: "wire" }, answer, request, curl);

  function sent(planned) {
    replace(request, part("Request", [`${planned.method} ${planned.path}`, ...lines(planned.headers)], pretty(planned.body)));
    const line = curlLine(planned, hasDoors);
    replace(curl, h("section", { class: "panel", "aria-label": "curl" }, h("div", { class: "head" }, h("h2", null, "curl"), copyButton(line, announce, { label: "Copy as curl" })), h("pre", { class: "code", tabindex: 0 }, line)));
  }

  return {
    node,
    /** What would be sent. @param {import("../../mcp.js").Request} planned */
    plan: sent,
    /** What was answered. @param {import("../../mcp.js").Answer} given */
    answer({ ok, value, ms: took, request: asked, response }) {
      sent(asked);
      const facts = h("p", { class: "bar muted" }, h("span", { class: `tag ${ok ? "tag-good" : "tag-bad"}` }, ok ? "ok" : "error"), h("span", null, ms(took)), h("span", null, bytes(response.bytes)));
      const shown = h("section", { class: "panel", "aria-label": "Result" }, h("div", { class: "head" }, h("h2", null, "Result"), facts), h("pre", { class: "code tall", tabindex: 0 }, value === null ? response.text : pretty(value)));
      const status = `${response.status} ${response.statusText}`.trim();
      replace(answer, shown, part("Response", [status, ...lines(response.headers)], response.body === null ? response.text : pretty(response.body)));
    },
    fail(text) {
      replace(answer, problem(text));
    },
  };
}

function part(name, head, body) {
  return h("section", { class: "panel", "aria-label": name }, h("h2", null, name), h("pre", { class: "code", tabindex: 0 }, h("span", { class: "muted" }, head.join("\n")), "\n\n", body));
}

const lines = (headers) => Object.entries(headers).map(([name, value]) => `${name}: ${value}`);

/** One command for a POSIX shell. @param {import("../../mcp.js").Request} request @param {boolean} hasDoors */
export function curlLine({ path, headers, body }, hasDoors) {
  const words = [
    `curl -sS ${quoted(location.origin + path)}`,
    ...lines(headers).map((line) => `-H ${quoted(line)}`),
    ...(hasDoors ? ['-H "Authorization: Bearer $CARREL_TOKEN"'] : []),
    `--data-raw ${quoted(JSON.stringify(body))}`,
  ];
  return words.join(" \\\n  ");
}

/** Between single quotes a shell takes everything as it is, but a single quote. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
