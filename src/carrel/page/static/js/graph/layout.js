/** Where nodes go. Every part of the graph that hangs together is laid out for itself; then the parts are packed. */

import { hierarchy } from "./communities.js";
import { Forces } from "./forces.js";
import { pack } from "./packing.js";

const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));
const SPACING = 14;
const COARSE_STEPS = 80;
const COARSE_MOST = 500;
const COLDEST = 0.01;
const FEW = 400;

export class Layout {
  /**
   * @param {number} count
   * @param {Uint32Array} offsets
   * @param {Uint32Array} neighbours
   * @param {number} aspect width to height of where it is shown
   */
  constructor(count, offsets, neighbours, aspect) {
    this.aspect = aspect;
    this.count = count;
    const { parts, alone } = components(count, offsets, neighbours);
    this.alone = alone;
    this.parts = parts.map((nodes) => new Part(nodes, offsets, neighbours));
  }

  get settled() {
    return this.parts.every((part) => part.settled);
  }

  /** Move for about so many milliseconds, the small parts first: they are done at once. */
  run(milliseconds) {
    const until = performance.now() + milliseconds;
    for (const part of [...this.parts].reverse()) {
      while (!part.settled && performance.now() < until) part.step();
    }
  }

  /** To the end: what `run` comes to, whatever the time it is given. */
  finish() {
    for (const part of this.parts) while (!part.settled) part.step();
  }

  /** @returns {Float32Array} x, y, x, y ... */
  positions() {
    return pack(this.parts, this.alone, this.count, this.aspect);
  }
}

/** Nodes that hang together, placed by their communities from the coarsest down. */
class Part {
  constructor(nodes, offsets, neighbours) {
    this.nodes = nodes;
    const levels = hierarchy(nodes.length, ...local(nodes, offsets, neighbours));
    let [x, y] = [new Float64Array(levels.at(-1).count), new Float64Array(levels.at(-1).count)];
    spiral(levels.at(-1), x, y);
    for (let depth = levels.length - 1; depth > 0; depth--) {
      if (levels[depth].count <= COARSE_MOST) arrange(levels[depth], x, y);
      [x, y] = expanded(levels[depth - 1], levels[depth], x, y);
    }
    this.x = x;
    this.y = y;
    this.forces = new Forces(levels[0], x, y);
    this.heat = levels.length > 1 ? 0.5 : 1;
    this.cooling = (COLDEST / this.heat) ** (1 / (nodes.length < FEW ? 240 : 140));
  }

  get settled() {
    return this.heat <= COLDEST;
  }

  step() {
    this.forces.step(this.heat);
    this.heat *= this.cooling;
  }
}

/** Only where there are few: the first picture must not wait. */
function arrange(level, x, y) {
  const forces = new Forces(level, x, y);
  for (let step = 0; step < COARSE_STEPS; step++) forces.step(1 - step / COARSE_STEPS);
}

function components(count, offsets, neighbours) {
  const seen = new Uint8Array(count);
  const queue = new Uint32Array(count);
  const parts = [];
  const alone = [];
  for (let start = 0; start < count; start++) {
    if (seen[start]) continue;
    if (offsets[start] === offsets[start + 1]) {
      alone.push(start);
      continue;
    }
    let [head, tail] = [0, 1];
    queue[0] = start;
    seen[start] = 1;
    while (head < tail) {
      const node = queue[head++];
      for (let at = offsets[node]; at < offsets[node + 1]; at++) {
        const other = neighbours[at];
        if (seen[other]) continue;
        seen[other] = 1;
        queue[tail++] = other;
      }
    }
    parts.push(queue.slice(0, tail));
  }
  parts.sort((a, b) => b.length - a.length || a[0] - b[0]);
  return { parts, alone: Uint32Array.from(alone) };
}

/** The part's own numbering. */
function local(nodes, offsets, neighbours) {
  const places = new Map();
  nodes.forEach((node, place) => places.set(node, place));
  const starts = new Uint32Array(nodes.length + 1);
  nodes.forEach((node, place) => (starts[place + 1] = starts[place] + offsets[node + 1] - offsets[node]));
  const targets = new Uint32Array(starts[nodes.length]);
  nodes.forEach((node, place) => {
    for (let at = 0; at < offsets[node + 1] - offsets[node]; at++) {
      targets[starts[place] + at] = places.get(neighbours[offsets[node] + at]);
    }
  });
  return [starts, targets];
}

/** The heaviest in the middle. */
function spiral({ count, mass }, x, y) {
  const order = Uint32Array.from({ length: count }, (_, node) => node).sort((a, b) => mass[b] - mass[a] || a - b);
  let before = 0;
  order.forEach((node, place) => {
    const far = SPACING * Math.sqrt(before + mass[node] / 2);
    x[node] = far * Math.cos(place * GOLDEN_ANGLE);
    y[node] = far * Math.sin(place * GOLDEN_ANGLE);
    before += mass[node];
  });
}

/** Every node around the place of its community, the best linked in the middle. */
function expanded(fine, coarse, x, y) {
  const degree = (node) => fine.offsets[node + 1] - fine.offsets[node];
  const order = Uint32Array.from({ length: fine.count }, (_, node) => node);
  order.sort((a, b) => degree(b) - degree(a) || a - b);
  const before = new Float64Array(coarse.count);
  const placed = new Uint32Array(coarse.count);
  const [fineX, fineY] = [new Float64Array(fine.count), new Float64Array(fine.count)];
  for (const node of order) {
    const community = fine.parent[node];
    const far = SPACING * Math.sqrt(before[community]);
    const angle = placed[community]++ * GOLDEN_ANGLE;
    fineX[node] = x[community] + far * Math.cos(angle);
    fineY[node] = y[community] + far * Math.sin(angle);
    before[community] += fine.mass[node];
  }
  return [fineX, fineY];
}
