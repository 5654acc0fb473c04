/** Names of the contract as people read them. */

import { h } from "../../dom.js";
import { date } from "../../format.js";

/** `publish_requested` and `GUIDE_USES_CONCEPT` as words. @param {string} name */
export function words(name) {
  const text = name.toLowerCase().replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const MOODS = { published: "tag-good", publish_requested: "tag-warn" };

export function statusTag(status) {
  return h("span", { class: `tag ${MOODS[status] ?? ""}` }, words(status));
}

/** The kind's colour is that of the graph. */
export function typeMark(type, types) {
  return h("span", { class: `kind kind-${types.indexOf(type)}` }, words(type));
}

/** A moment's day, in UTC as the content has it. @param {string} moment */
export function dayOf(moment) {
  return date(moment.slice(0, 10));
}

/** `Mar 2026` for a whole month, else both days. @param {string} from @param {string} to */
export function period(from, to) {
  const last = new Date(Date.UTC(Number(from.slice(0, 4)), Number(from.slice(5, 7)), 0)).toISOString().slice(0, 10);
  if (from.endsWith("-01") && to === last) return date(from).replace(/^\d+ /, "");
  if (from === to) return date(from);
  const start = date(from);
  const isSameYear = from.slice(0, 4) === to.slice(0, 4);
  return `${isSameYear ? start.replace(/ \d+$/, "") : start} – ${date(to)}`;
}
