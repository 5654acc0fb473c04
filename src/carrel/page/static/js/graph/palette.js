/** The page's colours, for what is painted by hand. */

export const GROUPS = 6;

/** @param {Element} element */
export function palette(element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    groups: Array.from({ length: GROUPS }, (_, group) => colour(`--kind-${group}`)),
    surface: colour("--surface"),
    text: colour("--text"),
    muted: colour("--muted"),
    accent: colour("--accent"),
    bad: colour("--bad"),
    font: style.fontFamily,
  };
}
