/** Content: projects, their entities and how these relate, how they do in search, and what was claimed until when. */

import { fill } from "../asking.js";
import { empty, h, replace } from "../dom.js";
import { entityList } from "./content/entities.js";
import { entityDetail } from "./content/entity.js";
import { overview } from "./content/overview.js";
import { contentSource } from "./content/source.js";

export const title = "Content";

/** @param {Element} root @param {import("../app.js").Context} context */
export async function show(root, context) {
  const source = contentSource(context.desk);
  const projects = await source.projects();
  if (context.signal.aborted) return;
  if (projects.length) new ContentView(root, context, source, projects);
  else
    replace(root, empty("No projects yet. Import content with ", h("code", null, "carrel import content"), "."));
}

/** The list of entities beside what is open: one of them, or the project as a whole. */
class ContentView {
  constructor(root, context, source, projects) {
    this.context = context;
    this.source = source;
    this.projects = projects;
    this.about = h("p", { class: "muted content-about" });
    this.graph = h("a", { class: "button" }, "Show as graph");
    this.side = h("section", { class: "panel content-side", "aria-label": "Entities" });
    this.detail = h("div", { class: "content-detail" });
    this.body = h("div", { class: "content-body" }, this.side, this.detail);
    replace(root, h("div", { class: "content-head" }, this.chooser(), this.about, this.graph), this.body);
    const { params } = context;
    this.project = this.projects.find(
      (each) => each.id === params.get("project") || each.slug === params.get("project"),
    );
    if (params.get("project") && !this.project) this.refuse();
    else this.enter(this.project ?? projects[0], params);
  }

  chooser() {
    const options = this.projects.map((each) => h("option", { value: each.id }, each.name));
    const chosen = () => {
      this.project = this.projects.find((each) => each.id === this.select.value);
      this.visit({});
      this.enter(this.project, new URLSearchParams());
    };
    this.select = h("select", { id: "content-project", class: "input", on: { change: chosen } }, options);
    return h("div", { class: "content-project" }, h("label", { for: "content-project" }, "Project"), this.select);
  }

  /** The address names a project that is not there, or not for this caller. */
  refuse() {
    this.select.selectedIndex = -1;
    this.body.classList.add("is-alone");
    this.graph.hidden = true;
    replace(
      this.detail,
      h("p", { class: "error", role: "alert" }, "This project does not exist, or you have no access to it. Choose another."),
    );
  }

  enter(project, params) {
    this.project = project;
    this.select.value = project.id;
    this.about.textContent = project.description ?? "";
    this.graph.setAttribute("href", `#/graph?source=content&project=${project.id}`);
    this.graph.hidden = false;
    this.body.classList.remove("is-alone");
    this.list = entityList(this, params);
    replace(this.side, this.list.node);
    this.show(params.get("entity"));
  }

  /** Open an entity, or the project where there is none. */
  open(id) {
    this.visit({ ...this.list.params(), entity: id });
    this.show(id).then((isShown) => {
      const heading = this.detail.querySelector("h2");
      if (!isShown || !heading) return;
      this.context.announce(heading.textContent);
      if (!this.side.checkVisibility()) heading.focus();
    });
  }

  show(id) {
    this.entity = id;
    this.body.classList.toggle("has-entity", Boolean(id));
    this.list.mark(id);
    return fill(this.detail, () => (id ? entityDetail(this, id) : overview(this)), this.context.signal);
  }

  /** The address of an entity, or of the project. */
  address(params) {
    const given = Object.entries({ project: this.project.id, ...params }).filter(([, value]) => value);
    return `#/content?${new URLSearchParams(given)}`;
  }

  /** A new place in the history: going back shows the view anew, as it was. */
  visit(params) {
    history.pushState(null, "", this.address(params));
  }

  /** A link to an entity that opens it here, unless it is to open elsewhere. */
  link(id, props, ...children) {
    const opened = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      this.open(id);
    };
    return h("a", { ...props, href: this.address({ entity: id }), on: { click: opened } }, children);
  }
}
