/** The shell: which view is shown, the header around it, and the keys that work everywhere. */

import { busy, h, problem, replace, svg } from "./dom.js";
import { data, placeBeforeSigningIn } from "./mcp.js";

/**
 * What a view is given. A view is a module `views/NAME.js` that exports `title`, which the shell makes the page's only
 * h1, and `show(root, context)`; its styles are `css/NAME.css`.
 *
 * @typedef {object} Context
 * @property {URLSearchParams} params what stands after `?` in the hash
 * @property {any} desk the answer of /page/data/desk
 * @property {AbortSignal} signal aborted when the user leaves the view
 * @property {(hash: string) => void} go to another place, such as "#/graph?node=ID"
 * @property {(text: string) => void} announce to those who cannot see it
 * @property {(params: Record<string, any>) => void} setParams change some; null takes one away; the view is not shown anew
 */

/** The views in the order of the header: name, label, key, and toolsets of which it needs one. */
const VIEWS = [
  { name: "desk", label: "Desk", key: "d", needs: [] },
  { name: "graph", label: "Graph", key: "g", needs: ["notes", "bridge", "catalog"] },
  { name: "tasks", label: "Tasks", key: "t", needs: ["tasks"] },
  { name: "content", label: "Content", key: "c", needs: ["bridge", "catalog"] },
  { name: "code", label: "Code", key: "o", needs: ["code", "journal"] },
  { name: "try", label: "Try", key: "y", needs: [] },
];
const THEMES = ["system", "light", "dark"];
const THEME = "carrel.theme";

const main = document.getElementById("main");
const spoken = document.getElementById("spoken");
const links = new Map();
/** @type {AbortController} */
let leaving = new AbortController();
let desk = null;
let isChord = false;

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: VIEWS.find((each) => each.name === path) ?? VIEWS[0], params: new URLSearchParams(query) };
}

function go(hash) {
  location.hash = hash;
}

function announce(text) {
  spoken.textContent = "";
  setTimeout(() => (spoken.textContent = text), 50); // the same words twice are heard twice
}

function setParams(changes) {
  const { view, params } = place();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") params.delete(key);
    else params.set(key, String(value));
  }
  const query = params.toString();
  history.replaceState(null, "", `#/${view.name}${query && "?"}${query}`);
}

/** Show what the hash says. @param {{focus: boolean}} how */
async function show({ focus }) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { view, params } = place();
  for (const [name, link] of links) {
    if (name === view.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const heading = h("h1", { tabindex: -1 }, view.label);
  const root = h("div", { class: `view view-${view.name}` });
  replace(main, heading, root);
  document.title = `${view.label} · Carrel`;
  scrollTo(0, 0);
  if (focus) {
    heading.focus({ preventScroll: true });
    announce(view.label);
  }
  const late = setTimeout(() => root.childNodes.length || replace(root, busy()), 300);
  try {
    desk ??= await data("desk");
    identity();
    if (signal.aborted) return;
    if (!isServed(view)) return void replace(root, missing(view));
    const [module] = await Promise.all([import(`./views/${view.name}.js`), stylesheet(view.name)]);
    if (signal.aborted) return;
    heading.textContent = module.title;
    document.title = `${module.title} · Carrel`;
    clearTimeout(late);
    replace(root);
    await module.show(root, { params, desk, signal, go, announce, setParams });
  } catch (error) {
    if (signal.aborted) return;
    replace(root, problem(error.message || String(error), () => show({ focus: false })));
    if (!(error.name === "AbortError" || isExpected(error))) throw error;
  } finally {
    clearTimeout(late);
  }
}

/** Told to the user; whatever else went wrong belongs on the console too. */
function isExpected(error) {
  return ["Unreachable", "SignedOut", "DataError"].includes(error.constructor.name);
}

function isServed(view) {
  return !view.needs.length || desk.toolsets.some((each) => view.needs.includes(each.name));
}

function missing(view) {
  const names = view.needs.map((name) => h("code", null, name)).flatMap((name, at) => (at ? [" or ", name] : [name]));
  return h(
    "p",
    { class: "empty" },
    `${view.label} needs the toolset `,
    names,
    ". Add it to ",
    h("code", null, "server.toolsets"),
    " in carrel.toml",
    desk.scopes ? ", or sign in with a token whose scopes include it." : ", and restart the server.",
  );
}

const sheets = new Map();

function stylesheet(name) {
  if (!sheets.has(name)) {
    sheets.set(
      name,
      new Promise((resolve) => {
        const link = h("link", { rel: "stylesheet", href: `/page/css/${name}.css`, on: { load: resolve, error: resolve } });
        document.head.append(link);
      }),
    );
  }
  return sheets.get(name);
}

function header() {
  const list = document.getElementById("views");
  for (const { name, label } of VIEWS) {
    const link = h("a", { href: `#/${name}` }, label);
    links.set(name, link);
    list.append(link);
  }
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash is the view's
    main.focus();
  });
  replace(document.getElementById("aside"), themeSwitch(), helpButton());
}

/** Who is signed in, once that is known. */
function identity() {
  const aside = document.getElementById("aside");
  if (desk.scopes && !aside.querySelector("form")) {
    const out = h("button", { class: "button button-quiet" }, "Sign out");
    const form = h("form", { method: "post", action: "/page/sign-out" }, out);
    aside.append(h("span", { class: "who", title: desk.user ?? "" }, desk.user ?? "signed in"), form);
  }
}

const GLYPHS = {
  system: [["circle", { cx: 8, cy: 8, r: 5.5 }], ["path", { d: "M8 2.5a5.5 5.5 0 0 1 0 11z", fill: "currentColor" }]],
  light: [["circle", { cx: 8, cy: 8, r: 3 }], ["path", { d: "M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M3 13l1.1-1.1M11.9 4.1 13 3" }]],
  dark: [["path", { d: "M13 9.5A5.5 5.5 0 1 1 6.5 3a4.5 4.5 0 0 0 6.5 6.5z" }]],
};

function themeSwitch() {
  const button = h("button", { type: "button", class: "button button-quiet button-icon", id: "theme", on: { click: next } });
  const now = () => document.documentElement.dataset.theme ?? "system";
  function draw() {
    const shapes = GLYPHS[now()].map(([tag, props]) => svg(tag, props));
    const props = { viewBox: "0 0 16 16", width: 16, height: 16, fill: "none", stroke: "currentColor", "stroke-width": 1.4, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" };
    button.setAttribute("aria-label", `Theme: ${now()}`);
    button.title = `Theme: ${now()}`;
    replace(button, svg("svg", props, shapes));
  }
  function next() {
    const theme = THEMES[(THEMES.indexOf(now()) + 1) % THEMES.length];
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
    draw();
    announce(`Theme: ${theme}`);
    dispatchEvent(new Event("carrel:theme")); // for what is painted by hand
  }
  draw();
  return button;
}

function helpButton() {
  const props = { type: "button", class: "button button-quiet button-icon", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)", on: { click: help } };
  return h("button", props, "?");
}

function help() {
  const keys = [
    ...VIEWS.map(({ key, label }) => [["g", key], `Go to ${label}`]),
    [["/"], "Search this view"],
    [["?"], "Show these shortcuts"],
    [["Esc"], "Close"],
  ];
  const list = keys.map(([strokes, text]) => [h("dt", null, strokes.map((each) => [h("kbd", null, each), " "])), h("dd", null, text)]);
  const close = h("button", { class: "button", value: "close" }, "Close");
  const dialog = h("dialog", { id: "keys", "aria-labelledby": "keys-title" }, h("h2", { id: "keys-title" }, "Keyboard shortcuts"), h("dl", { class: "keys" }, list), h("form", { method: "dialog", class: "bar" }, close));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function isTyping(target) {
  return target.isContentEditable || target.matches("input:not([type=checkbox], [type=radio]), textarea, select");
}

function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!(event.target instanceof HTMLElement) || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const view = isChord && VIEWS.find(({ key }) => key === event.key);
  isChord = !view && event.key === "g";
  if (view) go(`#/${view.name}`);
  else if (isChord) return;
  else if (event.key === "?") help();
  else if (event.key === "/") {
    const field = main.querySelector("[data-search]");
    if (!field) return;
    field.focus();
  } else return;
  event.preventDefault();
}

async function start() {
  const before = placeBeforeSigningIn();
  if (before && !location.hash) history.replaceState(null, "", before);
  header();
  addEventListener("hashchange", () => show({ focus: true }));
  addEventListener("keydown", pressed);
  addEventListener("pointerdown", () => (isChord = false));
  await show({ focus: false });
}

start();
