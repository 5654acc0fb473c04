/** What is to be drawn: the model, where its nodes are, and what stands out. Views change it through its methods. */

import { ORPHAN, degreeOf } from "./model.js";

const SMALLEST = 2.4;
const LARGEST = 17;

export class Scene {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    this.model = model;
    this.isPlaced = false;
    this.positions = new Float32Array(2 * model.count);
    this.radius = Float32Array.from({ length: model.count }, (_, node) =>
      Math.min(LARGEST, SMALLEST + 1.05 * Math.sqrt(degreeOf(model, node))),
    );
    this.shown = new Uint8Array(model.count).fill(1);
    this.hidden = new Set();
    this.marksBroken = true;
    this.selected = -1;
    /** @type {number[]} */
    this.found = [];
    /** 0 not picked out, 1 a neighbour, 2 found or selected */
    this.lit = new Uint8Array(model.count);
    this.version = 0;
  }

  get hasLight() {
    return this.selected >= 0 || this.found.length > 0;
  }

  move(positions) {
    this.isPlaced = true;
    this.positions = positions;
    this.version++;
  }

  select(node) {
    this.selected = node;
    this.#light();
  }

  pickOut(nodes) {
    this.found = nodes;
    this.#light();
  }

  /** @param {number|"orphans"|"broken"} what a group's number or a mark */
  toggle(what, isOn) {
    if (what === "broken") this.marksBroken = isOn;
    else if (isOn) this.hidden.delete(what);
    else this.hidden.add(what);
    const { group, flags, count } = this.model;
    const withoutOrphans = this.hidden.has("orphans");
    for (let node = 0; node < count; node++) {
      this.shown[node] = this.hidden.has(group[node]) || (withoutOrphans && flags[node] & ORPHAN) ? 0 : 1;
    }
    this.version++;
  }

  #light() {
    this.lit.fill(0);
    const { offsets, neighbours } = this.model;
    if (this.selected >= 0) {
      for (let at = offsets[this.selected]; at < offsets[this.selected + 1]; at++) this.lit[neighbours[at]] = 1;
      this.lit[this.selected] = 2;
    }
    for (const node of this.found) this.lit[node] = 2;
    this.version++;
  }
}

/** In pixels: nodes grow more slowly than distances, so that one sees more when one comes closer. */
export function radiusOnScreen(radius, zoom) {
  return Math.max(1.4, radius * Math.min(zoom, 1) ** 0.7 * Math.max(zoom, 1) ** 0.45);
}
