/** A tree of squares over points: what is far away acts as one (Barnes and Hut). */

const MOST_DEPTH = 32;

export class Quadtree {
  constructor(count) {
    const room = 2 * count + 64;
    this.children = new Int32Array(4 * room); // 0 nothing, n > 0 the square n, n < 0 the point -1 - n
    this.mass = new Float64Array(room);
    this.x = new Float64Array(room);
    this.y = new Float64Array(room);
    this.size = new Float64Array(room);
    this.stack = new Int32Array(4 * MOST_DEPTH + 8);
    this.used = 0;
  }

  build(xs, ys, masses) {
    const count = xs.length;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let point = 0; point < count; point++) {
      left = Math.min(left, xs[point]);
      right = Math.max(right, xs[point]);
      top = Math.min(top, ys[point]);
      bottom = Math.max(bottom, ys[point]);
    }
    const side = Math.max(right - left, bottom - top, 1e-3) * 1.001;
    this.children.fill(0, 0, 4);
    this.size[0] = side;
    this.used = 1;
    for (let point = 0; point < count; point++) this.insert(point, xs, ys, left, top, side);
    this.weigh(xs, ys, masses);
  }

  insert(point, xs, ys, left, top, side) {
    const { children } = this;
    let cell = 0;
    for (let depth = 0; depth < MOST_DEPTH; depth++) {
      side /= 2;
      const slot = 4 * cell + quarter(xs[point], ys[point], left + side, top + side);
      if (slot & 1) left += side;
      if (slot & 2) top += side;
      const there = children[slot];
      if (there === 0) {
        children[slot] = -1 - point;
        return;
      }
      if (there > 0) {
        cell = there;
        continue;
      }
      if (this.used * 4 + 4 > children.length) return;
      const fresh = this.used++;
      children.fill(0, 4 * fresh, 4 * fresh + 4);
      this.size[fresh] = side;
      children[slot] = fresh;
      const other = -1 - there;
      children[4 * fresh + quarter(xs[other], ys[other], left + side / 2, top + side / 2)] = there;
      cell = fresh;
    }
  }

  /** Squares come after the one that they are in, so backwards every square is known before it is needed. */
  weigh(xs, ys, masses) {
    const { children, mass, x, y } = this;
    for (let cell = this.used - 1; cell >= 0; cell--) {
      let [sum, sumX, sumY] = [0, 0, 0];
      for (let slot = 4 * cell; slot < 4 * cell + 4; slot++) {
        const there = children[slot];
        if (there > 0) {
          sum += mass[there];
          sumX += mass[there] * x[there];
          sumY += mass[there] * y[there];
        } else if (there < 0) {
          const point = -1 - there;
          sum += masses[point];
          sumX += masses[point] * xs[point];
          sumY += masses[point] * ys[point];
        }
      }
      mass[cell] = sum;
      x[cell] = sumX / sum;
      y[cell] = sumY / sum;
    }
  }

  /** Push every point away from all others, by `strength` and the others' masses over the distance. */
  repel(xs, ys, masses, speedX, speedY, strength, theta, nearest) {
    const { children, mass, x, y, size, stack } = this;
    const near = nearest * nearest;
    const open = 1 / (theta * theta);
    for (let point = 0; point < xs.length; point++) {
      const ownX = xs[point];
      const ownY = ys[point];
      let [pushX, pushY, high] = [0, 0, 1];
      stack[0] = 0;
      while (high > 0) {
        const cell = stack[--high];
        const awayX = ownX - x[cell];
        const awayY = ownY - y[cell];
        const far = awayX * awayX + awayY * awayY;
        if (size[cell] * size[cell] * open < far) {
          const push = mass[cell] / far;
          pushX += awayX * push;
          pushY += awayY * push;
          continue;
        }
        for (let slot = 4 * cell; slot < 4 * cell + 4; slot++) {
          const there = children[slot];
          if (there > 0) stack[high++] = there;
          else if (there < 0 && -1 - there !== point) {
            const other = -1 - there;
            const apartX = ownX - xs[other];
            const apartY = ownY - ys[other];
            const push = masses[other] / Math.max(near, apartX * apartX + apartY * apartY);
            pushX += apartX * push;
            pushY += apartY * push;
          }
        }
      }
      speedX[point] += pushX * strength;
      speedY[point] += pushY * strength;
    }
  }
}

function quarter(x, y, middleX, middleY) {
  return (x >= middleX ? 1 : 0) + (y >= middleY ? 2 : 0);
}
