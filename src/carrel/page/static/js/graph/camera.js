/** What part of the plane is seen. Values, never changed in place, so that two can be compared and kept. */

const CLOSEST = 14;
const FARTHEST = 0.02;
const FIT_CLOSEST = 2.6;

export class Camera {
  /** @param {number} x @param {number} y the middle of what is seen @param {number} zoom pixels a unit */
  constructor(x, y, zoom) {
    this.x = x;
    this.y = y;
    this.zoom = zoom;
  }

  /** By pixels. */
  moved(right, down) {
    return new Camera(this.x + right / this.zoom, this.y + down / this.zoom, this.zoom);
  }

  /** Closer by a factor; what is `right`, `down` of the middle, in pixels, stays there. */
  zoomed(factor, right = 0, down = 0) {
    const zoom = Math.min(CLOSEST, Math.max(FARTHEST, this.zoom * factor));
    return new Camera(this.x + right / this.zoom - right / zoom, this.y + down / this.zoom - down / zoom, zoom);
  }

  at(x, y, zoom = this.zoom) {
    return new Camera(x, y, zoom);
  }

  same(other) {
    return this.x === other.x && this.y === other.y && this.zoom === other.zoom;
  }

  /** Everything that is shown, with room around it. */
  static fitting(positions, shown, width, height) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let node = 0; node < positions.length / 2; node++) {
      if (!shown[node]) continue;
      left = Math.min(left, positions[2 * node]);
      right = Math.max(right, positions[2 * node]);
      top = Math.min(top, positions[2 * node + 1]);
      bottom = Math.max(bottom, positions[2 * node + 1]);
    }
    if (left === Infinity) return new Camera(0, 0, 1);
    const [roomX, roomY] = [Math.min(120, width / 7), Math.min(50, height / 8)]; // for titles
    const zoom = Math.min(FIT_CLOSEST, (width - 2 * roomX) / (right - left + 1), (height - 2 * roomY) / (bottom - top + 1));
    return new Camera((left + right) / 2, (top + bottom) / 2, Math.max(FARTHEST, zoom));
  }
}
