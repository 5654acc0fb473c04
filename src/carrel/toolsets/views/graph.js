// The view of a graph, drawn as the page draws it. Speaks MCP Apps 2026-01-26 with its host. Whatever comes from outside
// becomes text, never markup.

import { h, replace } from "../../page/static/js/dom.js";
import { control } from "../../page/static/js/graph/controls.js";
import { Hits } from "../../page/static/js/graph/hits.js";
import { shortened } from "../../page/static/js/graph/labels.js";
import { groupIcon } from "../../page/static/js/graph/marks.js";
import { makeModel } from "../../page/static/js/graph/model.js";
import { GROUPS } from "../../page/static/js/graph/palette.js";
import { Scene } from "../../page/static/js/graph/scene.js";
import { Stage } from "../../page/static/js/graph/stage.js";

const [picture, list, legend, details, status, tools] =
  ["picture", "nodes", "legend", "details", "status", "tools"].map((id) => document.getElementById(id));
const nodes = new Map(); // by id: {id, title, kind, facts, text}
const edges = new Map(); // by their ends: {from, to, types, notes}
const expanded = new Set();
const context = {};
const [COLUMN, WIDE_COLUMN, ROW, ASIDE] = [280, 460, 44, 36];
const FEW = 24;
const SMALLEST = 0.5;
const KINDS = ["guide", "concept", "project", "news"];
let rootId, isEntity, isBusy, input = {}, abilities = {};
let stage, drawn = new AbortController();

// --- what the tools answer

function addNode(id, title, kind, facts, text, isGuess = false) {
  const known = nodes.get(id);
  if (known && !known.isGuess && (isGuess || known.text.length >= text.length)) return;
  nodes.set(id, { id, title, kind, facts, text, isGuess });
}

function addEdge(from, to, type, notes) {
  const ends = type.toLowerCase().split("_"); // such as GUIDE_USES_CONCEPT; an end that is no entity has no title
  for (const [id, kind] of [[from, ends[0]], [to, ends.at(-1)]]) if (!nodes.has(id)) addNode(id, id, kind, [], "", true);
  const key = from + "\n" + to;
  if (!edges.has(key)) edges.set(key, { from, to, types: new Set(), notes: new Set() });
  edges.get(key).types.add(type);
  if (notes) edges.get(key).notes.add(notes);
}

const addEntity = (it) => addNode(it.id, it.title, it.entityType, [it.slug, it.status], it.summary ?? "");

function addNote({ id, title, tags = [], content = "" }) {
  const kind = id.includes("/") ? id.split("/")[0] + "/" : "note";
  addNode(id, title, kind, [id, ...tags.map((tag) => "#" + tag)], content);
}

// Takes in an answer of either get_entity_graph or of get_node: the id that it is about, and what else there is to say.
function take(value) {
  const { nodes: found, edges: relations, truncated } = value.data ?? value;
  const more = truncated ? "Truncated: not everything is shown." : "";
  isEntity = !Array.isArray(value.links);
  if (value.data?.rootEntity || found) {
    const all = found ?? [value.data.rootEntity, ...value.data.relationships.map((each) => each.relatedEntity)];
    all.filter(Boolean).forEach(addEntity);
    for (const it of relations ?? value.data.relationships) {
      addEdge(it.fromEntityId, it.toEntityId, it.relationType, it.notes);
    }
    return [found ? found.find((each) => each.depth === 0).id : value.data.rootEntity.id, more];
  }
  const around = value.neighbors ?? [];
  [value, ...around, ...value.links].forEach(addNote);
  for (const note of [value, ...around]) {
    if (note.direction === "in") addEdge(note.id, value.id, "note_links to_note");
    for (const link of note.links) if (nodes.has(link.id)) addEdge(note.id, link.id, "note_links to_note");
  }
  if (!value.neighbors) return [value.id, "Called with depth 0: only outgoing links are shown."];
  const { incomingCount: incoming, outgoingCount: outgoing } = value;
  return [value.id, incoming + outgoing > 20 ? `${incoming} incoming and ${outgoing} outgoing links.` : ""];
}

function read(result) {
  const text = (result.content ?? []).map((each) => each.text ?? "").join("\n");
  let value = result.structuredContent;
  try { value ??= JSON.parse(text); } catch { /* an error may be plain text */ }
  if (result.isError) throw new Error(value?.error?.message || text || "The call failed.");
  if (value === null) throw new Error("This note does not exist.");
  try { return take(value); } catch { throw new Error("This result contains no graph."); }
}

function say(text, isBad = false) {
  status.textContent = text;
  status.className = isBad ? "bad" : "";
}

// --- where things are: what leads to the root is left of it, what it leads to is right; the same for the same graph

function placed({ count, places, offsets, neighbours, outward, titles }) {
  const root = places.get(rootId);
  const column = new Map([[root, 0]]);
  for (const [node, own] of column) { // which grows meanwhile: breadth first
    const around = Array.from({ length: offsets[node + 1] - offsets[node] }, (_, place) => offsets[node] + place);
    around.sort((a, b) => (titles[neighbours[a]] < titles[neighbours[b]] ? -1 : 1));
    for (const at of around) {
      if (!column.has(neighbours[at])) column.set(neighbours[at], own + (Math.sign(own) || (outward[at] ? 1 : -1)));
    }
  }
  const positions = new Float32Array(2 * count);
  const wide = count > FEW ? WIDE_COLUMN : COLUMN;
  for (const [place, nodes] of Map.groupBy(column.keys(), (node) => column.get(node))) {
    // every other row is a little aside, so that links within a column pass by the nodes between
    nodes.forEach((node, row) => {
      positions.set([place * wide + (row % 2) * ASIDE, (row - (nodes.length - 1) / 2) * ROW], 2 * node);
    });
  }
  return positions;
}

// --- drawing

const words = (type) => type.split("_").slice(1, -1).join(" ").toLowerCase();
const named = ({ types }) => [...types].map(words).join(", ");

function modelOf() {
  const places = new Map([...nodes.keys()].map((id, place) => [id, place]));
  const found = [...new Set([...nodes.values()].map((node) => node.kind))].filter((kind) => !KINDS.includes(kind)).sort();
  const kinds = [...KINDS, ...found].slice(0, GROUPS);
  const kindOf = ({ kind }) => (kinds.includes(kind) ? kinds.indexOf(kind) : GROUPS - 1);
  const data = {
    nodes: [...nodes.values()].map((node) => [node.id, node.title, kindOf(node), 0]),
    links: [...edges.values()].flatMap(({ from, to }) => [places.get(from), places.get(to)]),
    kinds, project: null, total: nodes.size, truncated: false,
  };
  const model = makeModel(data, isEntity ? "content" : "notes");
  const types = new Set([...edges.values()].map(named));
  model.names = Array.from({ length: model.links.length / 2 }, (_, link) => {
    const [from, to] = [model.ids[model.links[2 * link]], model.ids[model.links[2 * link + 1]]];
    return types.size > 1 ? named(edges.get(from + "\n" + to)) : "";
  });
  const shown = model.groups.map(({ name, count }, group) => count > 0 && h("span", null, groupIcon(model, group), name));
  replace(legend, shown, types.size === 1 && h("span", null, "→ " + [...types][0]));
  return model;
}

function draw() {
  clear();
  const { height, maxHeight = 900 } = context.containerDimensions ?? {};
  document.body.className = height || context.displayMode === "fullscreen" ? "fixed" : "";
  const model = modelOf();
  const positions = placed(model);
  const rows = positions.filter((_, at) => at % 2).reduce((most, y) => Math.max(most, y), 0) / ROW;
  picture.style.height = `${Math.max(180, Math.min(2 * rows * 44 + 120, 460, maxHeight - 230))}px`;
  const scene = new Scene(model);
  stage = new Stage(picture, scene, { onDrawn: () => (picture.dataset.state = "drawn") });
  scene.move(positions);
  let isBound = true;
  const told = {
    choose: (place) => select(model.ids[place] ?? rootId),
    enter: () => details.querySelector("button")?.focus(),
    moved: () => { isBound = false; },
    scrolls: true, // the conversation around
  };
  control(stage, new Hits(scene), told, drawn.signal);
  const resized = new ResizeObserver(() => {
    stage.resize();
    if (isBound) fit();
  });
  resized.observe(picture);
  drawn.signal.addEventListener("abort", () => resized.disconnect());
  const button = ({ id, title, kind }, place) => h("button", {
    type: "button", class: "node", data: { id },
    on: { click: () => select(id), focus: () => point(place), blur: () => stage.hover(-1) },
  }, `${title}, ${kind}`);
  replace(list, [...nodes.values()].map(button));
}

function clear() {
  drawn.abort();
  drawn = new AbortController();
  stage?.stop();
  picture.width = picture.height = 0;
  delete picture.dataset.state;
  for (const each of [list, legend, details]) replace(each);
}

/** All of it, but not so small that titles no longer fit. */
function fit() {
  stage.fit();
  if (stage.camera.zoom < SMALLEST) stage.look(stage.camera.at(stage.camera.x, stage.camera.y, SMALLEST));
}

/** The keyboard is at this node: it is named, and brought into sight. */
function point(place) {
  const [x, y] = stage.pixelOf(place);
  if (x < 0 || y < 0 || x > stage.width || y > stage.height) {
    stage.look(stage.camera.at(stage.scene.positions[2 * place], stage.scene.positions[2 * place + 1]));
  }
  stage.hover(place);
}

function select(id) {
  const node = nodes.get(id);
  stage.scene.select(stage.scene.model.places.get(id));
  stage.wake();
  for (const each of list.children) each.setAttribute("aria-pressed", each.dataset.id === id);
  const lines = [...edges.values()].filter(({ from, to }) => from === id || to === id).map((edge) => {
    const back = edges.get(edge.to + "\n" + edge.from);
    const isMutual = edge.from !== edge.to && back && named(back) === named(edge);
    if (isMutual && edge.to === id) return null; // it is told with the other
    const other = nodes.get(edge.from === id ? edge.to : edge.from).title;
    const line = edge.from === id ? `→ ${named(edge)} ${other}` : `← ${other} ${named(edge)} this`;
    return h("li", null, [isMutual ? `↔ ${other}` : line, ...edge.notes].join(": "));
  });
  const facts = [node.kind, ...node.facts].filter(Boolean).join(" · ");
  const isKnown = isEntity ? input.projectId && !node.isGuess : true;
  const canExpand = abilities.serverTools && isKnown && !expanded.has(id);
  replace(details, h("h2", { dir: "auto" }, node.title), h("p", { class: "faint" }, facts),
    h("p", { dir: "auto" }, shortened(node.text.trim(), 400)), h("ul", null, lines),
    canExpand && h("button", { type: "button", on: { click: () => expand(id) } }, "Expand"));
}

function show(result) {
  for (const each of [nodes, edges, expanded]) each.clear();
  clear();
  try {
    const [id, remark] = read(result);
    rootId = id;
    if (isEntity || input.depth) expanded.add(id);
    say(remark || (nodes.size === 1 ? "It has no relations." : ""));
    draw();
    select(id);
  } catch (error) {
    nodes.clear(); // of what is no graph, some may have been taken in
    say(error.message, true);
  }
}

// More of it, through the host.
async function expand(id) {
  if (isBusy) return;
  isBusy = true;
  say("Expanding…");
  const { projectId, relationshipTypes } = input;
  const asked = isEntity ? { projectId, entityId: id, ...(relationshipTypes && { relationshipTypes }) } : { id };
  const name = context.toolInfo?.tool?.name ?? (isEntity ? "get_entity_graph" : "get_node");
  try {
    const [, remark] = read(await ask("tools/call", { name, arguments: { ...asked, depth: 1 } }));
    expanded.add(id);
    say(remark);
    draw();
    select(id);
    list.querySelector("[aria-pressed=true]").focus();
  } catch (error) {
    say(`Could not expand: ${error.message}`, true);
  }
  isBusy = false;
}

for (const [text, name, act] of [["−", "Zoom out", () => stage?.look(stage.camera.zoomed(0.8))],
  ["+", "Zoom in", () => stage?.look(stage.camera.zoomed(1.25))], ["Fit", "Show all", () => stage && fit()]]) {
  tools.append(h("button", { type: "button", title: name, "aria-label": name, on: { click: act } }, text), " ");
}

// --- the host

const waiting = new Map();
const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
let last = 0;

function ask(method, params) {
  send({ id: ++last, method, params });
  return new Promise((resolve, reject) => waiting.set(last, { resolve, reject }));
}

function adopt(changed) {
  Object.assign(context, changed);
  const { style } = document.documentElement;
  if (changed.theme) style.colorScheme = changed.theme;
  for (const [name, value] of Object.entries(changed.styles?.variables ?? {})) style.setProperty(name, value ?? "");
  if (!nodes.size) return;
  if (changed.containerDimensions || changed.displayMode) {
    draw();
    select(rootId);
  } else stage.recolour();
}

const NOTICES = new Map([
  ["ui/notifications/tool-input", (params) => { input = params.arguments ?? {}; }],
  ["ui/notifications/tool-result", show],
  ["ui/notifications/tool-cancelled", ({ reason }) => say(`The call was cancelled. ${reason ?? ""}`, true)],
  ["ui/notifications/host-context-changed", adopt],
]);

addEventListener("message", ({ source, data }) => {
  if (source !== parent || data?.jsonrpc !== "2.0") return;
  const { id, method, params = {}, result, error } = data;
  if (id === undefined) NOTICES.get(method)?.(params);
  else if (method === "ping" || method === "ui/resource-teardown") send({ id, result: {} });
  else if (method) send({ id, error: { code: -32601, message: "Method not found" } });
  else if (error) waiting.get(id)?.reject(new Error(error.message));
  else waiting.get(id)?.resolve(result);
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => stage?.recolour());

const appInfo = { name: "carrel-graph", title: "Graph", version: "1" };
const appCapabilities = { availableDisplayModes: ["inline", "fullscreen"] };
ask("ui/initialize", { protocolVersion: "2026-01-26", appInfo, appCapabilities }).then((opened) => {
  abilities = opened.hostCapabilities ?? {};
  adopt(opened.hostContext ?? {});
  send({ method: "ui/notifications/initialized", params: {} });
  new ResizeObserver(() => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    send({ method: "ui/notifications/size-changed", params: { height } });
  }).observe(document.body);
}, (error) => say(error.message, true));
