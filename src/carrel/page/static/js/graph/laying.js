/** The layout's worker, from the page's side. */

const WORKER = "/page/js/graph/layout-worker.js";

/** The page may make a worker of this address and no other. */
const policy = globalThis.trustedTypes?.createPolicy("carrel-worker", {
  createScriptURL(address) {
    if (address !== WORKER) throw new TypeError(`${address} is no worker of this page`);
    return address;
  },
});

/** Start it early: it loads while the graph is fetched. @param {AbortSignal} signal */
export function startWorker(signal) {
  const worker = new Worker(policy ? policy.createScriptURL(WORKER) : WORKER, { type: "module" });
  signal.addEventListener("abort", () => worker.terminate());
  return worker;
}

/**
 * @param {Worker} worker
 * @param {import("./model.js").Model} model
 * @param {number} aspect
 * @param {(positions: Float32Array, isSettled: boolean) => void} onMoved a few times a second until it rests
 */
export function layOut(worker, { count, offsets, neighbours }, aspect, onMoved) {
  worker.onmessage = ({ data: { positions, settled } }) => onMoved(positions, settled);
  worker.postMessage({ count, offsets, neighbours, aspect });
}
