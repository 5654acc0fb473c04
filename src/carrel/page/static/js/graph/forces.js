/** Nodes push each other away, links pull, and all of it cools down. No chance: the same start ends the same. */

import { Quadtree } from "./quadtree.js";

/** A small graph has room: its nodes keep farther apart, for their names. */
const REPULSION = { few: 60, many: 24 };
const GRAVITY = 0.012;
const FRICTION = 0.62;
const THETA = 1.1;
const NEAREST = 4;
const LINK_LENGTH = 15;
const BETWEEN = 0.12;
const COHESION = { few: 0.012, many: 0.03 };
const FEW = 300;

export class Forces {
  /**
   * @param {import("./communities.js").Level} level
   * @param {Float64Array} x
   * @param {Float64Array} y
   */
  constructor(level, x, y) {
    this.level = level;
    this.x = x;
    this.y = y;
    this.speedX = new Float64Array(level.count);
    this.speedY = new Float64Array(level.count);
    this.tree = new Quadtree(level.count);
    this.springs = springs(level);
    const size = level.mass.reduce((sum, each) => sum + each, 0) < FEW ? "few" : "many";
    this.repulsion = REPULSION[size];
    this.cohesion = COHESION[size];
    this.clusters = level.cluster ? new Clusters(level.cluster) : null;
  }

  /** @param {number} heat from 1, everything may move, to 0, nothing does */
  step(heat) {
    const { x, y, speedX, speedY, level, tree } = this;
    tree.build(x, y, level.mass);
    tree.repel(x, y, level.mass, speedX, speedY, this.repulsion * heat, THETA, NEAREST);
    this.pull(heat);
    this.clusters?.pull(x, y, speedX, speedY, this.cohesion * heat);
    let [middleX, middleY, all] = [0, 0, 0];
    for (let node = 0; node < level.count; node++) {
      middleX += x[node] * level.mass[node];
      middleY += y[node] * level.mass[node];
      all += level.mass[node];
    }
    middleX /= all;
    middleY /= all;
    for (let node = 0; node < level.count; node++) {
      speedX[node] = (speedX[node] - (x[node] - middleX) * GRAVITY * heat) * FRICTION;
      speedY[node] = (speedY[node] - (y[node] - middleY) * GRAVITY * heat) * FRICTION;
      x[node] += speedX[node];
      y[node] += speedY[node];
    }
  }

  pull(heat) {
    const { x, y, speedX, speedY } = this;
    const { from, to, length, strength, share } = this.springs;
    for (let link = 0; link < from.length; link++) {
      const a = from[link];
      const b = to[link];
      let apartX = x[b] + speedX[b] - x[a] - speedX[a];
      let apartY = y[b] + speedY[b] - y[a] - speedY[a];
      const apart = Math.sqrt(apartX * apartX + apartY * apartY) || 1e-6;
      const tension = ((apart - length[link]) / apart) * heat * strength[link];
      apartX *= tension;
      apartY *= tension;
      speedX[b] -= apartX * share[link];
      speedY[b] -= apartY * share[link];
      speedX[a] += apartX * (1 - share[link]);
      speedY[a] += apartY * (1 - share[link]);
    }
  }
}

/** One for each pair. Links between communities are weak and long, which is what makes clusters visible. */
function springs({ count, offsets, targets, mass, cluster }) {
  const pairs = targets.length / 2;
  const made = {
    from: new Uint32Array(pairs), to: new Uint32Array(pairs),
    length: new Float32Array(pairs), strength: new Float32Array(pairs), share: new Float32Array(pairs),
  };
  let link = 0;
  for (let node = 0; node < count; node++) {
    for (let at = offsets[node]; at < offsets[node + 1]; at++) {
      const other = targets[at];
      if (other < node) continue;
      const own = offsets[node + 1] - offsets[node];
      const its = offsets[other + 1] - offsets[other];
      const apart = cluster !== null && cluster[node] !== cluster[other];
      made.from[link] = node;
      made.to[link] = other;
      made.length[link] = LINK_LENGTH * (Math.sqrt(mass[node]) + Math.sqrt(mass[other])) * (apart ? 2 : 1);
      made.strength[link] = (apart ? BETWEEN : 1) / Math.min(own, its);
      made.share[link] = own / (own + its);
      link++;
    }
  }
  return made;
}

/** Nodes of a cluster keep to its middle. */
class Clusters {
  constructor(cluster) {
    this.cluster = cluster;
    const count = cluster.reduce((most, each) => Math.max(most, each), 0) + 1;
    this.size = new Float64Array(count);
    this.x = new Float64Array(count);
    this.y = new Float64Array(count);
    for (const each of cluster) this.size[each]++;
  }

  pull(x, y, speedX, speedY, strength) {
    const { cluster, size } = this;
    this.x.fill(0);
    this.y.fill(0);
    for (let node = 0; node < cluster.length; node++) {
      this.x[cluster[node]] += x[node] / size[cluster[node]];
      this.y[cluster[node]] += y[node] / size[cluster[node]];
    }
    for (let node = 0; node < cluster.length; node++) {
      speedX[node] += (this.x[cluster[node]] - x[node]) * strength;
      speedY[node] += (this.y[cluster[node]] - y[node]) * strength;
    }
  }
}
