/** Notes, or the content of a project, as a graph. */

import { h, busy, empty, problem, replace } from "../dom.js";
import { number } from "../format.js";
import { control } from "../graph/controls.js";
import { Finder } from "../graph/finder.js";
import { Hits } from "../graph/hits.js";
import { layOut, startWorker } from "../graph/laying.js";
import { legend } from "../graph/legend.js";
import { makeModel } from "../graph/model.js";
import { Panel } from "../graph/panel.js";
import { Scene } from "../graph/scene.js";
import { Stage } from "../graph/stage.js";
import { data } from "../mcp.js";
import { contentSource } from "./content/source.js";

export const title = "Graph";

const CLOSE = 1.4;

export async function show(root, context) {
  await new GraphView(root, context).start();
}

class GraphView {
  constructor(root, context) {
    this.context = context;
    const served = new Set(context.desk.toolsets.map((toolset) => toolset.name));
    this.hasNotes = served.has("notes");
    this.contentToolset = ["bridge", "catalog"].find((name) => served.has(name)) ?? null;
    this.finder = new Finder({ onFound: (nodes) => this.pickOut(nodes), onChosen: (node) => this.select(node), announce: context.announce });
    this.sources = h("select", { class: "input", "aria-label": "Source", on: { change: () => this.choose() } });
    this.body = h("div", { class: "graph-body" });
    this.isBound = true;
    replace(root, h("div", { class: "graph-bar" }, this.sources, this.finder.node, this.#buttons()), this.body);
  }

  async start() {
    const { params, signal } = this.context;
    const wanted = params.get("source") ?? (this.hasNotes && !params.get("project") ? "notes" : "content");
    const isNotes = wanted === "notes" && this.hasNotes;
    this.worker = startWorker(signal);
    const opening = isNotes ? this.open("notes", null, params.get("node")) : null;
    const projects = this.contentToolset ? await contentSource(this.context.desk).projects() : [];
    if (signal.aborted) return;
    const options = projects.map(({ id, name }) => h("option", { value: id }, `Content: ${name}`));
    replace(this.sources, this.hasNotes && h("option", { value: "" }, "Notes"), options);
    const project = projects.find(({ id, slug }) => [id, slug].includes(params.get("project"))) ?? projects[0];
    this.sources.value = isNotes ? "" : (project?.id ?? "");
    if (opening) return void (await opening);
    if (project) await this.open("content", project.id, params.get("node"));
    else replace(this.body, empty("No content yet. Import it with ", h("code", null, "carrel import content"), "."));
  }

  async choose() {
    const project = this.sources.value;
    this.worker.terminate();
    this.worker = startWorker(this.context.signal);
    this.context.setParams({ source: project ? "content" : "notes", project, node: null });
    await this.open(project ? "content" : "notes", project || null, null);
  }

  async open(source, project, id) {
    this.opened?.abort();
    this.opened = new AbortController();
    const signal = AbortSignal.any([this.opened.signal, this.context.signal]);
    this.stage?.stop();
    this.stage = this.scene = null;
    const late = setTimeout(() => replace(this.body, busy("Loading the graph…")), 300);
    try {
      const given = await data("graph", { source, project }, signal);
      clearTimeout(late);
      this.fill(makeModel(given, source), id, signal);
    } catch (error) {
      if (signal.aborted) return;
      replace(this.body, problem(error.message, () => this.open(source, project, id)));
    } finally {
      clearTimeout(late);
    }
  }

  fill(model, id, signal) {
    if (!model.count) {
      const how = model.source === "notes" ? "No notes yet. Add Markdown files to the vault." : "This project has no entities yet.";
      return void replace(this.body, empty(how));
    }
    this.model = model;
    this.scene = new Scene(model);
    this.panel = new Panel({ contentToolset: this.contentToolset, onGo: (node) => this.select(node), onClose: () => this.close(), announce: this.context.announce }, signal);
    const things = model.source === "notes" ? "notes" : "entities";
    const canvas = h("canvas", {
      class: "graph-canvas", tabindex: 0, role: "application", "aria-roledescription": "graph", "aria-describedby": "graph-keys",
      "aria-label": `${number(model.count)} ${things} and ${number(model.links.length / 2)} links`, data: { state: "laying" },
    });
    const keys = h("p", { id: "graph-keys", class: "unseen" }, "Arrow keys follow links from the selected node, or pan when none is selected; with Shift they always pan. Plus and minus zoom, 0 shows everything, Enter selects the node in the center or moves to its details, and Escape clears the selection.");
    const guide = legend(model, { onToggle: (what, isOn) => this.toggle(what, isOn), onList: (query) => this.finder.ask(query) });
    replace(this.body, h("div", { class: "graph-stage" }, canvas, keys, model.truncated && h("p", { class: "graph-note" }, `The ${number(model.count)} most linked of ${number(model.total)}`)), guide, this.panel.node);
    this.#stage(canvas, signal);
    this.finder.use(model);
    const node = id ? (model.places.get(id) ?? -1) : -1;
    this.panel.overview(model);
    if (node >= 0) this.select(node, { isQuiet: true });
    else if (id) this.panel.node.prepend(problem(`${id} is not in this graph.`));
  }

  #stage(canvas, signal) {
    this.isBound = true;
    this.stage = new Stage(canvas, this.scene, { onDrawn: () => this.#drawn(canvas) });
    const hits = new Hits(this.scene);
    control(this.stage, hits, { choose: (node) => (node < 0 ? this.close() : this.select(node)), enter: () => this.panel.focus(), moved: () => (this.isBound = false) }, signal);
    const resized = new ResizeObserver(() => {
      this.stage.resize();
      if (this.isBound) this.aim();
    });
    resized.observe(canvas);
    signal.addEventListener("abort", () => {
      resized.disconnect();
      this.stage?.stop();
    });
    const recolour = () => this.stage?.recolour();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour, { signal });
    addEventListener("carrel:theme", recolour, { signal });
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    layOut(this.worker, this.model, this.stage.width / this.stage.height, (positions, isSettled) => {
      if (signal.aborted || (isStill && this.scene.isPlaced && !isSettled)) return;
      this.scene.move(positions);
      canvas.dataset.layout = isSettled ? "settled" : "moving";
      if (this.isBound) this.aim();
      this.stage.wake();
    });
  }

  #drawn(canvas) {
    if (canvas.dataset.state !== "drawn") performance.mark("graph-drawn");
    canvas.dataset.state = "drawn";
  }

  /** Until the user moves: all of it, or the chosen node. */
  aim() {
    const { selected, positions } = this.scene;
    if (selected < 0) this.stage.fit();
    else this.stage.look(this.stage.camera.at(positions[2 * selected], positions[2 * selected + 1], CLOSE));
  }

  select(node, { isQuiet = false } = {}) {
    const { model, scene, stage } = this;
    if (!scene.shown[node]) return void this.context.announce(`${model.titles[node]} is hidden: its group is turned off in the legend`);
    scene.select(node);
    this.panel.show(model, node);
    this.context.setParams({ source: model.source, project: model.project?.id ?? null, node: model.ids[node] });
    if (!isQuiet) this.context.announce(`${model.titles[node]}, ${number(model.offsets[node + 1] - model.offsets[node])} links`);
    this.#bringIntoView(node);
    stage.wake();
  }

  /** Only as far as needed: a node that is well in sight stays where it is. */
  #bringIntoView(node) {
    const { stage, scene } = this;
    if (!scene.isPlaced) return;
    const [x, y] = stage.pixelOf(node);
    const [roomX, roomY] = [stage.width / 6, stage.height / 6];
    const isSeen = x > roomX && y > roomY && x < stage.width - roomX && y < stage.height - roomY;
    if (isSeen && stage.camera.zoom >= 0.5) return;
    this.isBound = false;
    stage.look(stage.camera.at(scene.positions[2 * node], scene.positions[2 * node + 1], Math.max(stage.camera.zoom, 0.9)));
  }

  close() {
    this.scene.select(-1);
    this.panel.overview(this.model);
    this.context.setParams({ node: null });
    this.stage.canvas.focus();
    this.stage.wake();
  }

  pickOut(nodes) {
    this.scene?.pickOut(nodes);
    this.stage?.wake();
  }

  toggle(what, isOn) {
    this.scene.toggle(what, isOn);
    this.stage.wake();
  }

  #buttons() {
    const button = (name, sign, act) => h("button", { type: "button", class: "button button-icon", "aria-label": name, title: name, on: { click: () => this.stage && act(this.stage) } }, sign);
    const zoom = (factor) => (stage) => {
      this.isBound = false;
      stage.look(stage.camera.zoomed(factor));
    };
    return h("div", { class: "graph-zoom", role: "group", "aria-label": "Zoom" }, button("Zoom in", "+", zoom(1.5)), button("Zoom out", "−", zoom(1 / 1.5)), button("Show all", "⤢", (stage) => stage.fit()));
  }
}
