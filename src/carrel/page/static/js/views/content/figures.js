/** The four figures of search performance: how they are called, written and drawn. */

import { number } from "../../format.js";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const oneDecimal = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const short = (value) => compact.format(value);

/** @param {number | null} value a part of one */
export const rate = (value) => (value === null ? "–" : `${oneDecimal.format(value * 100)}%`);

/** @param {number | null} value a place in a list of results */
export const position = (value) => (value === null ? "–" : oneDecimal.format(value));

const counted = { shown: number, tick: short, axis: { fromZero: true, whole: true }, isFilled: true };

export const METRICS = [
  { key: "clicks", name: "Clicks", ...counted },
  { key: "impressions", name: "Impressions", ...counted },
  {
    key: "ctr",
    name: "Click-through rate",
    shown: rate,
    tick: (value) => `${short(value * 100)}%`,
    axis: { fromZero: true },
    isFilled: true,
  },
  {
    key: "position",
    name: "Average position",
    hint: "1 is best",
    shown: position,
    tick: short,
    axis: { floor: 1 },
    inverted: true,
  },
];
