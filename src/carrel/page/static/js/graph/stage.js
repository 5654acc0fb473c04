/**
 * The canvas. The scene is painted into a picture larger than what is seen, a bit in each frame; every frame shows the last
 * whole picture, moved and scaled to where the camera is by now. So moving is smooth however much there is to paint.
 */

import { Camera } from "./camera.js";
import { shortened } from "./labels.js";
import { painted } from "./painter.js";
import { palette } from "./palette.js";
import { radiusOnScreen } from "./scene.js";

const MARGIN = 0.3;
const REST_MS = 140;
/** Microseconds of painting in a frame: little while the camera moves. */
const MOVING_COST = 5000;
const RESTING_COST = 60_000;

export class Stage {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {import("./scene.js").Scene} scene
   * @param {{onDrawn: () => void}} listeners told after each whole picture
   */
  constructor(canvas, scene, { onDrawn }) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.scene = scene;
    this.onDrawn = onDrawn;
    this.camera = new Camera(0, 0, 1);
    this.hovered = -1;
    this.colours = palette(canvas);
    this.front = null;
    this.back = null;
    this.spare = null;
    this.painting = null;
    this.movedAt = -Infinity;
    this.frame = 0;
    this.resize();
  }

  resize() {
    const scale = Math.min(2, devicePixelRatio || 1);
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    this.scale = scale;
    this.width = clientWidth;
    this.height = clientHeight;
    this.canvas.width = Math.round(clientWidth * scale);
    this.canvas.height = Math.round(clientHeight * scale);
    this.painting = this.back = this.spare = null;
    this.front &&= { ...this.front, version: -1 };
    this.wake();
  }

  /** Colours have changed. */
  recolour() {
    this.colours = palette(this.canvas);
    this.painting = null;
    if (this.front) this.front.version = -1;
    this.wake();
  }

  look(camera) {
    if (camera.same(this.camera)) return;
    this.camera = camera;
    this.movedAt = performance.now();
    this.wake();
  }

  fit() {
    this.look(Camera.fitting(this.scene.positions, this.scene.shown, this.width, this.height));
  }

  hover(node) {
    if (node === this.hovered) return;
    this.hovered = node;
    this.wake();
  }

  /** @returns {[number, number]} where a pixel of the canvas is in the plane */
  placeOf(x, y) {
    return [this.camera.x + (x - this.width / 2) / this.camera.zoom, this.camera.y + (y - this.height / 2) / this.camera.zoom];
  }

  /** @returns {[number, number]} the pixel that a node is at */
  pixelOf(node) {
    const { positions } = this.scene;
    const { x, y, zoom } = this.camera;
    return [(positions[2 * node] - x) * zoom + this.width / 2, (positions[2 * node + 1] - y) * zoom + this.height / 2];
  }

  wake() {
    this.frame ||= requestAnimationFrame((now) => this.#draw(now));
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = -1;
  }

  #draw(now) {
    this.frame = 0;
    if (!this.width || !this.scene.isPlaced) return;
    const isResting = now - this.movedAt > REST_MS;
    this.#begin(isResting);
    this.#paint(isResting || !this.front ? RESTING_COST : MOVING_COST);
    this.#show();
    if (this.painting || !this.#isCurrent()) this.wake();
  }

  #isCurrent() {
    return this.front !== null && this.front.version === this.scene.version && this.front.camera.same(this.camera);
  }

  /** A new picture is begun when the scene has changed, the camera rests elsewhere, or the old one no longer fills the canvas. */
  #begin(isResting) {
    if (this.painting || this.#isCurrent()) return;
    const isOld = !this.front || this.front.version !== this.scene.version;
    if (!isOld && !isResting && this.#covers()) return;
    const margin = { x: Math.round(this.width * MARGIN), y: Math.round(this.height * MARGIN) };
    const [width, height] = [this.width + 2 * margin.x, this.height + 2 * margin.y];
    const picture = this.spare ?? document.createElement("canvas");
    this.spare = null;
    picture.width = Math.round(width * this.scale); // this clears it, too
    picture.height = Math.round(height * this.scale);
    const context = picture.getContext("2d");
    context.scale(this.scale, this.scale);
    const { camera, scene } = this;
    const view = { left: camera.x - width / 2 / camera.zoom, top: camera.y - height / 2 / camera.zoom, zoom: camera.zoom, width, height };
    this.back = { picture, camera, width, height, version: scene.version };
    this.painting = painted(context, scene, view, this.colours);
  }

  #covers() {
    const { camera, width, height } = this.front;
    const ratio = this.camera.zoom / camera.zoom;
    if (ratio > 1.7 || ratio < 0.6) return false;
    const inX = (width * ratio - this.width) / 2 - Math.abs(this.camera.x - camera.x) * this.camera.zoom;
    const inY = (height * ratio - this.height) / 2 - Math.abs(this.camera.y - camera.y) * this.camera.zoom;
    return inX >= 0 && inY >= 0;
  }

  #paint(budget) {
    if (!this.painting) return;
    for (let spent = 0; spent < budget; ) {
      const { done, value } = this.painting.next();
      if (done) {
        this.painting = null;
        this.spare = this.front?.picture ?? null;
        this.front = this.back;
        this.back = null;
        this.onDrawn();
        return;
      }
      spent += value;
    }
  }

  #show() {
    const { context, scale } = this;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    if (!this.front) return;
    const { picture, camera, width, height } = this.front;
    const ratio = this.camera.zoom / camera.zoom;
    const left = this.width / 2 - (width / 2) * ratio - (this.camera.x - camera.x) * this.camera.zoom;
    const top = this.height / 2 - (height / 2) * ratio - (this.camera.y - camera.y) * this.camera.zoom;
    if (ratio === 1) {
      const whole = (value) => Math.round(value * scale) / scale; // between pixels everything would blur
      context.drawImage(picture, whole(left), whole(top), width, height);
    } else context.drawImage(picture, left, top, width * ratio, height * ratio);
    if (this.scene.selected >= 0 && this.scene.shown[this.scene.selected]) this.#ring(this.scene.selected, 3, this.colours.accent);
    if (this.hovered >= 0) this.#name(this.hovered);
  }

  #ring(node, width, colour) {
    const { context } = this;
    const [x, y] = this.pixelOf(node);
    context.beginPath();
    context.arc(x, y, radiusOnScreen(this.scene.radius[node], this.camera.zoom) + 4, 0, 2 * Math.PI);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }

  #name(node) {
    this.#ring(node, 2, this.colours.text);
    const { context, colours } = this;
    const [x, y] = this.pixelOf(node);
    context.font = `600 13px ${colours.font}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    const text = shortened(this.scene.model.titles[node], 80);
    const wide = context.measureText(text).width + 16;
    const left = Math.max(4, Math.min(this.width - wide - 4, x - wide / 2));
    const below = y + radiusOnScreen(this.scene.radius[node], this.camera.zoom) + 8;
    const top = below + 26 > this.height ? y - 36 : below;
    context.beginPath();
    context.roundRect(left, top, wide, 26, 5);
    context.fillStyle = colours.text;
    context.fill();
    context.fillStyle = colours.surface;
    context.fillText(text, left + 8, top + 13.5);
  }
}
