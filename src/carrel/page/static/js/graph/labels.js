/** Which titles are shown: the best linked first, each only where it covers no other and no larger node. */

import { radiusOnScreen } from "./scene.js";

const CELL = 24;
const HEIGHT = 16;
const LONGEST = 34;
const CLOSE = 1.6;
/** Square pixels for each title, close and far. */
const CLOSE_AREA = 5000;
const FAR_AREA = 36_000;
/** Where many lie on each other it would take long to find a place for the last. */
const TRIES = 5;
const FEW = 400;

/**
 * @param {import("./scene.js").Scene} scene
 * @param {{left: number, top: number, zoom: number, width: number, height: number}} view
 * @param {(text: string, isLarge: boolean) => number} widthOf
 * @returns {{node: number, text: string, x: number, y: number, isLarge: boolean}[]} x, y: the middle of the text
 */
export function placedLabels(scene, view, widthOf) {
  const { model, positions, shown, lit } = scene;
  const far = Math.max(0, 1 - view.zoom / CLOSE);
  const most = Math.round((view.width * view.height) / (CLOSE_AREA + far * (FAR_AREA - CLOSE_AREA)));
  const isRoomy = view.zoom >= CLOSE / 2 && model.count <= FEW;
  const apart = isRoomy ? 3 : 3 + 14 * far;
  const taken = new Taken(view.width);
  if (isRoomy) claimDots(taken, scene, view);
  const made = [];
  let tries = TRIES * most;
  for (const node of candidates(scene)) {
    if (made.length >= most || tries <= 0) break;
    if (!shown[node]) continue;
    const x = (positions[2 * node] - view.left) * view.zoom;
    const y = (positions[2 * node + 1] - view.top) * view.zoom;
    if (x < 0 || y < 0 || x > view.width || y > view.height) continue;
    tries--;
    const radius = radiusOnScreen(scene.radius[node], view.zoom);
    const isLarge = radius > 9 || lit[node] === 2;
    const text = shortened(model.titles[node]);
    const half = widthOf(text, isLarge) / 2;
    for (const [right, down] of SIDES) {
      const middleX = x + right * (radius + 5 + half);
      const middleY = y + down * (radius + 3 + HEIGHT / 2);
      if (!taken.claim(middleX - half - apart, middleY - HEIGHT / 2 - apart + 3, middleX + half + apart, middleY + HEIGHT / 2 + apart - 3)) continue;
      made.push({ node, text, x: middleX, y: middleY, isLarge });
      break;
    }
  }
  return made;
}

/** Where nodes are large enough to be seen one by one, no title covers another's dot. */
function claimDots(taken, { positions, shown, radius, model }, { left, top, zoom }) {
  for (let node = 0; node < model.count; node++) {
    if (!shown[node]) continue;
    const x = (positions[2 * node] - left) * zoom;
    const y = (positions[2 * node + 1] - top) * zoom;
    const half = radiusOnScreen(radius[node], zoom) - 1;
    taken.claim(x - half, y - half, x + half, y + half);
  }
}

/** Below the node, else above, to its right, to its left. */
const SIDES = [[0, 1], [0, -1], [1, 0], [-1, 0]];

/** What stands out comes first; when something does, the rest has no names, unless the graph is so small that links have. */
function* candidates({ model, lit, hasLight }) {
  if (!hasLight) return yield* model.ranked;
  for (const light of model.names ? [2, 1, 0] : [2, 1]) {
    for (const node of model.ranked) if (lit[node] === light) yield node;
  }
}

export function shortened(title, longest = LONGEST) {
  const characters = [...title];
  return characters.length > longest ? `${characters.slice(0, longest - 1).join("")}…` : title;
}


class Taken {
  constructor(width) {
    this.columns = Math.ceil(width / CELL) + 2;
    this.cells = new Map();
  }

  /** Whether the rectangle was free, and is now taken. */
  claim(left, top, right, bottom) {
    const places = [];
    for (let row = Math.floor(top / CELL); row <= Math.floor(bottom / CELL); row++) {
      for (let column = Math.floor(left / CELL); column <= Math.floor(right / CELL); column++) {
        const place = row * this.columns + column;
        for (const other of this.cells.get(place) ?? []) {
          if (left < other[2] && right > other[0] && top < other[3] && bottom > other[1]) return false;
        }
        places.push(place);
      }
    }
    const rectangle = [left, top, right, bottom];
    for (const place of places) {
      const there = this.cells.get(place);
      if (there) there.push(rectangle);
      else this.cells.set(place, [rectangle]);
    }
    return true;
  }
}
