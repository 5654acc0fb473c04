/** The list of a project's entities: searched, filtered, page by page. */

import { fill } from "../../asking.js";
import { empty, h } from "../../dom.js";
import { number } from "../../format.js";
import { walkable } from "../../walking.js";
import { STATUSES, TYPES } from "./source.js";
import { dayOf, statusTag, typeMark, words } from "./words.js";

const TYPING_MS = 250;

/**
 * @param {any} view the content view
 * @param {URLSearchParams} given `q`, `type`, `status` and `page`
 * @returns {{node: Node, params(): object, mark(id: string | null): void}}
 */
export function entityList(view, given) {
  const { source, context } = view;
  const state = {
    q: given.get("q") ?? "",
    type: TYPES.find((each) => each === given.get("type")) ?? "",
    status: STATUSES.find((each) => each === given.get("status")) ?? "",
    page: Math.max(1, Math.floor(Number(given.get("page"))) || 1),
  };
  const results = h("div", { class: "entity-results" });
  let typing = 0;

  const params = () => ({ ...state, page: state.page > 1 ? state.page : "" });

  function change(changes) {
    Object.assign(state, { page: 1 }, changes);
    context.setParams(params());
    return load();
  }

  const search = h("input", {
    class: "input",
    type: "search",
    id: "entity-search",
    placeholder: "Search titles",
    autocomplete: "off",
    maxlength: 256,
    data: { search: "" },
    prop: { value: state.q },
    on: {
      input: () => {
        clearTimeout(typing);
        typing = setTimeout(() => change({ q: search.value.trim() }), TYPING_MS);
      },
    },
  });
  const submitted = (event) => {
    event.preventDefault();
    clearTimeout(typing);
    change({ q: search.value.trim() });
  };
  const form = h(
    "form",
    { class: "entity-form", role: "search", on: { submit: submitted } },
    h("label", { class: "unseen", for: "entity-search" }, "Search entities"),
    search,
    filter("Type", "any type", TYPES, state.type, (type) => change({ type })),
    source.hasStatus && filter("Status", "any status", STATUSES, state.status, (status) => change({ status })),
  );

  async function load() {
    const isFilled = await fill(
      results,
      async () => drawn(await source.entities(view.project.id, { ...state, search: state.q })),
      context.signal,
    );
    if (!isFilled) return;
    mark(view.entity);
    const list = results.querySelector("ol");
    if (list) walkable(list, search, context.signal);
  }

  function drawn(found) {
    if (!found) return empty("Enter a word to search titles, slugs and summaries.");
    if (!found.rows.length && found.total) {
      return [empty("This page does not exist."), pager(found)];
    }
    if (!found.rows.length) {
      const isFiltered = state.q || state.type || state.status;
      return empty(
        isFiltered ? "No matching entities. Try fewer words or filters." : "This project has no entities yet.",
      );
    }
    return [h("ol", { class: "entity-list", "aria-label": "Entities" }, found.rows.map(row)), pager(found)];
  }

  function row(entity) {
    return h(
      "li",
      { data: { row: "" } },
      view.link(
        entity.id,
        { data: { entity: entity.id } },
        h("span", { class: "entity-title" }, entity.title),
        h(
          "span",
          { class: "entity-meta" },
          typeMark(entity.entityType, TYPES),
          entity.status !== "published" && statusTag(entity.status),
          h("time", { datetime: entity.updatedAt, title: "Last changed" }, dayOf(entity.updatedAt)),
        ),
      ),
    );
  }

  function pager({ first, rows, total, hasMore }) {
    const go = (page) => async () => {
      await change({ page });
      context.announce(results.querySelector(".entity-count")?.textContent ?? "");
    };
    const step = (label, page, isPossible) =>
      h("button", { type: "button", class: "button", disabled: !isPossible, on: { click: go(page) } }, label);
    const count = rows.length
      ? `${number(first + 1)}–${number(first + rows.length)} of ${number(total)}`
      : `${number(total)} in total`;
    const isPaged = state.page > 1 || hasMore;
    return h(
      "div",
      { class: "entity-pager" },
      h("span", { class: "muted entity-count" }, count),
      isPaged && step("Previous", rows.length ? state.page - 1 : 1, state.page > 1),
      isPaged && step("Next", state.page + 1, hasMore),
    );
  }

  function mark(id) {
    for (const link of results.querySelectorAll("a")) {
      if (link.dataset.entity === id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  load();
  return { node: h("div", null, form, results), params, mark };
}

function filter(label, any, values, value, chosen) {
  const options = values.map((each) => h("option", { value: each, selected: each === value }, words(each)));
  const changed = (event) => chosen(event.target.value);
  return h(
    "select",
    { class: "input", "aria-label": label, on: { change: changed } },
    h("option", { value: "" }, words(any)),
    options,
  );
}
