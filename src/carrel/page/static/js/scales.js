/** The axes of a chart: which values and which days it is marked at. */

const DAY = 86_400_000;

/** A round step (1, 2 or 5 times a power of ten) that fits about `count` times into `range`. */
export function roundStep(range, count) {
  const rough = range / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((each) => each * power >= rough * (1 - 1e-9));
  return factor * power;
}

/**
 * The axis of values: `{low, high, ticks}`.
 * @param {number[]} values
 * @param {{fromZero?: boolean, floor?: number, whole?: boolean, count?: number}} how
 *   `floor` is the least value that can be (a position is 1 or more); `whole` keeps fractions off an axis of counts.
 */
export function valueAxis(values, { fromZero = false, floor = -Infinity, whole = false, count = 3 } = {}) {
  let low = fromZero ? 0 : Math.min(...values);
  let high = Math.max(...values);
  if (!values.length) [low, high] = [0, 1];
  if (low === high) {
    const room = Math.abs(high) * 0.1 || 1;
    [low, high] = [fromZero ? 0 : high - room, high + room];
  }
  let step = roundStep(high - low, count);
  if (whole) step = Math.max(1, step);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  const ticks = [];
  for (let each = first; each <= last; each += 1) ticks.push(Number((each * step).toPrecision(12)));
  if (ticks[0] >= floor) return { low: ticks[0], high: ticks.at(-1), ticks };
  const above = ticks.filter((tick) => tick > floor + step * 0.35);
  return { low: floor, high: above.at(-1) ?? floor + step, ticks: [floor, ...above] };
}

/** Days since 1970 of a date, whatever time follows it. */
export function dayOf(date) {
  return Date.parse(`${date.slice(0, 10)}T00:00:00Z`) / DAY;
}

const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
const DAYS = [1, 2, 7, 14];

/**
 * Days to mark between `first` and `last`, at most `most` of them: `[{day, label, year}]`. `year` is empty where it is
 * that of the mark before.
 */
export function timeTicks(first, last, most) {
  const span = last - first;
  const days = span <= 45 && DAYS.find((step) => span / step <= most);
  const months = MONTHS.find((each) => span / 30.4 / each <= most) ?? MONTHS.at(-1);
  const marks = days ? everyDays(first, last, days) : everyMonths(first, last, months);
  let before = "";
  return marks.map((day) => {
    const date = new Date(day * DAY);
    const year = String(date.getUTCFullYear());
    if (!days && months >= 12) return { day, label: year, year: "" };
    const month = date.toLocaleDateString("en", { month: "short", timeZone: "UTC" });
    const tick = { day, label: days ? `${date.getUTCDate()} ${month}` : month, year: year === before ? "" : year };
    before = year;
    return tick;
  });
}

function everyDays(first, last, step) {
  const marks = [];
  for (let day = Math.ceil(first); day <= last; day += step) marks.push(day);
  return marks;
}

function everyMonths(first, last, step) {
  const start = new Date(first * DAY);
  const marks = [];
  let month = Math.ceil((start.getUTCFullYear() * 12 + start.getUTCMonth()) / step) * step;
  for (;;) {
    const day = Date.UTC(Math.floor(month / 12), month % 12) / DAY;
    if (day > last) return marks;
    if (day >= first) marks.push(day);
    month += step;
  }
}
