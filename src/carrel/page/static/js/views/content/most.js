/** The queries and the pages that brought most clicks in a period. */

import { fill } from "../../asking.js";
import { empty, h, replace } from "../../dom.js";
import { number } from "../../format.js";
import { position, rate } from "./figures.js";
import { period } from "./words.js";

const FIRST = 10;
const COLUMNS = ["Clicks", "Impressions", "CTR", "Position"];
const BY = { query: "Queries", pageUrl: "Pages" };

/** @param {any} view @param {any | null} entity @param {{from: string, to: string}[]} points */
export function mostClicked(view, entity, points) {
  const place = h("div", { class: "most-rows" });
  const newest = points.toReversed();
  const options = newest.map((each, index) => h("option", { value: index }, period(each.from, each.to)));
  const select = h("select", { class: "input most-period", "aria-label": "Period", on: { change: load } }, options);
  const choices = Object.entries(BY).map(([key, name]) =>
    h(
      "label",
      null,
      h("input", { type: "radio", name: "most-by", value: key, checked: key === "query", on: { change: show } }),
      name,
    ),
  );
  const choice = h("fieldset", { class: "choice" }, h("legend", { class: "unseen" }, "By"), choices);
  let found = null;

  function load() {
    fill(
      place,
      async () => {
        found = await view.source.rows(view.project.id, entity?.id, newest[Number(select.value)]);
        return table();
      },
      view.context.signal,
    );
  }

  function show() {
    if (found) replace(place, table());
  }

  function table(isWhole = false) {
    const key = choice.querySelector(":checked").value;
    const groups = summed(found.rows, key);
    if (!groups.length) return empty("No data for this period.");
    const more = () => replace(place, table(true));
    return [
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": `Most clicked ${BY[key].toLowerCase()}` },
        h(
          "table",
          { class: "table" },
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              h("th", { scope: "col" }, key === "query" ? "Query" : "Page"),
              COLUMNS.map((name) => h("th", { scope: "col", class: "num" }, name)),
            ),
          ),
          h(
            "tbody",
            null,
            groups.slice(0, isWhole ? undefined : FIRST).map((group) => row(view, entity, key, group)),
          ),
        ),
      ),
      !isWhole &&
        groups.length > FIRST &&
        h("button", { type: "button", class: "button", on: { click: more } }, `Show all ${number(groups.length)}`),
      !found.isWhole && h("p", { class: "muted" }, "Based on the first 1,000 rows of the period."),
    ];
  }

  load();
  return h(
    "section",
    { class: "most" },
    h("div", { class: "bar" }, h("h3", null, "Most clicked"), choice, select),
    place,
  );
}

function row(view, entity, key, group) {
  const text = key === "query" ? group.name : group.name.replace(/^https?:\/\/[^/]+/, "") || "/";
  const isElsewhere = key === "pageUrl" && group.entityId && group.entityId !== entity?.id;
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row", class: "most-name", title: group.name },
      isElsewhere ? view.link(group.entityId, {}, text) : text,
    ),
    h("td", { class: "num" }, number(group.clicks)),
    h("td", { class: "num" }, number(group.impressions)),
    h("td", { class: "num" }, rate(group.impressions ? group.clicks / group.impressions : 0)),
    h("td", { class: "num" }, position(group.impressions ? group.places / group.impressions : null)),
  );
}

/** Rows of one name together; positions weigh as much as their impressions. */
function summed(rows, key) {
  const groups = new Map();
  for (const each of rows) {
    const group = groups.get(each[key]) ?? {
      name: each[key],
      entityId: each.entityId,
      clicks: 0,
      impressions: 0,
      places: 0,
    };
    group.clicks += each.clicks;
    group.impressions += each.impressions;
    group.places += each.avgPosition * each.impressions;
    groups.set(each[key], group);
  }
  return [...groups.values()].sort(
    (one, other) =>
      other.clicks - one.clicks || other.impressions - one.impressions || (one.name < other.name ? -1 : 1),
  );
}
