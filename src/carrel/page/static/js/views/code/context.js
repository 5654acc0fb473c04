/** Looking for meaning: discoveries, sessions and code, the best first. */

import { ask, fill } from "../../asking.js";
import { copyButton } from "../../copying.js";
import { empty, h } from "../../dom.js";
import { ago, ms, number } from "../../format.js";
import { walkable } from "../../walking.js";
import { searchForm } from "./form.js";
import { KINDS, kindSelect, kindTag } from "./kinds.js";

const LIMITS = [5, 10, 20];

export function contextPane(view, params) {
  const { context } = view;
  const results = h("div", { class: "code-results" });
  const query = h("input", {
    class: "input",
    type: "search",
    id: "context-query",
    required: true,
    minlength: 3,
    maxlength: 500,
    placeholder: "Describe what you are looking for",
    autocomplete: "off",
    data: { search: "" },
    prop: { value: params.get("q") ?? "" },
  });
  const type = kindSelect("Type", "Discoveries, sessions and code", params.get("type"), run);
  const module = h("input", {
    class: "input",
    id: "context-module",
    placeholder: "Any module",
    autocomplete: "off",
    prop: { value: params.get("module") ?? "" },
  });
  const wanted = Number(params.get("limit"));
  const limit = h(
    "select",
    { class: "input", "aria-label": "Limit", on: { change: run } },
    LIMITS.map((each) =>
      h("option", { value: each, selected: each === (LIMITS.includes(wanted) ? wanted : 10) }, `${each} results`),
    ),
  );

  async function run() {
    if (!query.value.trim() || !form.reportValidity()) return;
    context.setParams({
      by: "context",
      q: query.value,
      type: type.value,
      module: module.value.trim(),
      limit: Number(limit.value) === 10 ? null : limit.value,
    });
    const isFilled = await fill(results, asked, context.signal);
    if (isFilled) context.announce(results.querySelector(".code-count")?.textContent ?? "No results");
    const list = results.querySelector("ol");
    if (list) walkable(list, query, context.signal);
    view.mark(view.place);
  }

  async function asked() {
    const args = { query: query.value, limit: Number(limit.value) };
    if (KINDS.includes(type.value)) args.type = type.value;
    if (module.value.trim()) args.module = module.value.trim();
    const found = await ask("code", "context_search", args);
    if (!found.results.length) return empty("No results. Try other words, or search for the exact text.");
    const isAll = found.totalFound <= found.results.length;
    const count = `${isAll ? "" : `Top ${number(found.results.length)} of `}${number(found.totalFound)} results`;
    return [
      h("p", { class: "muted code-summary" }, h("span", { class: "code-count" }, count), `, ${ms(found.searchTime)}`),
      h(
        "ol",
        { class: "passages" },
        found.results.map((each) => passage(view, each)),
      ),
    ];
  }

  const form = searchForm(
    "Query",
    query,
    run,
    type,
    h("label", { class: "unseen", for: "context-module" }, "Module"),
    module,
    limit,
  );
  if (query.value) run();
  else results.append(empty("Searches discoveries, sessions and code by meaning as well as by words."));
  return [form, results];
}

function passage(view, result) {
  const place = /^(.*):(\d+)-(\d+)$/s.exec(result.source === "code" ? result.id : "");
  const score = h(
    "span",
    { class: "score", title: "Relevance score, from 0 to 1" },
    h("span", { class: "score-bar" }, h("span", { class: "score-part" })),
    result.score.toFixed(2),
  );
  score.querySelector(".score-part").style.setProperty("inline-size", `${Math.round(result.score * 100)}%`);
  const meta = h(
    "span",
    { class: "passage-meta" },
    score,
    kindTag(result.type),
    place
      ? h("span", { class: "mono" }, result.id)
      : [
          result.module && h("span", { class: "mono" }, result.module),
          h("time", { datetime: result.date }, ago(result.date)),
        ],
  );
  const text = h("span", { class: place ? "passage-code mono" : "passage-text" }, result.content);
  const copied = place ? `${place[1]}:${place[2]}` : result.id;
  const open =
    place && view.has("code", "read_file")
      ? view.link(place[1], Number(place[2]), { class: "passage" }, meta, text)
      : h("div", { class: "passage" }, meta, text);
  return h(
    "li",
    { data: { row: "" } },
    open,
    copyButton(copied, view.context.announce, place ? {} : { label: "Copy ID" }),
  );
}
