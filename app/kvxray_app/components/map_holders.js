// Who holds the blocks that are chosen: those who alone hold most of them, and how many several hold at once. What is told
// is exact, as of the last answer; blocks of which it is not known are told as that.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";
import { NOBODY, SEVERAL, UNKNOWN_HOLDER } from "./map_details.js";

const NAMED = 3;

export class MapHolders {
  /** `certainties`: what each means, in words. */
  constructor(certainties) {
    this.words = el("span");
    this.mark = el("i", { class: "sure", role: "img", "aria-label": "exact", title: certainties.exact });
    this.list = el("span", { class: "range-holders" });
    this.node = el("div", { class: "range-held" }, this.mark, this.words, this.list);
  }

  /** `range`: ChosenBlocks; `details`: a MapDetails. */
  draw(table, range, details) {
    const lack = details.lack("holder");
    const held = lack ? null : countHolders(table, range, details);
    setAttribute(this.mark, "hidden", held === null);
    setText(this.words, lack || (held.total ? "held by" : "held by nobody"));
    reconcile(
      this.list,
      held ? entriesOf(held, details) : [],
      ({ key }) => key,
      ({ name }) => el("span", { title: name }, el("span", { class: "holder-name" }, name), " ", el("b")),
      (node, { name, blocks }) => {
        setText(node.firstChild, name);
        setText(node.lastChild, count(blocks));
      },
    );
  }
}

// Blocks by their only holder; `several`, `unknown`: held, but by more than one, or not known by whom.
function countHolders(table, range, { holderOf }) {
  const held = { by: new Map(), several: 0, unknown: 0, total: 0 };
  range.each(table.numBlocks, (block) => {
    if (table.ref[block] === 0 || table.isNull(block)) return;
    const holder = holderOf[block];
    held.total += 1;
    if (holder === SEVERAL) held.several += 1;
    // Held by somebody since the answer, like what is not known: the next one tells by whom.
    else if (holder === NOBODY || holder === UNKNOWN_HOLDER) held.unknown += 1;
    else held.by.set(holder, (held.by.get(holder) ?? 0) + 1);
  });
  return held;
}

function entriesOf({ by, several, unknown }, details) {
  const most = [...by].sort((a, b) => b[1] - a[1]);
  const entries = most.slice(0, NAMED).map(([holder, blocks]) => ({
    key: `holder ${holder}`,
    name: details.nameOf(holder),
    blocks,
  }));
  const others = most.slice(NAMED).reduce((sum, [, blocks]) => sum + blocks, 0);
  if (others) entries.push({ key: "others", name: `${count(most.length - NAMED)} more`, blocks: others });
  if (several) entries.push({ key: "several", name: "several at once", blocks: several });
  if (unknown) entries.push({ key: "unknown", name: "not known", blocks: unknown });
  return entries;
}
