/**
 * Where a pattern matches in a line that the server found. The server's engine takes time in proportion to the line; the
 * browser's can take forever, so that it is only given patterns that cannot make it.
 */

const CUT = "... [truncated]";

/**
 * @param {string} text a line
 * @param {number} column of the first match, in characters from 1
 * @param {string} pattern
 * @param {boolean} isCased
 * @returns {{text: string, isMatch: boolean}[]} the line in pieces
 */
export function pieces(text, column, pattern, isCased) {
  const start = [...text].slice(0, column - 1).join("").length;
  const found = spans(text, start, compiled(pattern, isCased), cost(pattern));
  const parts = [];
  let end = 0;
  for (const [from, to] of found) {
    if (from > end) parts.push({ text: text.slice(end, from), isMatch: false });
    parts.push({ text: text.slice(from, to), isMatch: true });
    end = to;
  }
  if (end < text.length) parts.push({ text: text.slice(end), isMatch: false });
  return parts;
}

function spans(text, start, regex, worst) {
  if (regex && worst <= 1) {
    const all = [...text.matchAll(regex(""))].filter((match) => match[0]);
    if (all.length) return all.map((match) => [match.index, match.index + match[0].length]);
  }
  if (text.includes(CUT)) return [];
  if (regex && worst === 2) {
    const sticky = regex("y");
    sticky.lastIndex = start;
    const length = sticky.exec(text)?.[0].length;
    if (length) return [[start, start + length]];
  }
  const word = /^(?:[\p{L}\p{N}_]+|.)/u.exec(text.slice(start));
  return word ? [[start, start + word[0].length]] : [];
}

/**
 * How many ways the browser may have to go back and try another: each repetition, option and group is one. A repeated
 * group can multiply them without end.
 */
function cost(pattern) {
  const bare = pattern.replace(/\\./gs, "a").replace(/\[\^?\]?[^\]]*\]/g, "a");
  if (/\)[*+?{]/.test(bare)) return Infinity;
  return (
    (bare.match(/[*+?{]/g)?.length ?? 0) -
    (bare.match(/[*+?}]\?|\(\?/g)?.length ?? 0) +
    (bare.match(/\(/g)?.length ?? 0)
  );
}

function compiled(pattern, isCased) {
  for (const unicode of ["u", ""]) {
    const flags = `${isCased ? "" : "i"}${unicode}`;
    try {
      new RegExp(pattern, flags);
      return (sticky) => new RegExp(pattern, `${flags}${sticky || "g"}`);
    } catch {
      // the server's dialect has more than the browser's
    }
  }
  return null;
}
