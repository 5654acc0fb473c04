/** The page's colours, for what is painted by hand. */

export const GROUPS = 6;

/** @param {Element} element */
export function palette(element) {
  const style = getComputedStyle(element);
  const probe = element.appendChild(document.createElement("span"));
  const colour = (name) => {
    probe.style.color = `var(${name})`; // whatever it is written as, such as light-dark(), is worked out
    return getComputedStyle(probe).color;
  };
  const colours = {
    groups: Array.from({ length: GROUPS }, (_, group) => colour(`--kind-${group}`)),
    surface: colour("--surface"),
    text: colour("--text"),
    muted: colour("--muted"),
    accent: colour("--accent"),
    bad: colour("--bad"),
    font: style.fontFamily,
  };
  probe.remove();
  return colours;
}
