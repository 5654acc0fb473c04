/** Numbers and times as people read them. */

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const day = { day: "numeric", month: "short", year: "numeric" };
const local = new Intl.DateTimeFormat("en-GB", day);
const utc = new Intl.DateTimeFormat("en-GB", { ...day, timeZone: "UTC" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

const NOTHING = "–";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** `12,345` or `0.4` @param {number} n */
export function number(n) {
  return isNumber(n) ? plain.format(n) : NOTHING;
}

/** `4.2%` of a part of one @param {number} x */
export function percent(x) {
  return isNumber(x) ? `${plain.format(x * 100)}%` : NOTHING;
}

/** `0.42 ms`, `12 ms`, `1.3 s` @param {number} x */
export function ms(x) {
  if (!isNumber(x)) return NOTHING;
  if (x < 1) return `${x.toFixed(2)} ms`;
  if (x < 10) return `${x.toFixed(1)} ms`;
  return x < 1000 ? `${whole.format(x)} ms` : `${plain.format(x / 1000)} s`;
}

/** `812 B`, `4.2 kB` @param {number} n */
export function bytes(n) {
  if (!isNumber(n)) return NOTHING;
  if (n < 1000) return `${n} B`;
  return n < 1e6 ? `${plain.format(n / 1e3)} kB` : `${plain.format(n / 1e6)} MB`;
}

/** `5 s ago`, `3 min ago`, `2 h ago`, `4 days ago`, and then the date @param {string} iso @param {number} [now] */
export function ago(iso, now = Date.now()) {
  const seconds = Math.round((now - Date.parse(iso)) / 1000);
  if (!isNumber(seconds)) return NOTHING;
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86400);
  return days < 14 ? `${days} ${days === 1 ? "day" : "days"} ago` : date(iso);
}

/** `16 Nov 2026`; a date without a time is the same day everywhere @param {string} iso */
export function date(iso) {
  const moment = new Date(iso);
  if (Number.isNaN(moment.getTime())) return NOTHING;
  return (/^\d{4}-\d\d-\d\d$/.test(iso) ? utc : local).format(moment);
}

/** `14:03:22` @param {string} iso */
export function time(iso) {
  const moment = new Date(iso);
  return Number.isNaN(moment.getTime()) ? NOTHING : clock.format(moment);
}
