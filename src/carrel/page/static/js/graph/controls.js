/** Hands and keys on the canvas: drag, wheel and pinch, arrows, + and -, 0, Enter and Escape. */

import { neighboursOf } from "./model.js";

const STEP = 90;
const CLICK_PIXELS = 5;
const FINGER_REACH = 14;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * @param {import("./stage.js").Stage} stage
 * @param {import("./hits.js").Hits} hits
 * @param {{choose: (node: number) => void, enter: () => void, moved: () => void, scrolls?: boolean}} told
 *   `scrolls`: the wheel is for what is around, and zooms only with a key
 * @param {AbortSignal} signal
 */
export function control(stage, hits, told, signal) {
  const { canvas } = stage;
  const hands = new Hands(stage, hits, told);
  const listen = (name, heard, more = {}) => canvas.addEventListener(name, heard, { signal, ...more });
  listen("pointerdown", (event) => hands.down(event));
  listen("pointermove", (event) => hands.move(event));
  listen("pointerup", (event) => hands.up(event));
  listen("pointercancel", (event) => hands.forget(event));
  listen("pointerleave", () => stage.hover(-1));
  listen("wheel", (event) => hands.wheel(event), { passive: false });
  listen("keydown", (event) => pressed(event, stage, hits, told));
}

class Hands {
  constructor(stage, hits, told) {
    this.stage = stage;
    this.hits = hits;
    this.told = told;
    /** @type {Map<number, {x: number, y: number}>} */
    this.fingers = new Map();
    this.travelled = 0;
  }

  down(event) {
    if (event.button !== 0) return;
    this.stage.canvas.setPointerCapture(event.pointerId);
    if (!this.fingers.size) this.travelled = 0;
    this.fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  }

  move(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return void this.stage.hover(this.under(event));
    const now = { x: event.offsetX, y: event.offsetY };
    this.travelled += Math.hypot(now.x - before.x, now.y - before.y);
    if (this.travelled < CLICK_PIXELS) return;
    const others = [...this.fingers].filter(([id]) => id !== event.pointerId);
    this.fingers.set(event.pointerId, now);
    this.stage.hover(-1);
    if (others.length) this.pinch(before, now, others[0][1]);
    else this.look(this.stage.camera.moved(before.x - now.x, before.y - now.y));
  }

  up(event) {
    const wasDown = this.fingers.delete(event.pointerId);
    if (wasDown && !this.fingers.size && this.travelled < CLICK_PIXELS) this.told.choose(this.under(event));
  }

  forget(event) {
    this.fingers.delete(event.pointerId);
  }

  wheel(event) {
    if (this.told.scrolls && !event.ctrlKey && !event.metaKey) return; // a pinch comes with ctrl
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    const factor = Math.exp(-Math.max(-250, Math.min(250, event.deltaY * lines)) * (event.ctrlKey ? 0.01 : 0.0018));
    this.zoom(factor, event.offsetX, event.offsetY);
  }

  /** Two fingers: what is between them stays between them. */
  pinch(before, now, other) {
    const apart = (a, b) => Math.max(10, Math.hypot(a.x - b.x, a.y - b.y));
    this.look(this.stage.camera.moved((before.x - now.x) / 2, (before.y - now.y) / 2));
    this.zoom(apart(now, other) / apart(before, other), (now.x + other.x) / 2, (now.y + other.y) / 2);
  }

  zoom(factor, x, y) {
    this.look(this.stage.camera.zoomed(factor, x - this.stage.width / 2, y - this.stage.height / 2));
  }

  look(camera) {
    this.told.moved();
    this.stage.look(camera);
  }

  under(event) {
    const [x, y] = this.stage.placeOf(event.offsetX, event.offsetY);
    return this.hits.at(x, y, this.stage.camera.zoom, event.pointerType === "touch" ? FINGER_REACH : undefined);
  }
}

function pressed(event, stage, hits, told) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { camera, scene } = stage;
  if (event.key in ARROWS) arrow(event, stage, told);
  else if (event.key === "+" || event.key === "=") look(stage, camera.zoomed(1.35), told);
  else if (event.key === "-") look(stage, camera.zoomed(1 / 1.35), told);
  else if (event.key === "0") stage.fit();
  else if (event.key === "Escape" && scene.selected >= 0) told.choose(-1);
  else if (event.key === "Enter" && scene.selected >= 0) told.enter();
  else if (event.key === "Enter") told.choose(nearest(stage));
  else return;
  event.preventDefault();
}

/** Along a link in that direction from the selected node; without one, or with Shift, what is seen moves. */
function arrow(event, stage, told) {
  const [right, down] = ARROWS[event.key];
  const next = event.shiftKey ? -1 : towards(stage.scene, right, down);
  if (next >= 0) told.choose(next);
  else look(stage, stage.camera.moved(right * STEP, down * STEP), told);
}

function look(stage, camera, told) {
  told.moved();
  stage.look(camera);
}

/** The linked node that lies best in a direction, or -1. */
function towards({ model, positions, selected, shown }, right, down) {
  if (selected < 0) return -1;
  let [best, least] = [-1, Infinity];
  for (const { node } of neighboursOf(model, selected)) {
    const apartX = positions[2 * node] - positions[2 * selected];
    const apartY = positions[2 * node + 1] - positions[2 * selected + 1];
    const along = apartX * right + apartY * down;
    const aside = Math.abs(apartX * down) + Math.abs(apartY * right);
    if (shown[node] && along > 0 && aside <= along && along + 2 * aside < least) [best, least] = [node, along + 2 * aside];
  }
  return best;
}

/** The node nearest to the middle of what is seen. */
function nearest({ scene: { positions, shown }, camera }) {
  let [best, least] = [-1, Infinity];
  for (let node = 0; node < positions.length / 2; node++) {
    const apart = Math.hypot(positions[2 * node] - camera.x, positions[2 * node + 1] - camera.y);
    if (shown[node] && apart < least) [best, least] = [node, apart];
  }
  return best;
}
