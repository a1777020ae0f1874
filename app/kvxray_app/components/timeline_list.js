// What is marked in the stretch that the charts show: findings, gaps, restarts and bookmarks, the newest first. A press
// on one leads to its moment.

import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { plural } from "./format.js";
import { whenWords } from "./moment_words.js";
import { colourOf } from "./timeline_layout.js";

const MOST = 50;
const WORDS = { epoch: "restart" };
const MANY = { finding: "findings", gap: "gaps", restart: "restarts", bookmark: "bookmarks" };

export class TimelineList {
  /** `go(mark)`: to its moment. */
  constructor(go) {
    this.go = go;
    this.said = el("span", { class: "muted" });
    this.list = el("ul", { class: "marks scroll" });
    const head = el("div", { class: "panel-head" }, el("h2", {}, "In this stretch"), this.said);
    this.node = el("section", { class: "panel listed", "aria-label": "In this stretch" }, head, this.list);
  }

  draw(marks, stretch) {
    const inside = marks.filter(({ time }) => stretch && time >= stretch.from && time <= stretch.to);
    const shown = inside.slice(-MOST).reverse();
    setText(this.said, sum(inside, shown.length));
    setAttribute(this.list, "hidden", !shown.length);
    const key = (mark) => `${mark.kind} ${mark.time} ${mark.words}`;
    reconcile(this.list, shown, key, (mark) => this.#row(mark), () => {}); // prettier-ignore
  }

  #row(mark) {
    const button = el(
      "button",
      { onclick: () => this.go(mark) },
      el("span", { class: "when muted" }, whenWords(mark.time)),
      el("span", { class: "kind" }, nameOf(mark)),
      el("span", { class: "words" }, mark.words),
    );
    setStyle(button, "--mark", `var(--${colourOf(mark)})`);
    return el("li", {}, button);
  }
}

const nameOf = ({ kind }) => WORDS[kind] ?? kind;

function sum(marks, shown) {
  if (!marks.length) return "Nothing was found, lost or marked.";
  const counts = new Map();
  for (const mark of marks) counts.set(nameOf(mark), (counts.get(nameOf(mark)) ?? 0) + 1);
  const parts = [...counts].map(([name, many]) => plural(many, name, MANY[name]));
  return parts.join(", ") + (shown < marks.length ? ` · the newest ${shown} are listed` : "");
}
