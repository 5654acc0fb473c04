/** The user's tasks, through the same five tools that an assistant has. */

import { empty, h, problem, replace, waiting } from "../dom.js";
import { number } from "../format.js";
import { callTool } from "../mcp.js";
import { confirmDelete, taskForm } from "./tasks/forms.js";
import { askForUser, forgetUser, knownUser } from "./tasks/user.js";

export const title = "Tasks";

const FILTERS = [
  ["all", "All", () => true],
  ["open", "Open", (task) => !task.completed],
  ["done", "Done", (task) => task.completed],
];
const AT_ONCE = 200;

/** @typedef {{id: number, title: string, description: string | null, completed: boolean}} Task */

/** @param {Element} root @param {import("../app.js").Context} context */
export async function show(root, context) {
  const user = knownUser(context.desk);
  if (user) await new TaskList(root, context, user).begin();
  else askForUser(root, () => show(root, context));
}

class TaskList {
  constructor(root, context, user) {
    Object.assign(this, { root, context, user });
    this.can = new Set(context.desk.toolsets.find((each) => each.name === "tasks").tools);
    this.filter = FILTERS.some(([name]) => name === context.params.get("show")) ? context.params.get("show") : "all";
    this.words = context.params.get("q") ?? "";
    this.limit = AT_ONCE;
    /** @type {Task[]} */
    this.tasks = [];
    this.editing = null;
    this.counts = new Map();
    this.list = h("ul", { class: "tasks", "aria-label": "Tasks" });
    this.message = h("div");
  }

  async begin() {
    const adding = this.can.has("add_task") && this.addForm();
    replace(this.root, h("div", { class: "tasks-view" }, adding, this.bar(), this.message, this.list));
    await this.load();
    const again = () => document.visibilityState === "visible" && this.editing === null && this.load();
    document.addEventListener("visibilitychange", again, { signal: this.context.signal });
  }

  /** What the tool answers; that there was no answer is told like a refusal. */
  async call(tool, args) {
    try {
      return await callTool("tasks", tool, { user_id: this.user, ...args });
    } catch (error) {
      return { ok: false, value: null, text: error.message };
    }
  }

  async load() {
    const loading = this.call("list_tasks", {});
    const answer = await (this.tasks.length ? loading : waiting(this.list, loading));
    if (this.context.signal.aborted) return;
    if (!answer.ok) {
      replace(this.list);
      replace(this.message, problem(said(answer), () => this.load()));
      return;
    }
    replace(this.message);
    this.tasks = answer.value;
    this.draw();
  }

  bar() {
    const choices = FILTERS.map(([name, label]) => {
      const count = h("span", { class: "count" });
      this.counts.set(name, count);
      const input = h("input", { type: "radio", name: "show", value: name, checked: name === this.filter, on: { change: () => this.choose(name) } });
      return h("label", null, input, label, " ", count);
    });
    const search = h("input", {
      type: "search",
      class: "input",
      "aria-label": "Find in tasks",
      placeholder: "Find in tasks",
      data: { search: "" },
      prop: { value: this.words },
      on: { input: (event) => this.find(event.target.value) },
    });
    return h("div", { class: "bar tasks-bar" }, h("div", { class: "choice", role: "radiogroup", "aria-label": "Show" }, choices), search, this.whose());
  }

  whose() {
    const name = h("bdi", { class: "muted" }, `of ${this.user}`);
    if (this.context.desk.user) return h("span", { class: "whose" }, name);
    const change = () => {
      forgetUser();
      askForUser(this.root, () => show(this.root, this.context)).focus();
    };
    return h("span", { class: "whose" }, name, h("button", { type: "button", class: "button button-quiet", on: { click: change } }, "Change user"));
  }

  choose(name) {
    this.filter = name;
    this.limit = AT_ONCE;
    this.context.setParams({ show: name === "all" ? null : name });
    this.draw();
    this.context.announce(`${number(this.shown().length)} tasks`);
  }

  find(words) {
    this.words = words;
    this.limit = AT_ONCE;
    this.context.setParams({ q: words });
    this.draw();
  }

  /** Open ones before done ones, the newest first. */
  shown() {
    const [, , keep] = FILTERS.find(([name]) => name === this.filter);
    const words = this.words.toLowerCase();
    const has = (task) => `${task.title}\n${task.description ?? ""}`.toLowerCase().includes(words);
    return this.tasks.filter((task) => keep(task) && has(task)).sort((one, two) => Number(one.completed) - Number(two.completed) || two.id - one.id);
  }

  draw() {
    for (const [name, , keep] of FILTERS) this.counts.get(name).textContent = number(this.tasks.filter(keep).length);
    const shown = this.shown();
    const rows = shown.slice(0, this.limit).map((task) => (task.id === this.editing ? this.editRow(task) : this.row(task)));
    replace(this.list, rows, shown.length > this.limit && this.more(shown.length));
    if (!shown.length) replace(this.list, h("li", null, this.nothing()));
  }

  more(total) {
    const grow = () => {
      const last = this.list.children.length - 1;
      this.limit += AT_ONCE;
      this.draw();
      this.list.children[last]?.querySelector("input, button")?.focus();
    };
    return h("li", { class: "more" }, h("button", { type: "button", class: "button", on: { click: grow } }, `Show more of ${number(total)}`));
  }

  nothing() {
    if (!this.tasks.length) return empty("No tasks yet. Add one above, or ask your assistant: it uses the same list.");
    return empty(this.words ? "No matching tasks." : this.filter === "done" ? "No completed tasks yet." : "No open tasks.");
  }

  row(task) {
    const id = `task-${task.id}`;
    const check = h("input", { type: "checkbox", id, checked: task.completed, disabled: task.completed || !this.can.has("complete_task"), on: { change: () => this.complete(task, check) } });
    const button = (tool, label, act) =>
      this.can.has(tool) && h("button", { type: "button", class: "button button-quiet", data: { act: label }, "aria-label": `${label}: ${task.title}`, on: { click: act } }, label);
    return h(
      "li",
      { class: `task${task.completed ? " is-done" : ""}`, data: { task: task.id } },
      check,
      h("div", { class: "task-text" }, h("label", { for: id, dir: "auto" }, task.title), task.description && h("p", { class: "muted", dir: "auto" }, task.description)),
      h("div", { class: "task-acts" }, button("update_task", "Edit", () => this.edit(task)), button("delete_task", "Delete", () => this.remove(task))),
    );
  }

  addForm() {
    const form = taskForm({ name: "Add a task", label: "Add", titleHint: "What needs to be done?", onSave: (given) => this.add(given, form) });
    return h("section", { class: "panel", "aria-label": "Add a task" }, form.node);
  }

  async add(given, form) {
    const answer = await form.busy(this.call("add_task", { title: given.title, ...(given.description && { description: given.description }) }));
    if (!answer.ok) return void form.fail(said(answer));
    form.clear();
    this.tasks = [...this.tasks, { id: answer.value.task_id, title: answer.value.title, description: given.description || null, completed: false }];
    this.draw();
    this.context.announce(`Added ${answer.value.title}`);
  }

  edit(task) {
    this.editing = task.id;
    this.draw();
    this.list.querySelector(".task-edit input").focus();
  }

  editRow(task) {
    const form = taskForm({ name: "Edit the task", label: "Save", task, onSave: (given) => this.save(task, given, form), onCancel: () => this.leaveEdit(task) });
    return h("li", { class: "task-edit", data: { task: task.id } }, form.node);
  }

  leaveEdit(task) {
    this.editing = null;
    this.draw();
    this.focus(task.id, "Edit");
  }

  async save(task, given, form) {
    const answer = await form.busy(this.call("update_task", { task_id: task.id, title: given.title, description: given.description }));
    if (!answer.ok) return void form.fail(said(answer));
    this.put({ ...task, title: answer.value.title, description: given.description || null });
    this.leaveEdit(task);
    this.context.announce(`Saved ${answer.value.title}`);
  }

  async complete(task, check) {
    check.disabled = true;
    const answer = await this.call("complete_task", { task_id: task.id });
    if (!answer.ok) return void this.failed(answer);
    this.put({ ...task, completed: true });
    this.focus(task.id, "Edit");
    this.context.announce(`Done: ${task.title}`);
  }

  async remove(task) {
    if (!(await confirmDelete(task.title))) return;
    const at = this.shown().findIndex((each) => each.id === task.id);
    const answer = await this.call("delete_task", { task_id: task.id });
    if (!answer.ok) return void this.failed(answer);
    this.tasks = this.tasks.filter((each) => each.id !== task.id);
    this.draw();
    const next = this.shown()[at] ?? this.shown().at(-1);
    if (next) this.focus(next.id, "Delete");
    else this.root.querySelector("input").focus();
    this.context.announce(`Deleted ${task.title}`);
  }

  put(task) {
    this.tasks = this.tasks.map((each) => (each.id === task.id ? task : each));
    this.draw();
  }

  /** Somebody else may have changed the list: say what the tool said, and look again. */
  async failed(answer) {
    await this.load();
    replace(this.message, problem(said(answer)));
  }

  focus(id, act) {
    this.list.querySelector(`[data-task="${id}"] [data-act="${act}"]`)?.focus();
  }
}

/** What a tool of this contract says when it refuses. */
function said({ value, text }) {
  if (!value?.error) return text;
  return value.details ? `${value.error}: ${value.details}` : value.error;
}
