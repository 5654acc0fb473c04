/* A classic script in the head, so that the chosen theme is there before anything is painted. */
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("carrel.theme");
  } catch {
    // storage may be switched off; then the system's theme it is
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
