/** The part of JSON Schema that tools' arguments use: what a value looks like, and what is wrong with one. */

const FORMATS = {
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
  date: /^\d{4}-\d\d-\d\d$/,
  "date-time": /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/i,
};

/** How a value is written in a form. @returns {"text" | "number" | "choice" | "choices" | "lines" | "json"} */
export function kindOf(schema) {
  const types = [schema.type].flat().filter((type) => type !== "null");
  if (types.length !== 1) return schema.enum ? "choice" : "json";
  const [type] = types;
  if (schema.enum || type === "boolean") return "choice";
  if (type === "string") return "text";
  if (type === "integer" || type === "number") return "number";
  if (type === "array" && schema.items?.enum) return "choices";
  return type === "array" && schema.items?.type === "string" ? "lines" : "json";
}

/** What to know before filling it in, each as a few words. @returns {string[]} */
export function hintsOf(schema) {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems } = schema;
  const type = kindOf(schema) === "lines" ? "strings" : [schema.type ?? "any"].flat().join(" or ");
  return [
    schema.format ?? type,
    between(minimum, maximum, ""),
    between(minLength, maxLength, " characters"),
    between(minItems, maxItems, " items"),
    schema.pattern && `matches ${schema.pattern}`,
    schema.default !== undefined && `default ${JSON.stringify(schema.default)}`,
  ].filter(Boolean);
}

function between(low, high, what) {
  if (low === undefined && high === undefined) return null;
  if (low === undefined) return `up to ${high}${what}`;
  return high === undefined ? `${low} or more${what}` : `${low} to ${high}${what}`;
}

/** What the schema has against a value, each as a sentence. @returns {string[]} */
export function faultsOf(schema, value) {
  const length = typeof value === "string" ? [...value].length : null;
  const items = Array.isArray(value) ? value.length : null;
  const type = [schema.type ?? []].flat();
  return [
    type.length && !type.some((each) => isOf(each, value)) && `Must be ${type.join(" or ")}`,
    schema.enum && !schema.enum.includes(value) && "Must be one of the listed values",
    typeof value === "number" && value < schema.minimum && `Must be at least ${schema.minimum}`,
    typeof value === "number" && value > schema.maximum && `Must be at most ${schema.maximum}`,
    length !== null && length < schema.minLength && `Must have at least ${schema.minLength} characters`,
    length !== null && length > schema.maxLength && `Must have at most ${schema.maxLength} characters`,
    length !== null && FORMATS[schema.format]?.test(value) === false && `Must be a valid ${schema.format}`,
    length !== null && schema.pattern && !matches(schema.pattern, value) && `Must match ${schema.pattern}`,
    items !== null && items < schema.minItems && `Must have at least ${schema.minItems} items`,
    items !== null && items > schema.maxItems && `Must have at most ${schema.maxItems} items`,
  ].filter(Boolean);
}

function isOf(type, value) {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  if (type === "object") return value !== null && typeof value === "object" && !Array.isArray(value);
  return typeof value === type;
}

/** A pattern that this engine cannot read is left to the server. */
function matches(pattern, value) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}
