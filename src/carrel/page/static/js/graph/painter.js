/** Draws a scene a bit at a time: each `yield` says what it has cost, so that whoever drives it can go on with the next frame. */

import { placedLabels } from "./labels.js";
import { BROKEN, ORPHAN } from "./model.js";
import { radiusOnScreen } from "./scene.js";
import { SHAPES, addArrow, addBrokenRing, addShape } from "./shapes.js";

/** Of painting without a graphics card, in microseconds. */
const LINE_COST = 2;
const PIXEL_COST = 0.016;
const NODE_COST = 5;
const LABEL_COST = 130;
const CHUNK_COST = 1000;
const FAINT = 0.13;

/**
 * @param {CanvasRenderingContext2D} canvas
 * @param {import("./scene.js").Scene} scene
 * @param {{left: number, top: number, zoom: number, width: number, height: number}} view in CSS pixels
 * @param {ReturnType<import("./palette.js").palette>} colours
 */
export function* painted(canvas, scene, view, colours) {
  canvas.lineCap = "butt";
  canvas.setLineDash([]);
  const sorted = linksByGroup(scene, view);
  const ink = Math.min(0.55, Math.max(0.16, 26 / Math.sqrt(scene.model.links.length / 2 + 1))) * (scene.hasLight ? 0.4 : 1);
  for (const [group, links] of sorted.dim.entries()) yield* lines(canvas, scene, view, links, colours.groups[group], ink, 1);
  yield* lines(canvas, scene, view, sorted.lit, colours.accent, 0.75, 1.4);
  if (scene.model.names) {
    yield* directions(canvas, scene, view, sorted.dim.flat(), colours, colours.muted, scene.hasLight ? 0.5 : 1);
    yield* directions(canvas, scene, view, sorted.lit, colours, colours.text, 1);
  }
  const nodes = nodesByLook(scene, view);
  if (scene.hasLight) yield* dots(canvas, scene, view, nodes.dim, colours, FAINT + 0.12);
  yield* dots(canvas, scene, view, nodes.lit, colours, 1);
  yield* titles(canvas, scene, view, colours);
}

/** Lines that can be seen, by the group of the node that they come from. */
function linksByGroup({ model, positions, shown, selected }, { left, top, zoom, width, height }) {
  const dim = Array.from({ length: model.groups.length }, () => []);
  const lit = [];
  const [right, bottom] = [left + width / zoom, top + height / zoom];
  const { links, group } = model;
  for (let at = 0; at < links.length; at += 2) {
    const [from, to] = [links[at], links[at + 1]];
    if (!shown[from] || !shown[to]) continue;
    const [fromX, fromY, toX, toY] = [positions[2 * from], positions[2 * from + 1], positions[2 * to], positions[2 * to + 1]];
    if ((fromX < left && toX < left) || (fromX > right && toX > right)) continue;
    if ((fromY < top && toY < top) || (fromY > bottom && toY > bottom)) continue;
    if (selected >= 0 && (from === selected || to === selected)) lit.push(at);
    else dim[group[from]].push(at);
  }
  return { dim, lit };
}

function* lines(canvas, { model, positions }, { left, top, zoom }, links, colour, ink, width) {
  for (let start = 0; start < links.length; ) {
    canvas.beginPath();
    let cost = 0;
    for (; start < links.length && cost < CHUNK_COST; start++) {
      const from = model.links[links[start]];
      const to = model.links[links[start] + 1];
      const x = (positions[2 * from] - left) * zoom;
      const y = (positions[2 * from + 1] - top) * zoom;
      const toX = (positions[2 * to] - left) * zoom;
      const toY = (positions[2 * to + 1] - top) * zoom;
      canvas.moveTo(x, y);
      canvas.lineTo(toX, toY);
      cost += LINE_COST + PIXEL_COST * (Math.abs(toX - x) + Math.abs(toY - y));
    }
    canvas.strokeStyle = colour;
    canvas.globalAlpha = ink;
    canvas.lineWidth = width;
    canvas.stroke();
    canvas.globalAlpha = 1;
    yield cost;
  }
}

/** Arrows at the ends of links, and in their middles what they are called. */
function* directions(canvas, { model, positions, radius }, { left, top, zoom }, links, colours, colour, ink) {
  canvas.font = `11px ${colours.font}`;
  canvas.textAlign = "center";
  canvas.textBaseline = "middle";
  canvas.lineJoin = "round";
  canvas.lineWidth = 4;
  canvas.globalAlpha = ink;
  canvas.fillStyle = colour;
  canvas.strokeStyle = colours.surface;
  for (const at of links) {
    const [from, to] = [model.links[at], model.links[at + 1]];
    const [x, y] = [(positions[2 * from] - left) * zoom, (positions[2 * from + 1] - top) * zoom];
    const [toX, toY] = [(positions[2 * to] - left) * zoom, (positions[2 * to + 1] - top) * zoom];
    const far = Math.hypot(toX - x, toY - y) || 1;
    const [right, down] = [(toX - x) / far, (toY - y) / far];
    const before = radiusOnScreen(radius[to], zoom) + 1;
    const tip = { x: toX - right * before, y: toY - down * before };
    const arrow = new Path2D();
    addArrow(arrow, tip.x, tip.y, right, down);
    canvas.fill(arrow);
    const name = model.names[at / 2];
    if (name && far > canvas.measureText(name).width) {
      canvas.strokeText(name, (x + toX) / 2, (y + toY) / 2);
      canvas.fillText(name, (x + toX) / 2, (y + toY) / 2);
    }
  }
  canvas.globalAlpha = 1;
  yield LABEL_COST * links.length;
}

/** Nodes that can be seen, the smallest first so that the large lie on top. */
function nodesByLook({ model, positions, shown, lit, hasLight }, { left, top, zoom, width, height }) {
  const dim = [];
  const bright = [];
  const room = 30 / zoom;
  const [right, bottom] = [left + width / zoom + room, top + height / zoom + room];
  for (let place = model.count - 1; place >= 0; place--) {
    const node = model.ranked[place];
    const [x, y] = [positions[2 * node], positions[2 * node + 1]];
    if (!shown[node] || x < left - room || x > right || y < top - room || y > bottom) continue;
    (hasLight && !lit[node] ? dim : bright).push(node);
  }
  return { dim, lit: bright };
}

function* dots(canvas, scene, view, nodes, colours, ink) {
  const { model, positions, radius, marksBroken } = scene;
  const { left, top, zoom } = view;
  const many = Math.round(CHUNK_COST / NODE_COST);
  for (let start = 0; start < nodes.length; start += many) {
    const chunk = nodes.slice(start, start + many);
    const filled = model.groups.map(() => new Path2D());
    const hollow = model.groups.map(() => new Path2D());
    const broken = new Path2D();
    let hasBroken = false;
    for (const node of chunk) {
      const x = (positions[2 * node] - left) * zoom;
      const y = (positions[2 * node + 1] - top) * zoom;
      const r = radiusOnScreen(radius[node], zoom);
      const group = model.group[node];
      const shape = model.source === "notes" ? "circle" : SHAPES[group];
      if (model.flags[node] & ORPHAN) addShape(hollow[group], shape, x, y, Math.max(r - 0.5, 1.5));
      else addShape(filled[group], shape, x, y, r);
      if (marksBroken && model.flags[node] & BROKEN) {
        addBrokenRing(broken, x, y, r);
        hasBroken = true;
      }
    }
    canvas.globalAlpha = ink;
    canvas.lineWidth = 1.4;
    for (let group = 0; group < model.groups.length; group++) {
      canvas.fillStyle = colours.groups[group];
      canvas.fill(filled[group]);
      canvas.fillStyle = colours.surface;
      canvas.strokeStyle = colours.groups[group];
      canvas.fill(hollow[group]);
      canvas.stroke(hollow[group]);
    }
    if (hasBroken) {
      canvas.strokeStyle = colours.bad;
      canvas.lineWidth = 1.8;
      canvas.stroke(broken);
    }
    canvas.globalAlpha = 1;
    yield NODE_COST * chunk.length;
  }
}

function* titles(canvas, scene, view, colours) {
  const fonts = [`12px ${colours.font}`, `600 13px ${colours.font}`];
  const measure = (text, isLarge) => {
    canvas.font = fonts[isLarge ? 1 : 0];
    return canvas.measureText(text).width;
  };
  canvas.textAlign = "center";
  canvas.textBaseline = "middle";
  canvas.lineJoin = "round";
  const labels = placedLabels(scene, view, measure);
  yield 1000;
  for (const { text, x, y, isLarge } of labels) {
    canvas.font = fonts[isLarge ? 1 : 0];
    canvas.strokeStyle = colours.surface;
    canvas.lineWidth = 3.5;
    canvas.strokeText(text, x, y);
    canvas.fillStyle = colours.text;
    canvas.fillText(text, x, y);
    yield LABEL_COST;
  }
}
