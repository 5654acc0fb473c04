/** Looking for text: matches file by file, with the lines around them. */

import { ask, fill } from "../../asking.js";
import { copyButton } from "../../copying.js";
import { empty, h } from "../../dom.js";
import { ms, number } from "../../format.js";
import { walkable } from "../../walking.js";
import { searchForm } from "./form.js";
import { pieces } from "./highlight.js";

const LIMITS = [20, 50, 100];
const USUAL = 50;

export function grepPane(view, params) {
  const { context } = view;
  const results = h("div", { class: "code-results" });
  const pattern = h("input", {
    class: "input mono",
    type: "search",
    id: "grep-pattern",
    required: true,
    maxlength: 200,
    placeholder: "Regular expression",
    autocomplete: "off",
    spellcheck: "false",
    data: { search: "" },
    prop: { value: params.get("q") ?? "" },
  });
  const files = h("input", {
    class: "input mono",
    id: "grep-files",
    placeholder: "All files, or a glob: **/*.py",
    autocomplete: "off",
    spellcheck: "false",
    prop: { value: params.get("files") ?? "" },
  });
  const isCased = h("input", { type: "checkbox", checked: params.get("case") === "1", on: { change: run } });
  const isAround = h("input", { type: "checkbox", checked: params.get("around") !== "0", on: { change: redraw } });
  const wanted = Number(params.get("limit"));
  const limit = h(
    "select",
    { class: "input", id: "grep-limit", "aria-label": "Limit", on: { change: run } },
    LIMITS.map((each) =>
      h("option", { value: each, selected: each === (LIMITS.includes(wanted) ? wanted : USUAL) }, `${each} matches`),
    ),
  );
  let found = null;

  function keep() {
    context.setParams({
      by: "grep",
      q: pattern.value,
      files: files.value.trim(),
      case: isCased.checked ? 1 : null,
      around: isAround.checked ? null : 0,
      limit: Number(limit.value) === USUAL ? null : limit.value,
    });
  }

  async function run() {
    if (!pattern.value) return;
    keep();
    const isFilled = await fill(results, asked, context.signal);
    if (isFilled) context.announce(results.querySelector(".code-count")?.textContent ?? "No matches");
    walk();
  }

  async function asked() {
    const args = { pattern: pattern.value, caseSensitive: isCased.checked, limit: Number(limit.value) };
    if (files.value.trim()) args.filePattern = files.value.trim();
    found = { ...(await ask("code", "grep_codebase", args)), isCased: isCased.checked };
    return drawn();
  }

  function redraw() {
    keep();
    if (!found) return;
    results.replaceChildren(...drawn());
    walk();
  }

  function walk() {
    const list = results.querySelector(".grep-files");
    if (list) walkable(list, pattern, context.signal);
    view.mark(view.place);
  }

  function drawn() {
    const { matches, totalMatches, filesSearched, searchTime } = found;
    if (!matches.length) {
      const about = filesSearched
        ? `No matches in ${number(filesSearched)} files.`
        : "No file matches this glob, so nothing was searched.";
      return [
        empty(about, " Patterns are regular expressions: escape ( [ . * + ? with a backslash to match the character itself."),
      ];
    }
    const isCut = totalMatches > matches.length;
    const count = isCut
      ? `The first ${number(matches.length)} of ${number(totalMatches)} matching lines`
      : `${number(totalMatches)} matching ${totalMatches === 1 ? "line" : "lines"}`;
    return [
      h(
        "p",
        { class: "muted code-summary" },
        h("span", { class: "code-count" }, count),
        ` in ${number(filesSearched)} files, ${ms(searchTime)}`,
      ),
      isCut &&
        h(
          "p",
          { class: "code-cut" },
          "Truncated. Narrow the pattern or the files",
          Number(limit.value) < LIMITS.at(-1) && ", or raise the limit",
          ".",
        ),
      h(
        "div",
        { class: "grep-files" },
        byFile(matches).map(([file, rows]) => fileGroup(file, rows)),
      ),
    ].filter(Boolean);
  }

  function fileGroup(file, rows) {
    return h(
      "section",
      { class: "grep-file" },
      h("h3", { class: "mono" }, file, " ", h("span", { class: "muted" }, number(rows.length))),
      h(
        "ol",
        { class: "grep-lines" },
        lines(rows, isAround.checked).map((each) => lineRow(file, each)),
      ),
    );
  }

  function lineRow(file, { line, text, match, isApart }) {
    const props = { class: `grep-line${isApart ? " is-apart" : ""}${match ? "" : " is-around"}` };
    const digits = h("span", { class: "grep-number" }, line);
    if (!match) return h("li", props, digits, h("span", { class: "grep-text" }, text || " "));
    const parts = pieces(text, match.column, found.pattern, found.isCased);
    const shown = parts.map((part) => (part.isMatch ? h("mark", null, part.text) : part.text));
    return h(
      "li",
      { ...props, data: { row: "" } },
      view.link(file, line, { class: "grep-open" }, digits, h("span", { class: "grep-text" }, shown)),
      copyButton(`${file}:${line}`, context.announce),
    );
  }

  const form = searchForm(
    "Pattern",
    pattern,
    run,
    h("label", { class: "unseen", for: "grep-files" }, "Files"),
    files,
    limit,
    h("label", { class: "check" }, isCased, "Match case"),
    h("label", { class: "check" }, isAround, "Context lines"),
  );
  if (pattern.value) run();
  else
    results.append(empty("Searches the code base by regular expression. Files in .gitignore are skipped."));
  return [form, results];
}

function byFile(matches) {
  const files = new Map();
  for (const match of matches) files.set(match.file, [...(files.get(match.file) ?? []), match]);
  return [...files];
}

/** The lines to show of a file, each once though contexts overlap; `isApart` where some are left out before. */
function lines(matches, hasContext) {
  const shown = new Map();
  if (hasContext) {
    for (const { line, context } of matches) {
      context.before.forEach((text, at) => shown.set(line - context.before.length + at, { text }));
      context.after.forEach((text, at) => shown.set(line + 1 + at, { text }));
    }
  }
  for (const match of matches) shown.set(match.line, { text: match.text, match });
  const inOrder = [...shown].sort(([one], [other]) => one - other).map(([line, each]) => ({ line, ...each }));
  return inOrder.map((each, at) => ({
    ...each,
    isApart: hasContext && at > 0 && inOrder[at - 1].line < each.line - 1,
  }));
}
