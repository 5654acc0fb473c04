/** Lists that are walked with the arrow keys. One row at a time can be reached with Tab, however long the list is. */

const KEYS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

/**
 * @param {Element} list its rows are the elements marked `data-row`; each row's first link or button is what opens it
 * @param {Element | null} search the field above: down from it goes to the first row, up from the first row to it
 * @param {AbortSignal} signal
 */
export function walkable(list, search, signal) {
  settle(list, rowsOf(list)[0]);
  list.addEventListener("focusin", (event) => settle(list, event.target.closest("[data-row]")), { signal });
  list.addEventListener("keydown", (event) => walk(event, list, search), { signal });
  search?.addEventListener("keydown", (event) => event.key === "ArrowDown" && enter(event, rowsOf(list)[0]), {
    signal,
  });
}

function walk(event, list, search) {
  if (!(event.key in KEYS) || event.altKey || event.ctrlKey || event.metaKey) return;
  const rows = rowsOf(list);
  const here = rows.indexOf(event.target.closest("[data-row]"));
  if (here < 0) return;
  const there = Math.max(-1, Math.min(rows.length - 1, here + KEYS[event.key]));
  if (there < 0 && event.key === "ArrowUp" && search) enter(event, null, search);
  else enter(event, rows[Math.max(0, there)]);
}

function enter(event, row, target = row && controls(row)[0]) {
  if (!target) return;
  event.preventDefault();
  target.focus();
}

function settle(list, current) {
  if (!current) return;
  for (const row of rowsOf(list)) {
    for (const control of controls(row)) control.tabIndex = row === current ? 0 : -1;
  }
}

function rowsOf(list) {
  return [...list.querySelectorAll("[data-row]")];
}

function controls(row) {
  return [...row.querySelectorAll("a, button, summary")];
}
