/** Parts that are not linked lie side by side, and nodes that are alone in a tidy block. */

const GAP = 40;
const ROOMY = { many: 40, width: 64, height: 26 };
const TIGHT = { width: 40, height: 40 };

/**
 * @param {{nodes: Uint32Array, x: Float64Array, y: Float64Array}[]} parts the largest first
 * @param {Uint32Array} alone
 * @returns {Float32Array} x, y of every node, around 0, 0
 */
export function pack(parts, alone, count, aspect) {
  const boxes = parts.map(box);
  const [largest, ...others] = boxes;
  const rest = others.concat(alone.length ? [block(alone, others, largest)] : []);
  const beside = largest ? arranged(largest, rest, aspect, true) : arranged(null, rest, aspect, false);
  const below = arranged(largest ?? null, rest, aspect, false);
  const chosen = fits(beside, aspect) < fits(below, aspect) ? beside : below;
  const positions = new Float32Array(2 * count);
  for (const { box: { nodes, x, y }, left, top } of chosen.placed) {
    for (let at = 0; at < nodes.length; at++) {
      positions[2 * nodes[at]] = x[at] + left - chosen.width / 2;
      positions[2 * nodes[at] + 1] = y[at] + top - chosen.height / 2;
    }
  }
  return positions;
}

function box({ nodes, x, y }) {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let at = 0; at < nodes.length; at++) {
    left = Math.min(left, x[at]);
    right = Math.max(right, x[at]);
    top = Math.min(top, y[at]);
    bottom = Math.max(bottom, y[at]);
  }
  return { nodes, x: x.map((each) => each - left), y: y.map((each) => each - top), width: right - left, height: bottom - top };
}

function block(alone, others, largest) {
  const cell = alone.length <= ROOMY.many ? ROOMY : TIGHT;
  const room = largest && alone.length > ROOMY.many ? largest.height / cell.height : 0;
  const rows = Math.max(1, Math.min(room || Infinity, Math.ceil(Math.sqrt((alone.length * cell.width) / cell.height))));
  const columns = Math.ceil(alone.length / Math.floor(rows));
  const x = Float64Array.from(alone, (_, place) => (place % columns) * cell.width);
  const y = Float64Array.from(alone, (_, place) => Math.floor(place / columns) * cell.height);
  return { nodes: alone, x, y, width: x.reduce((a, b) => Math.max(a, b), 0), height: y.at(-1) };
}

/** Rows of boxes, as wide as the room that there is: below the largest, or to its right. */
function arranged(largest, rest, aspect, beside) {
  const area = rest.reduce((sum, each) => sum + (each.width + GAP) * (each.height + GAP), 0);
  const widest = rest.reduce((most, each) => Math.max(most, each.width), 0);
  const room = largest
    ? Math.max(widest, beside ? (1.15 * area) / (largest.height + GAP) : largest.width)
    : Math.max(widest, Math.sqrt(area * aspect));
  const placed = [];
  let [width, height, left, high] = [0, 0, 0, 0];
  for (const each of rest) {
    if (left > 0 && left + each.width > room) [height, left, high] = [height + high + GAP, 0, 0];
    placed.push({ box: each, left, top: height });
    left += each.width + GAP;
    high = Math.max(high, each.height);
    width = Math.max(width, left - GAP);
  }
  height += high;
  return largest ? joined(largest, { placed, width, height }, beside) : { placed, width, height };
}

function joined(largest, rows, beside) {
  if (!rows.placed.length) return { placed: [{ box: largest, left: 0, top: 0 }], width: largest.width, height: largest.height };
  const width = beside ? largest.width + GAP + rows.width : Math.max(largest.width, rows.width);
  const height = beside ? Math.max(largest.height, rows.height) : largest.height + GAP + rows.height;
  const [left, top] = beside
    ? [largest.width + GAP, (height - rows.height) / 2]
    : [(width - rows.width) / 2, largest.height + GAP];
  const [ownLeft, ownTop] = beside ? [0, (height - largest.height) / 2] : [(width - largest.width) / 2, 0];
  const placed = rows.placed.map((each) => ({ box: each.box, left: each.left + left, top: each.top + top }));
  return { placed: [{ box: largest, left: ownLeft, top: ownTop }, ...placed], width, height };
}

function fits({ width, height }, aspect) {
  return Math.max(width / aspect, height);
}
