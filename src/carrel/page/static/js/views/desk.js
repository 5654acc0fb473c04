/** What the server is doing: its toolsets, its health, and the calls of the last minutes. */

import { empty, h, replace, setText, svg } from "../dom.js";
import { ago, bytes, date, ms, number, percent, time } from "../format.js";
import { data } from "../mcp.js";

export const title = "Desk";

const EVERY_MS = 2000;
const MINUTES = 30;
const CHART = { width: 600, height: 96, gap: 3 };
const OUTCOMES = { ok: "good", refused: "warn", limited: "warn", cancelled: "", failed: "bad" };

/** Columns of the table of tools: key, label, how a value is written, what is said of it. */
const COLUMNS = [
  ["tool", "Tool", null, null],
  ["calls", "Calls", number, null],
  ["perMinute", "Per minute", number, null],
  ["errors", "Errors", number, null],
  ["p50", "p50", ms, "50% of calls took this long or less"],
  ["p95", "p95", ms, "95% of calls took this long or less"],
  ["p99", "p99", ms, "99% of calls took this long or less"],
];

/** @param {Element} root @param {import("../app.js").Context} context */
export async function show(root, context) {
  const parts = [health(), figures(), chart(), toolTable(context), recentCalls(), toolsets()];
  const [state, sums, minutes, tools, recent, served] = parts;
  const stale = h("p", { class: "stale", role: "status", hidden: true });
  replace(
    root,
    stale,
    state.node,
    sums.node,
    h("div", { class: "desk" }, h("div", { class: "desk-main" }, minutes.node, tools.node, recent.node), served.node),
  );
  const draw = (desk) => parts.forEach((part) => part.draw(desk));
  draw(context.desk);
  poll(context.signal, draw, stale);
}

/** Ask again and again while somebody looks. */
function poll(signal, draw, stale) {
  let timer = 0;
  let since = null;
  async function ask() {
    clearTimeout(timer);
    try {
      draw(await data("desk", {}, signal));
      stale.hidden = true;
      since = null;
    } catch (error) {
      if (signal.aborted) return;
      since ??= new Date().toISOString();
      setText(stale, `${error.message} Showing figures from ${time(since)}; retrying.`);
      stale.hidden = false;
    }
    plan();
  }
  function plan() {
    clearTimeout(timer);
    if (!signal.aborted && document.visibilityState === "visible") timer = setTimeout(ask, EVERY_MS);
  }
  const turned = () => (document.visibilityState === "visible" ? ask() : clearTimeout(timer));
  document.addEventListener("visibilitychange", turned, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  plan();
}

function health() {
  const node = h("ul", { class: "health", "aria-label": "Health" });
  const items = new Map();
  const version = h("li", { class: "muted" });
  node.append(version);
  function item(name) {
    const [state, detail] = [h("strong"), h("span", { class: "muted" })];
    const each = { node: h("li", null, h("span", { class: "dot", "aria-hidden": "true" }), h("span", null, name), state, detail), state, detail };
    node.insertBefore(each.node, version);
    return each;
  }
  function draw(desk) {
    for (const { name, state, detail } of desk.health) {
      if (!items.has(name)) items.set(name, item(name));
      const each = items.get(name);
      each.node.dataset.state = state;
      setText(each.state, state);
      setText(each.detail, detail ?? "");
    }
    setText(version, `Carrel ${desk.version}${desk.readOnly ? " · read-only" : ""}`);
  }
  return { node, draw };
}

function figures() {
  const values = ["Calls per minute", "Calls", "Errors", "Slowest p95", "Uptime"].map((name) => ({ name, value: h("dd"), note: h("dd", { class: "muted" }) }));
  const node = h("dl", { class: "figures" }, values.map(({ name, value, note }) => h("div", null, h("dt", null, name), value, note)));
  function draw({ tools, window, startedAt, now }) {
    const sum = (key) => tools.reduce((total, each) => total + each[key], 0);
    const [calls, errors] = [sum("calls"), sum("errors")];
    const slowest = tools.reduce((worst, each) => (each.p95 > (worst?.p95 ?? -1) ? each : worst), null);
    const span = `in ${number(window / 60)} min`;
    const told = [
      [number((calls * 60) / window), `over ${number(window / 60)} min`],
      [number(calls), span],
      [number(errors), calls ? `${percent(errors / calls)} of calls` : span],
      [slowest ? ms(slowest.p95) : "–", slowest?.tool ?? span],
      [ago(startedAt, Date.parse(now)).replace(" ago", ""), `since ${date(startedAt)}, ${time(startedAt)}`],
    ];
    told.forEach(([value, note], at) => {
      setText(values[at].value, value);
      setText(values[at].note, note);
    });
  }
  return { node, draw };
}

function chart() {
  const step = CHART.width / MINUTES;
  const bars = Array.from({ length: MINUTES }, (_, at) => {
    const label = svg("title");
    return { label, node: svg("rect", { x: at * step, width: step - CHART.gap, rx: 1 }, label) };
  });
  const picture = svg("svg", { class: "minutes", viewBox: `0 0 ${CHART.width} ${CHART.height}`, preserveAspectRatio: "none", role: "img" }, bars.map((bar) => bar.node));
  const most = h("span", { class: "muted most" });
  const node = h(
    "section",
    { class: "panel", "aria-labelledby": "minutes-title" },
    h("div", { class: "head" }, h("h2", { id: "minutes-title" }, "Calls by minute"), most),
    picture,
    h("div", { class: "axis muted", "aria-hidden": "true" }, h("span", null, `${MINUTES} min ago`), h("span", null, "15 min ago"), h("span", null, "this minute")),
  );
  function draw({ minutes }) {
    const top = Math.max(...minutes, 1);
    bars.forEach(({ node: bar, label }, at) => {
      const value = minutes[at] ?? 0;
      const height = value ? Math.max((value / top) * (CHART.height - 2), 2) : 1;
      bar.setAttribute("height", String(height));
      bar.setAttribute("y", String(CHART.height - height));
      bar.setAttribute("class", value ? "some" : "none");
      setText(label, `${number(value)} ${at === MINUTES - 1 ? "calls this minute" : `calls, ${MINUTES - 1 - at} min ago`}`);
    });
    const peak = Math.max(...minutes, 0);
    setText(most, peak ? `peak ${number(peak)}` : "");
    const all = minutes.reduce((sum, each) => sum + each, 0);
    picture.setAttribute("aria-label", `${number(all)} calls in the last ${MINUTES} minutes, peak ${number(peak)} per minute`);
  }
  return { node, draw };
}

function toolTable({ params, setParams, announce }) {
  const given = params.get("sort") ?? "-calls";
  const asked = given.replace(/^-/, "");
  let key = COLUMNS.some(([name]) => name === asked) ? asked : "calls";
  let falls = given.startsWith("-");
  let latest = null;
  const rows = new Map();
  const body = h("tbody");
  const heads = COLUMNS.map(([name, label, , about]) => {
    const button = h("button", { type: "button", title: about, on: { click: () => sortBy(name, label) } }, label);
    return h("th", { scope: "col", class: name === "tool" ? null : "num" }, button);
  });
  const table = h("table", { class: "table" }, h("thead", null, h("tr", null, heads)), body);
  const nothing = empty("No tool calls in the last few minutes. ", h("a", { href: "#/try" }, "Try one"), ", or connect a client to an address on this page.");
  const node = h("section", { class: "panel", "aria-labelledby": "tools-title" }, h("h2", { id: "tools-title" }, "Tools"), h("div", { class: "scroll" }, table), nothing);

  function sortBy(name, label) {
    falls = key === name ? !falls : name !== "tool";
    key = name;
    setParams({ sort: `${falls ? "-" : ""}${key}` });
    draw(latest);
    announce(`Sorted by ${label}, ${falls ? "descending" : "ascending"}`);
  }
  function row({ toolset, tool }) {
    const query = new URLSearchParams({ toolset, tool });
    const cells = COLUMNS.slice(1).map(() => h("td", { class: "num" }));
    const name = h("th", { scope: "row" }, h("a", { href: `#/try?${query}`, class: "mono" }, tool), " ", h("span", { class: "muted" }, toolset));
    return { node: h("tr", null, name, cells), cells };
  }
  function draw(desk) {
    latest = desk;
    heads.forEach((head, at) => {
      if (COLUMNS[at][0] === key) head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const sorted = [...desk.tools].sort((one, two) => (falls ? -1 : 1) * (key === "tool" ? compare(one, two) : one[key] - two[key]) || compare(one, two));
    const shown = sorted.map((each) => {
      const id = `${each.toolset} ${each.tool}`;
      if (!rows.has(id)) rows.set(id, row(each));
      const { node: line, cells } = rows.get(id);
      COLUMNS.slice(1).forEach(([name, , write], at) => setText(cells[at], write(each[name])));
      cells[2].classList.toggle("some-errors", each.errors > 0);
      return line;
    });
    arrange(body, shown);
    table.hidden = !shown.length;
    nothing.hidden = shown.length > 0;
  }
  return { node, draw };
}

const compare = (one, two) => one.tool.localeCompare(two.tool) || one.toolset.localeCompare(two.toolset);

/** Put children in order, moving only what is elsewhere: what has the focus keeps it. */
function arrange(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  const held = parent.contains(document.activeElement);
  nodes.forEach((node, at) => {
    const there = parent.children[at] ?? null;
    if (there === node) return;
    if (node.parentNode !== parent) parent.insertBefore(node, there);
    else if (parent.moveBefore) parent.moveBefore(node, there);
    else if (!held) parent.insertBefore(node, there);
  });
}

function recentCalls() {
  const rows = [];
  const body = h("tbody");
  const labels = [["Time"], ["Tool"], ["Outcome"], ["Duration", "num"], ["Result", "num"], ["User"]];
  const heads = labels.map(([label, kind]) => h("th", { scope: "col", class: kind }, label));
  const table = h("table", { class: "table" }, h("thead", null, h("tr", null, heads)), body);
  const own = h("span", { class: "muted", hidden: true }, "your calls only");
  const nothing = empty("Calls appear here as they happen.");
  const node = h("section", { class: "panel", "aria-labelledby": "recent-title" }, h("div", { class: "head" }, h("h2", { id: "recent-title" }, "Recent calls"), own), h("div", { class: "scroll recent", tabindex: 0, role: "region", "aria-label": "Recent calls" }, table), nothing);
  function row() {
    const outcome = h("span", { class: "tag" });
    const [when, tool, took, size, user] = [h("td", { class: "muted" }), h("td", { class: "mono" }), h("td", { class: "num" }), h("td", { class: "num" }), h("td", { class: "muted who" })];
    return { node: h("tr", null, when, tool, h("td", null, outcome), took, size, user), when, tool, outcome, took, size, user };
  }
  function draw(desk) {
    while (rows.length < desk.recent.length) {
      rows.push(row());
      body.append(rows.at(-1).node);
    }
    while (rows.length > desk.recent.length) rows.pop().node.remove();
    desk.recent.forEach((call, at) => {
      const each = rows[at];
      setText(each.when, time(call.at));
      setText(each.tool, call.tool);
      setText(each.outcome, call.outcome);
      each.outcome.className = `tag${OUTCOMES[call.outcome] ? ` tag-${OUTCOMES[call.outcome]}` : ""}`;
      setText(each.took, ms(call.ms));
      setText(each.size, bytes(call.bytes));
      setText(each.user, call.user ?? "");
    });
    const named = desk.recent.some((call) => call.user);
    table.classList.toggle("without-user", !named);
    table.hidden = !rows.length;
    nothing.hidden = rows.length > 0;
    own.hidden = desk.sees !== "own";
  }
  return { node, draw };
}

function toolsets() {
  const list = h("ul", { class: "toolsets" });
  const node = h("section", { class: "panel", "aria-labelledby": "toolsets-title" }, h("h2", { id: "toolsets-title" }, "Toolsets"), list);
  let shown = "";
  function draw(desk) {
    const now = JSON.stringify(desk.toolsets);
    if (now === shown) return;
    shown = now;
    replace(list, desk.toolsets.map(toolset));
  }
  return { node, draw };
}

function toolset({ name, about, endpoint, tools }) {
  const links = tools.map((tool) => h("li", null, h("a", { href: `#/try?${new URLSearchParams({ toolset: name, tool })}`, class: "mono" }, tool)));
  return h(
    "li",
    null,
    h("div", { class: "head" }, h("h3", null, name), h("code", { class: "muted" }, endpoint)),
    h("p", { class: "muted" }, about),
    h("ul", { class: "names", "aria-label": `Tools of ${name}` }, links),
  );
}
