/** Quotable blocks: those of an entity, and those of a project that are about to expire. */

import { fill } from "../../asking.js";
import { copyButton } from "../../copying.js";
import { empty, h, svg } from "../../dom.js";
import { number } from "../../format.js";
import { expiring } from "./source.js";
import { dayOf, words } from "./words.js";

const HORIZONS = [7, 30, 90];
const USUAL = 30;
const DAY_MS = 86_400_000;

/** Blocks whose claims have expired or soon will; the horizon can be chosen. */
export function expiringPanel(view) {
  const { context, project } = view;
  const place = h("div", null);
  const chosen = Number(context.params.get("days"));
  let days = HORIZONS.includes(chosen) ? chosen : USUAL;
  const load = () =>
    fill(place, async () => expiringList(view, await expiring(project.id, days), days), context.signal);
  const choose = (event) => {
    days = Number(event.target.value);
    context.setParams({ days: days === USUAL ? null : days });
    load();
  };
  const options = HORIZONS.map((each) =>
    h(
      "label",
      null,
      h("input", { type: "radio", name: "horizon", value: each, checked: each === days, on: { change: choose } }),
      `${each} days`,
    ),
  );
  load();
  return h(
    "section",
    { class: "panel" },
    h(
      "div",
      { class: "bar panel-bar" },
      h("h2", null, "Blocks to verify"),
      h("fieldset", { class: "choice" }, h("legend", { class: "unseen" }, "Expiring within"), options),
    ),
    place,
  );
}

function expiringList(view, { blocks, total }, days) {
  if (!blocks.length) return empty(`No quotable blocks have expired or will expire within ${days} days.`);
  const expired = blocks.filter((block) => block.days < 0).length;
  const soon = blocks.length - expired;
  return [
    h(
      "p",
      { class: "muted" },
      `${number(expired)} expired, ${number(soon)} within ${days} days`,
      total > blocks.length && `; showing the first ${number(blocks.length)} of ${number(total)}`,
      ".",
    ),
    listed(blocks, (block) => [
      freshness(block.verifiedUntil, block.days, days),
      view.link(block.entity.id, {}, block.entity.title),
      about(block.claimType, block.topic),
    ]),
  ];
}

/** All blocks of an entity. */
export function blocksPanel(view, entity) {
  const place = h("div", null);
  fill(place, async () => blockList(view, await view.source.blocks(view.project.id, entity.id)), view.context.signal);
  return h("section", { class: "panel" }, h("h2", null, "Quotable blocks"), place);
}

function blockList(view, { rows, total }) {
  if (!rows.length) return empty("This entity has no quotable blocks.");
  return [
    listed(rows, (block) => [
      freshness(block.verifiedUntil, daysUntil(block.verifiedUntil), USUAL),
      about(block.claimType, block.topicTag),
      block.sourceCitation && h("cite", null, block.sourceCitation),
      copyButton(block.text, view.context.announce, { label: "Copy text" }),
    ]),
    total > rows.length && h("p", { class: "muted" }, `Showing the first ${number(rows.length)}.`),
  ];
}

/** @param {(block: any) => any[]} metaOf what stands below a block's text */
function listed(blocks, metaOf) {
  const row = (block) =>
    h("li", { class: "block" }, h("p", { class: "block-text" }, block.text), h("p", { class: "block-meta" }, metaOf(block)));
  return h("ol", { class: "blocks" }, blocks.map(row));
}

function about(claimType, topic) {
  return h(
    "span",
    { class: "muted" },
    [words(claimType.replace("howto", "how-to")), topic].filter(Boolean).join(" · "),
  );
}

function daysUntil(moment) {
  return moment && Math.floor((Date.parse(moment) - Date.now()) / DAY_MS);
}

/** Until when it holds: in words and with a sign, not by colour alone. */
function freshness(until, days, horizon) {
  if (!until) return h("span", { class: "fresh" }, "Does not expire");
  const when = h("time", { datetime: until }, dayOf(until));
  if (days < 0)
    return h(
      "span",
      { class: "fresh fresh-expired" },
      sign("M5 5l6 6M11 5l-6 6"),
      h("strong", null, "Expired "),
      when,
      ` (${count(-days)} ago)`,
    );
  if (days <= horizon)
    return h(
      "span",
      { class: "fresh fresh-soon" },
      sign("M8 4.5V8l2.5 1.5"),
      h("strong", null, "Expires "),
      when,
      days < 1 ? " (today)" : ` (in ${count(days)})`,
    );
  return h("span", { class: "fresh fresh-good" }, sign("M5 8.2l2.2 2.2L11.2 6"), "Verified until ", when);
}

function count(days) {
  return `${number(days)} ${days === 1 ? "day" : "days"}`;
}

function sign(path) {
  return svg(
    "svg",
    { class: "sign", viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
    svg("circle", { cx: 8, cy: 8, r: 6.2 }),
    svg("path", { d: path }),
  );
}
