/** What the page asks the server: MCP like any client, and the few figures below /page/data that no tool gives. */

const PROTOCOL = "2026-07-28";
const CLIENT = { name: "carrel-page", version: "1" };
const RETURN = "carrel.return";
const SIGNED_OUT = "carrel.signed-out";
const PATIENCE_MS = 5000;

/** The server did not answer. */
export class Unreachable extends Error {
  constructor() {
    super("The server is not responding. Is it still running?");
  }
}

/** The token is no longer taken; the sign-in page is on its way. */
export class SignedOut extends Error {
  constructor() {
    super("You are signed out. Reload the page to sign in.");
  }
}

/** `/page/data` said no; the message says why. */
export class DataError extends Error {
  /** @param {string} message @param {string} code @param {number} status */
  constructor(message, code, status) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/**
 * @typedef {{method: string, path: string, headers: Record<string, string>, body: any}} Request
 * @typedef {{status: number, statusText: string, headers: Record<string, string>, text: string, body: any, bytes: number}} Response
 * @typedef {{ok: boolean, value: any, text: string, ms: number, request: Request, response: Response}} Answer
 * @typedef {{name: string, title?: string, description?: string, inputSchema: any, annotations?: any}} Tool
 */

let calls = 0;
/** @type {Map<string, Promise<Tool[]>>} */
const tools = new Map();

/** The tools of a toolset, asked for once. @param {string} toolset @returns {Promise<Tool[]>} */
export function listTools(toolset) {
  let listed = tools.get(toolset);
  if (!listed) {
    listed = allTools(toolset);
    listed.catch(() => tools.delete(toolset));
    tools.set(toolset, listed);
  }
  return listed;
}

async function allTools(toolset) {
  const found = [];
  let cursor;
  do {
    calls += 1;
    const { response } = await send(toolRequest(calls, toolset, "tools/list", cursor ? { cursor } : {}));
    const result = response.body?.result;
    if (!result) throw new DataError(refusal(response), "mcp", response.status);
    found.push(...result.tools);
    cursor = result.nextCursor;
  } while (cursor);
  return found;
}

/** The request that the next call would be. @param {string} toolset @param {string} name @param {object} args @returns {Request} */
export function callRequest(toolset, name, args) {
  return toolRequest(calls + 1, toolset, "tools/call", { name, arguments: args }, { "Mcp-Name": name });
}

/**
 * Call a tool. What a tool refuses is an answer with `ok` false and its words in `text`; this throws only where there is
 * no answer.
 *
 * @param {string} toolset
 * @param {string} name
 * @param {object} args
 * @returns {Promise<Answer>}
 */
export async function callTool(toolset, name, args) {
  const request = callRequest(toolset, name, args);
  calls += 1;
  const { response, ms } = await send(request);
  const result = response.body?.result;
  if (!result) return { ok: false, value: null, text: refusal(response), ms, request, response };
  const text = (result.content ?? []).map((part) => part.text ?? "").join("\n");
  const value = result.structuredContent ?? parsed(text) ?? text;
  return { ok: !result.isError, value, text, ms, request, response };
}

/** Figures for the page. @param {string} path @param {Record<string, any>} [params] @param {AbortSignal} [signal] */
export async function data(path, params = {}, signal) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  const answer = await reached(fetch(`/page/data/${path}${query && "?"}${query}`, { signal }));
  const body = parsed(await reached(answer.text()));
  if (answer.ok && body) return body;
  const said = body?.error ?? {};
  throw new DataError(said.message ?? `The server responded with status ${answer.status}.`, said.code ?? "unknown", answer.status);
}

/** Where to go on after signing in; told once. */
export function placeBeforeSigningIn() {
  const place = sessionStorage.getItem(RETURN);
  sessionStorage.removeItem(RETURN);
  return place;
}

/** @returns {Request} */
function toolRequest(id, toolset, method, params, headers = {}) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return {
    method: "POST",
    path: `/${toolset}/mcp`,
    headers: {
      Accept: "application/json, text/event-stream",
      "Content-Type": "application/json",
      "MCP-Protocol-Version": PROTOCOL,
      "Mcp-Method": method,
      ...headers,
    },
    body: { jsonrpc: "2.0", id, method, params: { ...params, _meta: meta } },
  };
}

async function send({ method, path, headers, body }) {
  const began = performance.now();
  const answer = await reached(fetch(path, { method, headers, body: JSON.stringify(body) }));
  const text = await reached(answer.text());
  const ms = performance.now() - began;
  const response = {
    status: answer.status,
    statusText: answer.statusText,
    headers: Object.fromEntries(answer.headers),
    text,
    body: parsed(text) ?? null,
    bytes: new TextEncoder().encode(text).length,
  };
  return { response, ms };
}

/** Wait for the network; a 401 leads to the sign-in page. */
async function reached(promise) {
  let answer;
  try {
    answer = await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (answer.status === 401) {
    leave();
    throw new SignedOut();
  }
  return answer;
}

/** Load `/` anew, unless that was tried just now and did not help. */
function leave() {
  const last = Number(sessionStorage.getItem(SIGNED_OUT) ?? 0);
  if (Date.now() - last < PATIENCE_MS) return;
  sessionStorage.setItem(SIGNED_OUT, String(Date.now()));
  sessionStorage.setItem(RETURN, location.hash);
  location.reload();
}

function refusal({ status, text, body }) {
  const said = body?.error?.message ?? body?.error_description ?? body?.error ?? text;
  return typeof said === "string" && said ? said : `The server responded with status ${status}.`;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
