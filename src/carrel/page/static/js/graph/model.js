/**
 * What the view knows of a graph: typed arrays throughout, so that ten thousand nodes cost little.
 *
 * @typedef {object} Model
 * @property {string} source "notes" or "content"
 * @property {{id: string, slug: string, name: string}|null} project
 * @property {number} count
 * @property {string[]} ids
 * @property {string[]} titles
 * @property {Uint8Array} flags BROKEN and ORPHAN
 * @property {Uint8Array} group index into `groups`
 * @property {{name: string, count: number}[]} groups folders of notes, kinds of content
 * @property {Uint32Array} links from, to, from, to ...; each pair once
 * @property {Uint32Array} offsets where each node's neighbours begin in `neighbours`
 * @property {Uint32Array} neighbours
 * @property {Uint8Array} outward 1 where the node links to that neighbour
 * @property {Uint8Array} inward 1 where that neighbour links to the node
 * @property {Uint32Array} ranked all nodes, the best linked first
 * @property {number} broken
 * @property {number} orphans
 * @property {number} total of which `count` are here
 * @property {boolean} truncated
 * @property {Map<string, number>} places each id's node
 * @property {string[]|null} names what each link is called; where there are some, links are drawn with their directions
 * @property {string[]|null} keys what is searched, made for the first search
 */

export const BROKEN = 1;
export const ORPHAN = 2;
const MOST_GROUPS = 6;

/** @returns {Model} */
export function makeModel(data, source) {
  const { nodes } = data;
  const count = nodes.length;
  const links = distinct(data.links, count);
  const { offsets, neighbours, outward, inward } = adjacency(links, count);
  const flags = Uint8Array.from(nodes, (node) => node[3]);
  const ids = nodes.map((node) => node[0]);
  const titles = nodes.map((node) => node[1] || node[0]);
  const { group, groups } = source === "notes" ? byFolder(ids) : byKind(nodes, data.kinds);
  const degree = (node) => offsets[node + 1] - offsets[node];
  const ranked = Uint32Array.from({ length: count }, (_, node) => node).sort((a, b) => degree(b) - degree(a) || a - b);
  return {
    source, project: data.project, count, ids, titles, flags, group, groups,
    links, offsets, neighbours, outward, inward, ranked,
    broken: tally(flags, BROKEN), orphans: tally(flags, ORPHAN),
    total: data.total, truncated: data.truncated,
    places: new Map(ids.map((id, node) => [id, node])),
    names: null,
    keys: null,
  };
}

export function degreeOf(model, node) {
  return model.offsets[node + 1] - model.offsets[node];
}

/** The nodes linked with one, each with the direction of the link. */
export function neighboursOf(model, node) {
  const found = [];
  for (let at = model.offsets[node]; at < model.offsets[node + 1]; at++) {
    found.push({ node: model.neighbours[at], out: model.outward[at] === 1, in: model.inward[at] === 1 });
  }
  return found;
}

/**
 * Nodes whose title or id has every word of the query, those whose title begins with it first.
 * `is:broken` and `is:orphan` ask for the marks.
 */
export function find(model, query) {
  const words = fold(query).split(/\s+/).filter(Boolean);
  const asked = words.filter((word) => word in MARKS).reduce((mask, word) => mask | MARKS[word], 0);
  const parts = words.filter((word) => !(word in MARKS));
  if (!words.length) return [];
  model.keys ??= model.titles.map((title, node) => fold(`${title}\n${model.ids[node]}`));
  const found = [];
  for (const node of model.ranked) {
    const key = model.keys[node];
    if ((model.flags[node] & asked) === asked && parts.every((part) => key.includes(part))) found.push(node);
  }
  const start = parts.join(" ");
  if (!start) return found;
  const begins = (node) => model.keys[node].startsWith(start);
  return [...found.filter(begins), ...found.filter((node) => !begins(node))];
}

const MARKS = { "is:broken": BROKEN, "is:orphan": ORPHAN };

/** Without case and accents. */
function fold(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

function tally(flags, mask) {
  return flags.reduce((sum, flag) => sum + (flag & mask ? 1 : 0), 0);
}

/** Links from a node to itself are no lines, and two nodes have one line between them for each direction at the most. */
function distinct(given, count) {
  const seen = new Set();
  const kept = [];
  for (let at = 0; at < given.length; at += 2) {
    const key = given[at] * count + given[at + 1];
    if (given[at] !== given[at + 1] && !seen.has(key)) {
      seen.add(key);
      kept.push(given[at], given[at + 1]);
    }
  }
  return Uint32Array.from(kept);
}

/** Every node's neighbours, each once, and which way the links go. */
function adjacency(links, count) {
  const starts = new Uint32Array(count + 1);
  for (const node of links) starts[node + 1]++;
  for (let node = 0; node < count; node++) starts[node + 1] += starts[node];
  const others = new Uint32Array(links.length);
  const next = starts.slice(0, count);
  for (let at = 0; at < links.length; at += 2) {
    others[next[links[at]]++] = 2 * links[at + 1];
    others[next[links[at + 1]]++] = 2 * links[at] + 1; // odd: the link comes from there
  }
  const offsets = new Uint32Array(count + 1);
  const neighbours = new Uint32Array(links.length);
  const outward = new Uint8Array(links.length);
  const inward = new Uint8Array(links.length);
  const place = new Int32Array(count).fill(-1);
  let used = 0;
  for (let node = 0; node < count; node++) {
    offsets[node] = used;
    for (let at = starts[node]; at < starts[node + 1]; at++) {
      const other = others[at] >> 1;
      if (place[other] < offsets[node]) neighbours[(place[other] = used++)] = other;
      (others[at] & 1 ? inward : outward)[place[other]] = 1;
    }
  }
  offsets[count] = used;
  return { offsets, neighbours: neighbours.slice(0, used), outward, inward };
}

function byKind(nodes, kinds) {
  const group = Uint8Array.from(nodes, (node) => node[2]);
  return { group, groups: counted(kinds, group) };
}

/** Notes of the folders that have most; what is left is one group of its own. */
function byFolder(ids) {
  const folders = ids.map((id) => (id.includes("/") ? id.slice(0, id.indexOf("/")) : ""));
  const sizes = new Map();
  for (const folder of folders) sizes.set(folder, (sizes.get(folder) ?? 0) + 1);
  const names = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a) || (a < b ? -1 : 1));
  const shown = names.length > MOST_GROUPS ? names.slice(0, MOST_GROUPS - 1) : names;
  const places = new Map(shown.map((name, place) => [name, place]));
  const group = Uint8Array.from(folders, (folder) => places.get(folder) ?? shown.length);
  const labels = shown.map((name) => name || "no folder");
  return { group, groups: counted(names.length > shown.length ? [...labels, "other folders"] : labels, group) };
}

function counted(names, group) {
  const groups = names.map((name) => ({ name, count: 0 }));
  for (const each of group) groups[each].count++;
  return groups;
}
