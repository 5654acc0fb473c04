/** Any tool, called from a form made of its schema, with what goes over the wire in full. */

import { busy, empty, h, problem, replace } from "../dom.js";
import { callRequest, callTool, listTools } from "../mcp.js";
import { exchange } from "./try/exchange.js";
import { schemaForm } from "./try/form.js";
import { knownUser } from "./tasks/user.js";

export const title = "Try a tool";

/** @param {Element} root @param {import("../app.js").Context} context */
export async function show(root, context) {
  const { desk, params } = context;
  if (!desk.toolsets.length) return void replace(root, empty("No toolset is available to you. Add toolsets to server.toolsets in carrel.toml, or sign in with a token whose scopes include one."));
  const toolset = desk.toolsets.find((each) => each.name === params.get("toolset")) ?? desk.toolsets[0];
  const name = toolset.tools.includes(params.get("tool")) ? params.get("tool") : toolset.tools[0];
  const place = h("div", { class: "split try" }, busy());
  replace(root, chooser(context, toolset, name), place);
  const tool = (await listTools(toolset.name)).find((each) => each.name === name);
  if (context.signal.aborted) return;
  if (!tool) return void replace(place, problem(`${toolset.name} no longer has the tool ${name}. Reload the page.`));
  replace(place, ...bench(context, toolset, tool));
}

function chooser({ desk, go }, toolset, name) {
  const options = (names, chosen) => names.map((each) => h("option", { value: each, selected: each === chosen }, each));
  const open = (params) => {
    go(`#/try?${new URLSearchParams(params)}`);
  };
  const toolsets = h("select", { class: "input", id: "toolset", on: { change: () => open({ toolset: toolsets.value }) } }, options(desk.toolsets.map((each) => each.name), toolset.name));
  const tools = h("select", { class: "input mono", id: "tool", data: { search: "" }, on: { change: () => open({ toolset: toolset.name, tool: tools.value }) } }, options(toolset.tools, name));
  return h(
    "div",
    { class: "bar chooser" },
    h("div", { class: "field" }, h("label", { for: "toolset" }, "Toolset"), toolsets),
    h("div", { class: "field" }, h("label", { for: "tool" }, "Tool"), tools),
  );
}

/** The form on one side, the wire on the other. */
function bench({ desk, params, setParams, announce, signal }, toolset, tool) {
  const wire = exchange(announce, { hasDoors: desk.scopes !== null });
  const doubts = h("span", { class: "bar" });
  const form = schemaForm(tool.inputSchema, given(params.get("args"), tool, desk), preview);
  const button = h("button", { class: "button button-main" }, "Call");
  let insists = false;

  function preview() {
    insists = false;
    replace(doubts);
    wire.plan(callRequest(toolset.name, tool.name, form.read().args));
  }
  async function submit(event) {
    event.preventDefault();
    const { args, broken, doubtful } = form.read({ tell: true });
    if (broken) return void form.focusFault();
    if (doubtful && !insists) {
      insists = true;
      const anyway = h("button", { class: "button" }, "Call anyway");
      replace(doubts, anyway, h("span", { class: "fault" }, "This does not match the schema."));
      announce("This does not match the schema");
      return void form.focusFault();
    }
    setParams({ toolset: toolset.name, tool: tool.name, args: JSON.stringify(args) });
    button.disabled = true;
    try {
      const answer = await callTool(toolset.name, tool.name, args);
      if (signal.aborted) return;
      wire.answer(answer);
      announce(answer.ok ? "Result received" : "The tool returned an error");
    } catch (error) {
      wire.fail(error.message);
    } finally {
      button.disabled = false;
    }
  }

  const writes = tool.annotations?.readOnlyHint === false;
  preview();
  return [
    h(
      "form",
      { class: "panel try-form", "aria-label": "Arguments", novalidate: true, on: { submit } },
      h("div", { class: "bar" }, h("h2", { class: "mono" }, tool.name), h("span", { class: `tag${writes ? " tag-warn" : ""}` }, writes ? "writes" : "reads")),
      h("p", { class: "about muted" }, tool.description ?? ""),
      form.node,
      h("div", { class: "bar" }, button, doubts),
    ),
    wire.node,
  ];
}

/** The arguments of the address; else the user, where that is known. */
function given(text, tool, desk) {
  try {
    const args = JSON.parse(text ?? "");
    if (args && typeof args === "object" && !Array.isArray(args)) return args;
  } catch {
    // the address may have been cut short
  }
  const user = knownUser(desk);
  return user && Object.hasOwn(tool.inputSchema.properties ?? {}, "user_id") ? { user_id: user } : {};
}
