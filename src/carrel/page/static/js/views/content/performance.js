/** Search performance: four charts over the same periods, with one cursor, and the same figures as a table. */

import { fill } from "../../asking.js";
import { draw, nearest, plot, point } from "../../charts.js";
import { empty, h, replace } from "../../dom.js";
import { METRICS } from "./figures.js";
import { performance } from "./source.js";
import { mostClicked } from "./most.js";
import { period } from "./words.js";

const HEIGHT = 148;

/** @param {any} view @param {any | null} entity of the whole project where there is none */
export function performancePanel(view, entity) {
  const place = h("div", null);
  const { signal } = view.context;
  fill(
    place,
    async () => {
      const { points, truncated } = await performance(view.project.id, entity?.id);
      if (!points.length) return nothing(entity);
      return [
        charts(points, signal),
        notes(points, truncated),
        figures(points),
        view.source.hasRows && mostClicked(view, entity, points),
      ];
    },
    signal,
  );
  return h("section", { class: "panel" }, h("h2", null, "Search performance"), place);
}

function nothing(entity) {
  const about = entity ? "No search performance for this entity yet. " : "No search performance yet. ";
  return empty(about, h("code", null, "carrel import gsc"), " imports Google Search Console exports.");
}

/** The charts stand in one row or more; pointing into one points into all. */
function charts(points, signal) {
  const drawn = METRICS.map((metric) => chart(metric, points, select, signal));
  let last = points.length - 1;
  function select(index, isPointing = true) {
    last = Math.max(0, Math.min(points.length - 1, index));
    for (const each of drawn) each.select(last, isPointing);
    return last;
  }
  select(last, false);
  return h(
    "div",
    { class: "charts" },
    drawn.map((each) => each.node),
  );
}

function chart(metric, points, select, signal) {
  const series = points.map((each) => ({ from: each.from, to: each.to, value: each[metric.key] ?? null }));
  const value = h("span", { class: "chart-value" });
  const when = h("span", { class: "chart-when" });
  const stage = h("div", {
    class: "chart-stage",
    tabindex: 0,
    role: "slider",
    "aria-label": `${metric.name}, period`,
    "aria-valuemin": 1,
    "aria-valuemax": points.length,
  });
  let plotted = null;
  let index = points.length - 1;
  let isPointed = false;

  function render() {
    const width = Math.floor(stage.clientWidth);
    if (width < 80 || plotted?.width === width) return;
    plotted = plot(series, { ...metric, width, height: HEIGHT });
    replace(stage, draw(plotted, { label: `${metric.name} over time`, isFilled: metric.isFilled }));
    select(index, isPointed);
  }

  const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -Infinity, End: Infinity };
  const on = (event, listener) => stage.addEventListener(event, listener, { signal });
  on("keydown", (event) => {
    if (!(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    select(index + steps[event.key]);
  });
  on("focus", () => stage.matches(":focus-visible") && select(index));
  on("blur", () => select(points.length - 1, false));
  on(
    "pointermove",
    (event) => plotted && select(nearest(plotted.dots, event.clientX - stage.getBoundingClientRect().left)),
  );
  on("pointerleave", () => document.activeElement !== stage && select(points.length - 1, false));
  const watching = new ResizeObserver(render);
  watching.observe(stage);
  signal.addEventListener("abort", () => watching.disconnect());

  const hint = metric.hint && h("span", { class: "muted" }, ` (${metric.hint})`);
  return {
    node: h(
      "figure",
      { class: "chart-box", data: { metric: metric.key } },
      h("figcaption", null, h("span", { class: "chart-name" }, metric.name, hint), value, when),
      stage,
    ),
    select(at, isPointing) {
      [index, isPointed] = [at, isPointing];
      const { from, to, value: figure } = series[at];
      value.textContent = metric.shown(figure);
      when.textContent = period(from, to);
      stage.setAttribute("aria-valuenow", at + 1);
      stage.setAttribute("aria-valuetext", `${period(from, to)}: ${metric.shown(figure)}`);
      const chart = stage.querySelector("svg");
      if (chart) point(chart, isPointing ? plotted.dots[at] : null);
    },
  };
}

function notes(points, truncated) {
  const lengths = points.map((each) => (Date.parse(each.to) - Date.parse(each.from)) / 86_400_000 + 1);
  const [least, most] = [Math.min(...lengths), Math.max(...lengths)];
  return [
    most > least * 1.25 &&
      h(
        "p",
        { class: "muted" },
        `Periods are ${least} to ${most} days long. Clicks and impressions are totals per period, so compare them with care.`,
      ),
    truncated && h("p", { class: "muted" }, "Not all periods are shown."),
  ];
}

function figures(points) {
  const row = (each) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, period(each.from, each.to)),
      METRICS.map((metric) => h("td", { class: "num" }, metric.shown(each[metric.key] ?? null))),
    );
  const names = METRICS.map((metric) => h("th", { scope: "col", class: "num" }, metric.name));
  return h(
    "details",
    { class: "figures" },
    h("summary", null, "Show as table"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures" },
      h(
        "table",
        { class: "table" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "Period"), names)),
        h("tbody", null, points.toReversed().map(row)),
      ),
    ),
  );
}
