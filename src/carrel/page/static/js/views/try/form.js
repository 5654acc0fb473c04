/** A form made from a JSON Schema of type object, and what was filled in. */

import { h } from "../../dom.js";
import { faultsOf, hintsOf, kindOf } from "./schema.js";

/** Arguments that are rarely one line. */
const LONG = /(^|_)(content|body|description|text)$/;

/**
 * @param {any} schema
 * @param {Record<string, any>} args what is filled in already
 * @param {() => void} changed
 */
export function schemaForm(schema, args, changed) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, property], at) => makeField(`arg-${at}`, name, property, required.has(name), Object.hasOwn(args, name) ? args[name] : undefined));
  const node = h("div", { class: "fields", on: { input: changed, change: changed } }, fields.map((field) => field.node));
  if (!fields.length) node.append(h("p", { class: "muted" }, "This tool takes no arguments."));

  /** `broken`: something cannot be sent at all. `doubtful`: the schema would not have it. */
  function read({ tell = false } = {}) {
    const found = fields.map((field) => ({ field, ...field.read() }));
    if (tell) for (const { field, broken, doubts } of found) field.tell(broken ?? doubts[0] ?? "");
    const values = found.filter(({ value }) => value !== undefined).map(({ field, value }) => [field.name, value]);
    return { args: Object.fromEntries(values), broken: found.some((each) => each.broken), doubtful: found.some((each) => each.doubts.length) };
  }
  return { node, read, focusFault: () => node.querySelector("[aria-invalid=true], .is-wrong input")?.focus() };
}

function makeField(id, name, schema, isRequired, given) {
  const kind = kindOf(schema);
  const control = CONTROLS[kind](id, schema, given, name);
  const fault = h("p", { class: "fault", id: `${id}-fault`, role: "alert" });
  const about = h("p", { class: "hint", id: `${id}-hint` }, schema.description);
  const facts = h("span", { class: "facts muted" }, hintsOf(schema).join(" · "));
  const mark = isRequired ? h("span", { class: "required" }, "required") : null;
  const isGroup = kind === "choices";
  const label = h(isGroup ? "legend" : "label", isGroup ? {} : { for: id }, h("code", null, name), " ", mark, " ", facts);
  const node = h(isGroup ? "fieldset" : "div", { class: "field", data: { arg: name } }, label, control.node, schema.description && about, fault);
  if (!isGroup) {
    control.node.id = id;
    control.node.setAttribute("aria-describedby", `${id}-hint ${id}-fault`);
    if (isRequired) control.node.setAttribute("aria-required", "true");
  }

  function read() {
    const { value, broken } = control.read();
    if (broken) return { value: undefined, broken, doubts: [] };
    if (value === undefined) return { value, broken: null, doubts: isRequired ? ["Required"] : [] };
    return { value, broken: null, doubts: faultsOf(schema, value) };
  }
  function tell(text) {
    fault.textContent = text;
    if (isGroup) node.classList.toggle("is-wrong", Boolean(text));
    else if (text) control.node.setAttribute("aria-invalid", "true");
    else control.node.removeAttribute("aria-invalid");
  }
  return { name, node, read, tell };
}

/** How a value of each kind is written and read back; `undefined` is not given. */
const CONTROLS = {
  text(_id, schema, given, name) {
    const props = { class: "input", dir: "auto", spellcheck: "false", autocomplete: "off", placeholder: placeholder(schema), prop: { value: given ?? "" } };
    const node = schema.maxLength > 300 || LONG.test(name) ? h("textarea", { ...props, rows: 3 }) : h("input", { ...props, type: "text" });
    return { node, read: () => ({ value: node.value === "" ? undefined : node.value }) };
  },

  number(_id, schema, given) {
    const isWhole = [schema.type].flat().includes("integer");
    const node = h("input", { class: "input", type: "number", step: isWhole ? 1 : "any", min: schema.minimum, max: schema.maximum, placeholder: placeholder(schema), prop: { value: given ?? "" } });
    return {
      node,
      read() {
        if (node.validity.badInput) return { broken: "Must be a number" };
        return { value: node.value === "" ? undefined : Number(node.value) };
      },
    };
  },

  choice(_id, schema, given) {
    const values = schema.enum ?? [true, false];
    const unset = schema.default === undefined ? "not set" : `not set (default ${JSON.stringify(schema.default)})`;
    const chosen = values.findIndex((value) => value === given);
    const node = h("select", { class: "input" }, h("option", { value: -1 }, unset), values.map((value, at) => h("option", { value: at, selected: at === chosen }, String(value))));
    return { node, read: () => ({ value: values[Number(node.value)] }) };
  },

  choices(id, schema, given) {
    const boxes = schema.items.enum.map((value, at) => [value, h("input", { type: "checkbox", id: `${id}-${at}`, checked: Array.isArray(given) && given.includes(value) })]);
    const node = h("div", { class: "choices" }, boxes.map(([value, box]) => h("label", null, box, h("code", null, String(value)))));
    const chosen = () => boxes.filter(([, box]) => box.checked).map(([value]) => value);
    return { node, read: () => ({ value: chosen().length ? chosen() : undefined }) };
  },

  lines(_id, _schema, given) {
    const node = h("textarea", { class: "input", rows: 2, dir: "auto", spellcheck: "false", placeholder: "One per line", prop: { value: Array.isArray(given) ? given.join("\n") : "" } });
    const lines = () => node.value.split("\n").filter((line) => line !== "");
    return { node, read: () => ({ value: lines().length ? lines() : undefined }) };
  },

  json(_id, schema, given) {
    const node = h("textarea", { class: "input mono", rows: 3, spellcheck: "false", placeholder: placeholder(schema) ?? "JSON", prop: { value: given === undefined ? "" : JSON.stringify(given, null, 2) } });
    return {
      node,
      read() {
        if (node.value.trim() === "") return { value: undefined };
        try {
          return { value: JSON.parse(node.value) };
        } catch (error) {
          return { broken: `Invalid JSON: ${error.message}` };
        }
      },
    };
  },
};

function placeholder(schema) {
  return schema.default === undefined ? null : typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default);
}
