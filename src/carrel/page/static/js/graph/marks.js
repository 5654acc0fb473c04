/** What is marked about a node, in words and as small pictures. */

import { svg } from "../dom.js";
import { BROKEN, ORPHAN } from "./model.js";
import { SHAPES } from "./shapes.js";

export function marksOf({ flags }, node) {
  return [flags[node] & BROKEN && "broken link", flags[node] & ORPHAN && "orphan"].filter(Boolean);
}

/** A group's shape and colour. */
export function groupIcon(model, group) {
  const shape = model.source === "notes" ? "circle" : SHAPES[group];
  return icon(drawn(shape, { fill: `var(--kind-${group})` }));
}

export function orphanIcon() {
  return icon(svg("circle", { cx: 8, cy: 8, r: 4.5, fill: "none", stroke: "var(--muted)", "stroke-width": 1.6 }));
}

export function brokenIcon() {
  const ring = { cx: 8, cy: 8, r: 6.4, fill: "none", stroke: "var(--bad)", "stroke-width": 1.8, "stroke-dasharray": "6.2 3.85", "stroke-dashoffset": -1.9 };
  return icon(svg("circle", { cx: 8, cy: 8, r: 3.2, fill: "var(--muted)" }), svg("circle", ring));
}

function icon(...shapes) {
  return svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, shapes);
}

function drawn(shape, paint) {
  if (shape === "square") return svg("rect", { x: 3.5, y: 3.5, width: 9, height: 9, ...paint });
  if (shape === "diamond") return svg("path", { d: "M8 1.8 14.2 8 8 14.2 1.8 8z", ...paint });
  if (shape === "triangle") return svg("path", { d: "M8 2.4 14 13H2z", ...paint });
  return svg("circle", { cx: 8, cy: 8, r: 4.8, ...paint });
}
