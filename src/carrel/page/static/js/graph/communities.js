/**
 * Which nodes belong together: Louvain's method, each level a smaller graph of the communities of the one before.
 * Nodes are taken in their order, so that the same graph always gives the same answer.
 *
 * @typedef {object} Level
 * @property {number} count
 * @property {Uint32Array} offsets
 * @property {Uint32Array} targets neighbours, without the node itself
 * @property {Float32Array} weights
 * @property {Float32Array} mass how many nodes of the first level it stands for
 * @property {Float64Array} inner weight of the links within, counted twice
 * @property {Uint32Array|null} parent each node's place in the next level
 * @property {Uint32Array|null} cluster each node's place in the last level, unless this is the last
 */

const MOST_PASSES = 8;
const FEW = 12;

/** @returns {Level[]} the graph itself first, the coarsest last */
export function hierarchy(count, offsets, targets) {
  let level = {
    count, offsets, targets, parent: null, cluster: null,
    weights: new Float32Array(targets.length).fill(1),
    mass: new Float32Array(count).fill(1),
    inner: new Float64Array(count),
  };
  const levels = [level];
  while (level.count > FEW) {
    const { community, found } = move(level);
    if (found >= level.count * 0.95) break;
    level.parent = community;
    level = merged(level, community, found);
    levels.push(level);
  }
  for (let depth = levels.length - 2; depth >= 0; depth--) {
    const { parent } = levels[depth];
    const above = levels[depth + 1].cluster;
    levels[depth].cluster = above === null ? parent : parent.map((place) => above[place]);
  }
  return levels;
}

/** Each node goes to the neighbouring community that gains most by it, until none moves. */
function move({ count, offsets, targets, weights, inner }) {
  const strength = Float64Array.from(inner);
  for (let node = 0; node < count; node++) {
    for (let at = offsets[node]; at < offsets[node + 1]; at++) strength[node] += weights[at];
  }
  const twice = strength.reduce((sum, each) => sum + each, 0) || 1;
  const community = Uint32Array.from({ length: count }, (_, node) => node);
  const total = Float64Array.from(strength);
  const towards = new Float64Array(count);
  const touched = new Uint32Array(count);
  for (let pass = 0, moved = count; moved > count / 200 && pass < MOST_PASSES; pass++) {
    moved = 0;
    for (let node = 0; node < count; node++) {
      let many = 0;
      for (let at = offsets[node]; at < offsets[node + 1]; at++) {
        const other = community[targets[at]];
        if (towards[other] === 0) touched[many++] = other;
        towards[other] += weights[at];
      }
      const old = community[node];
      total[old] -= strength[node];
      let best = old;
      let most = towards[old] - (total[old] * strength[node]) / twice;
      for (let each = 0; each < many; each++) {
        const other = touched[each];
        const gain = towards[other] - (total[other] * strength[node]) / twice;
        if (gain > most + 1e-9) [best, most] = [other, gain];
        towards[other] = 0;
      }
      towards[old] = 0;
      total[best] += strength[node];
      if (best !== old) moved++;
      community[node] = best;
    }
  }
  return renumbered(community);
}

function renumbered(community) {
  const places = new Int32Array(community.length).fill(-1);
  let found = 0;
  for (let node = 0; node < community.length; node++) {
    const old = community[node];
    if (places[old] < 0) places[old] = found++;
    community[node] = places[old];
  }
  return { community, found };
}

function merged({ count, offsets, targets, weights, mass, inner }, community, found) {
  const rows = Array.from({ length: found }, () => new Map());
  const masses = new Float32Array(found);
  const inners = new Float64Array(found);
  for (let node = 0; node < count; node++) {
    const own = community[node];
    masses[own] += mass[node];
    inners[own] += inner[node];
    for (let at = offsets[node]; at < offsets[node + 1]; at++) {
      const other = community[targets[at]];
      if (other === own) inners[own] += weights[at];
      else rows[own].set(other, (rows[own].get(other) ?? 0) + weights[at]);
    }
  }
  const starts = new Uint32Array(found + 1);
  rows.forEach((row, place) => (starts[place + 1] = starts[place] + row.size));
  const others = new Uint32Array(starts[found]);
  const sums = new Float32Array(starts[found]);
  rows.forEach((row, place) => {
    let at = starts[place];
    for (const [other, weight] of row) {
      others[at] = other;
      sums[at++] = weight;
    }
  });
  return { count: found, offsets: starts, targets: others, weights: sums, mass: masses, inner: inners, parent: null, cluster: null };
}
