/** JSON with colours, of which each piece is a text node. */

import { h } from "../../dom.js";

const PIECES = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/g;
const MOST = 100_000;

/** @param {any} value @returns {(string | Element)[]} */
export function pretty(value) {
  const text = JSON.stringify(value, null, 2) ?? String(value);
  if (text.length > MOST) return [text];
  const pieces = [];
  let end = 0;
  for (const found of text.matchAll(PIECES)) {
    const [whole, string, colon = ""] = found;
    const kind = string === undefined ? "json-word" : colon ? "json-key" : "json-string";
    pieces.push(text.slice(end, found.index), h("span", { class: kind }, string ?? whole), colon);
    end = found.index + whole.length;
  }
  return [...pieces, text.slice(end)];
}
