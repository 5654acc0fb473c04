/** The shapes of nodes. Kinds of content differ in shape as well as colour; notes are all round. */

export const SHAPES = ["circle", "square", "diamond", "triangle", "circle", "circle"];

const DRAW = {
  circle(path, x, y, r) {
    path.moveTo(x + r, y);
    path.arc(x, y, r, 0, 2 * Math.PI);
  },
  square(path, x, y, r) {
    path.rect(x - 0.88 * r, y - 0.88 * r, 1.76 * r, 1.76 * r);
  },
  diamond(path, x, y, r) {
    polygon(path, [x, y - 1.25 * r, x + 1.25 * r, y, x, y + 1.25 * r, x - 1.25 * r, y]);
  },
  triangle(path, x, y, r) {
    polygon(path, [x, y - 1.25 * r, x + 1.15 * r, y + 0.8 * r, x - 1.15 * r, y + 0.8 * r]);
  },
};

/** @param {CanvasPath} path */
export function addShape(path, shape, x, y, r) {
  DRAW[shape](path, x, y, r);
}

/** The mark of a broken link: a ring of four pieces around the node. */
export function addBrokenRing(path, x, y, r) {
  const ring = Math.max(r + 2.5, 4);
  for (let piece = 0; piece < 4; piece++) {
    const start = (piece * Math.PI) / 2 + 0.3;
    path.moveTo(x + ring * Math.cos(start), y + ring * Math.sin(start));
    path.arc(x, y, ring, start, start + Math.PI / 2 - 0.6);
  }
}

/** With its tip here, in the direction of a vector of length 1. */
export function addArrow(path, x, y, right, down) {
  const [backX, backY] = [x - 9 * right, y - 9 * down];
  polygon(path, [x, y, backX + 4 * down, backY - 4 * right, backX - 4 * down, backY + 4 * right]);
}

function polygon(path, points) {
  path.moveTo(points[0], points[1]);
  for (let at = 2; at < points.length; at += 2) path.lineTo(points[at], points[at + 1]);
  path.closePath();
}
