/** Asking for something and showing what came: the wait, the answer, or what went wrong and how to try again. */

import { busy, problem, replace } from "./dom.js";
import { callTool, SignedOut } from "./mcp.js";

const PATIENCE_MS = 300;

/** A tool's refusal, in the tool's words. */
export class Refused extends Error {}

/** What a tool answers; throws `Refused`. @param {string} toolset @param {string} tool @param {object} args */
export async function ask(toolset, tool, args) {
  const answer = await callTool(toolset, tool, args);
  if (answer.ok) return answer.value;
  throw new Refused(wordsOf(answer.value) || answer.text || `${tool} failed.`);
}

/** The message in an error object, whichever contract it is of. */
function wordsOf(value) {
  const error = value?.error;
  if (typeof error === "string") return [error, details(value.details)].filter(Boolean).join(": ");
  return error?.message;
}

function details(given) {
  if (!Array.isArray(given)) return typeof given === "string" ? given : "";
  return given.map((each) => `${(each.path ?? []).join(".")} ${each.message ?? ""}`.trim()).join("; ");
}

/** @type {WeakMap<Element, object>} */
const turns = new WeakMap();

/**
 * Fill `place` with what `make` returns. What was there stays until then, marked as busy once it takes long. Of several
 * fillings of one place the last one wins.
 *
 * @param {Element} place
 * @param {() => Promise<import("./dom.js").Child>} make
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>} whether it was filled
 */
export async function fill(place, make, signal) {
  const turn = {};
  turns.set(place, turn);
  const isOurs = () => turns.get(place) === turn && !signal.aborted;
  const late = setTimeout(() => isOurs() && wait(place), PATIENCE_MS);
  try {
    const made = await make();
    if (!isOurs()) return false;
    replace(place, made);
    return true;
  } catch (error) {
    if (!isOurs() || error instanceof SignedOut) return false;
    replace(
      place,
      problem(error.message || String(error), () => fill(place, make, signal)),
    );
    return false;
  } finally {
    clearTimeout(late);
    if (turns.get(place) === turn) place.removeAttribute("aria-busy");
  }
}

function wait(place) {
  place.setAttribute("aria-busy", "true");
  if (!place.hasChildNodes()) replace(place, busy());
}
