/**
 * Elements made from values. Text goes in as text: nothing here, and nothing in the page, parses markup, so what a note
 * or a task is called can never become an element.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {string | number | Node | null | undefined | false | Child[]} Child */

/**
 * An element. `props`: `on: {event: listener}`, `data: {key: value}`, `prop: {property: value}`; everything else is an
 * attribute, where `true` means present and null, undefined and false mean absent.
 *
 * @param {string} tag
 * @param {Record<string, any> | null} [props]
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, props, ...children) {
  return made(document.createElement(tag), props, children);
}

/** The same for SVG. @param {string} tag @param {Record<string, any> | null} [props] @param {...Child} children */
export function svg(tag, props, ...children) {
  return made(document.createElementNS(SVG, tag), props, children);
}

/** Put these children in place of those that are there. @param {Element} node @param {...Child} children */
export function replace(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

/** Write a text where it differs: what does not change keeps its selection and costs nothing. */
export function setText(node, text) {
  if (node.textContent !== String(text)) node.textContent = String(text);
  return node;
}

/** What is shown while something takes longer than one would like to wait for nothing. */
export function busy(text = "Loading…") {
  return h("p", { class: "busy", role: "status" }, text);
}

/** What went wrong, and what can be done about it. @param {string} text @param {(() => void)} [again] */
export function problem(text, again) {
  const button = again && h("button", { type: "button", class: "button", on: { click: again } }, "Try again");
  return h("div", { class: "error", role: "alert" }, h("p", null, text), button);
}

/** What would be here, and how it comes. @param {...Child} children */
export function empty(...children) {
  return h("p", { class: "empty" }, ...children);
}

/** Show `.busy` in a node if a promise takes more than 300 ms. The promise itself comes back. */
export function waiting(node, promise, text) {
  const timer = setTimeout(() => replace(node, busy(text)), 300);
  const stop = () => clearTimeout(timer);
  promise.then(stop, stop);
  return promise;
}

function made(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (name === "data") for (const [key, each] of Object.entries(value)) node.setAttribute(`data-${key}`, each);
    else if (name === "prop") Object.assign(node, value);
    else node.setAttribute(name, checked(name, value === true ? "" : String(value)));
  }
  node.append(...flat(children));
  return node;
}

/** Attributes that could run something, or lead elsewhere, are a mistake of ours. */
function checked(name, value) {
  const lower = name.toLowerCase();
  if (lower.startsWith("on") || lower === "style" || lower === "srcdoc") {
    throw new TypeError(`${name} is not set as an attribute here`);
  }
  if (["href", "src", "action", "formaction", "xlink:href"].includes(lower) && !/^(#|\/(?![/\\]))/.test(value)) {
    throw new TypeError(`${name} leads out of the page`);
  }
  return value;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function flat(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}
