/** Lays a graph out beside the page, so that the page goes on. Told once what there is; tells where everything is until it rests. */

import { Layout } from "./layout.js";

const TURN = 300;

self.addEventListener("message", ({ data: { count, offsets, neighbours, aspect } }) => {
  const layout = new Layout(count, offsets, neighbours, aspect);
  const tell = () => {
    const positions = layout.positions();
    const { settled } = layout;
    self.postMessage({ positions, settled }, [positions.buffer]);
    if (!settled) setTimeout(next);
  };
  const next = () => {
    layout.run(TURN);
    tell();
  };
  tell();
});
