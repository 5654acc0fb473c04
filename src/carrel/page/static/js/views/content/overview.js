/** A project as a whole: how it does in search, and which claims are about to expire. */

import { h } from "../../dom.js";
import { expiringPanel } from "./blocks.js";
import { performancePanel } from "./performance.js";

export async function overview(view) {
  return [
    h("h2", { class: "unseen", tabindex: -1 }, view.project.name),
    performancePanel(view, null),
    expiringPanel(view),
  ];
}
