/** Line charts of figures over periods: `plot` lays out, `draw` makes the SVG; content.css has the colours. */

import { svg } from "./dom.js";
import { dayOf, timeTicks, valueAxis } from "./scales.js";

const TOP = 8;
const BOTTOM = 34;
const RIGHT = 10;
const LETTER = 6.6;
const TICK_WIDTH = 56;

/**
 * @typedef {{from: string, to: string, value: number | null}} Point
 *   A figure of the days from `from` to `to`, both within.
 * @typedef {{width: number, height: number, axis?: object, inverted?: boolean, tick?(value: number): string}} Options
 *   `axis` is what `valueAxis` takes; `inverted` puts the least value on top.
 */

/**
 * Where everything lies.
 * @param {Point[]} points
 * @param {Options} options
 */
export function plot(points, { width, height, axis = {}, inverted = false, tick = String }) {
  const spans = points
    .map((point) => ({ ...point, start: dayOf(point.from), end: dayOf(point.to) + 1 }))
    .sort((one, other) => one.start + one.end - other.start - other.end);
  const values = valueAxis(
    spans.map((span) => span.value).filter((value) => value !== null),
    axis,
  );
  const labels = values.ticks.map(tick);
  const left = 10 + LETTER * Math.max(...labels.map((label) => label.length));
  const [first, last] = spans.length
    ? [Math.min(...spans.map((span) => span.start)), Math.max(...spans.map((span) => span.end))]
    : [0, 1];
  const floor = height - BOTTOM;
  const across = (day) => left + ((day - first) / (last - first)) * (width - left - RIGHT);
  const share = (value) => (value - values.low) / (values.high - values.low);
  const up = (value) => TOP + (inverted ? share(value) : 1 - share(value)) * (floor - TOP);
  const dots = spans.map((span) => ({
    ...span,
    x: across((span.start + span.end) / 2),
    y: span.value === null ? null : up(span.value),
    left: across(span.start),
    right: across(span.end),
  }));
  return {
    width,
    height,
    left,
    right: width - RIGHT,
    top: TOP,
    floor,
    dots,
    runs: unbroken(dots),
    isUneven: differ(dots.map((dot) => dot.end - dot.start)),
    rows: values.ticks.map((value, index) => ({ value, label: labels[index], y: up(value) })),
    columns: spans.length
      ? timeTicks(first, last - 1, (width - left) / TICK_WIDTH).map((mark) => ({ ...mark, x: across(mark.day) }))
      : [],
  };
}

/** Dots that belong to one line: a missing figure, or days that no period covers, part it. */
function unbroken(dots) {
  const runs = [];
  let before = null;
  for (const dot of dots) {
    if (dot.y === null) before = null;
    else {
      const isNext = before && dot.start - before.end <= Math.min(dot.end - dot.start, before.end - before.start) / 2;
      if (isNext) runs.at(-1).push(dot);
      else runs.push([dot]);
      before = dot;
    }
  }
  return runs;
}

/** Months are as good as equal; weeks beside months are not. */
function differ(lengths) {
  return lengths.length > 0 && Math.max(...lengths) > Math.min(...lengths) * 1.25;
}

/**
 * The SVG of a plot. It has a hidden cursor, which `point` moves.
 * @param {ReturnType<typeof plot>} plotted
 * @param {{label: string, isFilled?: boolean}} how
 */
export function draw(plotted, { label, isFilled = false }) {
  const { width, height, left, right, top, floor, rows, columns, runs, dots, isUneven } = plotted;
  return svg(
    "svg",
    { class: "chart", role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` },
    rows.map((row) => [
      svg("line", { class: "chart-grid", x1: left, x2: right, y1: row.y, y2: row.y }),
      svg("text", { class: "chart-tick", x: left - 6, y: row.y, dy: "0.35em", "text-anchor": "end" }, row.label),
    ]),
    svg("line", { class: "chart-axis", x1: left, x2: right, y1: floor, y2: floor }),
    columns.map((mark) => [
      svg("line", { class: "chart-axis", x1: mark.x, x2: mark.x, y1: floor, y2: floor + 4 }),
      svg(
        "text",
        { class: "chart-tick", x: mark.x, y: floor + 15, "text-anchor": anchor(mark.x, plotted) },
        mark.label,
      ),
      mark.year &&
        svg(
          "text",
          { class: "chart-year", x: mark.x, y: floor + 28, "text-anchor": anchor(mark.x, plotted) },
          mark.year,
        ),
    ]),
    isFilled &&
      runs.filter((run) => run.length > 1).map((run) => svg("path", { class: "chart-area", d: area(run, floor) })),
    isUneven &&
      runs.flat().map((dot) => svg("line", { class: "chart-span", x1: dot.left, x2: dot.right, y1: dot.y, y2: dot.y })),
    runs.map((run) => svg("path", { class: "chart-line", d: line(run) })),
    runs.flat().map((dot) => dots.length <= 60 && svg("circle", { class: "chart-dot", cx: dot.x, cy: dot.y, r: 2.5 })),
    svg(
      "g",
      { class: "chart-cursor", visibility: "hidden" },
      svg("line", { x1: 0, x2: 0, y1: top, y2: floor }),
      svg("circle", { cx: 0, cy: 0, r: 4.5 }),
    ),
  );
}

/** Moves the cursor to one of the plot's dots, or hides it. */
export function point(chart, dot) {
  const cursor = chart.querySelector(".chart-cursor");
  cursor.setAttribute("visibility", dot ? "visible" : "hidden");
  if (!dot) return;
  cursor.setAttribute("transform", `translate(${dot.x} 0)`);
  const circle = cursor.querySelector("circle");
  circle.setAttribute("cy", dot.y ?? 0);
  circle.setAttribute("visibility", dot.y === null ? "hidden" : "inherit");
}

/** The index of the dot nearest to a place across. */
export function nearest(dots, x) {
  return dots.reduce((best, dot, index) => (Math.abs(dot.x - x) < Math.abs(dots[best].x - x) ? index : best), 0);
}

function anchor(x, { left, right }) {
  if (x - left < 14) return "start";
  return right - x < 14 ? "end" : "middle";
}

function line(run) {
  return run.map((dot, index) => `${index ? "L" : "M"}${dot.x.toFixed(1)} ${dot.y.toFixed(1)}`).join("");
}

function area(run, floor) {
  return `${line(run)}L${run.at(-1).x.toFixed(1)} ${floor}L${run[0].x.toFixed(1)} ${floor}Z`;
}
