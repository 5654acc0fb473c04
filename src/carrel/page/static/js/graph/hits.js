/** Which node lies where: a grid over the plane, made anew when nodes have moved. */

import { radiusOnScreen } from "./scene.js";

const CELL = 40;
const REACH = 6;

export class Hits {
  /** @param {import("./scene.js").Scene} scene */
  constructor(scene) {
    this.scene = scene;
    this.positions = null;
    this.cells = new Map();
  }

  /** The node under a place of the plane, or -1. @param {number} reach more pixels around a node, for fingers */
  at(x, y, zoom, reach = REACH) {
    this.#refresh();
    const { positions, radius, shown } = this.scene;
    const far = Math.min(CELL * 4, (radiusOnScreen(17, zoom) + reach) / zoom);
    let [best, nearest] = [-1, Infinity];
    for (const node of this.#around(x, y, far)) {
      if (!shown[node]) continue;
      const apart = Math.hypot(positions[2 * node] - x, positions[2 * node + 1] - y) * zoom;
      const beyond = apart - radiusOnScreen(radius[node], zoom);
      if (beyond < reach && beyond < nearest) [best, nearest] = [node, beyond];
    }
    return best;
  }

  #refresh() {
    const { positions } = this.scene;
    if (positions === this.positions) return;
    this.positions = positions;
    this.cells.clear();
    for (let node = 0; node < positions.length / 2; node++) {
      const place = key(Math.floor(positions[2 * node] / CELL), Math.floor(positions[2 * node + 1] / CELL));
      const there = this.cells.get(place);
      if (there) there.push(node);
      else this.cells.set(place, [node]);
    }
  }

  *#around(x, y, far) {
    for (let column = Math.floor((x - far) / CELL); column <= Math.floor((x + far) / CELL); column++) {
      for (let row = Math.floor((y - far) / CELL); row <= Math.floor((y + far) / CELL); row++) {
        yield* this.cells.get(key(column, row)) ?? [];
      }
    }
  }
}

function key(column, row) {
  return (column + 32768) * 65536 + row + 32768;
}
