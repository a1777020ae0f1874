// Who holds the blocks that are chosen: those who alone hold most of them, how many several hold at once, and who of those
// holds most. What is told is exact, as of the last answer; blocks of which it is not known are told as that.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";
import { isOfSeveral, NOBODY, UNKNOWN_HOLDER } from "./map_details.js";

const NAMED = 3;

export class MapHolders {
  /** `certainties`: what each means, in words. */
  constructor(certainties) {
    this.words = el("span");
    this.mark = el("i", { class: "sure", role: "img", "aria-label": "exact", title: certainties.exact });
    this.list = el("span", { class: "range-holders" });
    this.sharers = el("span", { class: "range-holders" });
    const words = el("span", { title: "A block that several hold counts for each of them." }, "shared by");
    this.shared = el("div", { class: "range-held range-shared", hidden: true }, words, this.sharers);
    this.node = el(
      "div",
      { class: "range-by" },
      el("div", { class: "range-held" }, this.mark, this.words, this.list),
      this.shared,
    );
  }

  /** `range`: ChosenBlocks; `details`: a MapDetails. */
  draw(table, range, details) {
    const lack = details.lack("holder");
    const held = lack ? null : countHolders(table, range, details);
    setAttribute(this.mark, "hidden", held === null);
    setText(this.words, lack || (held.total ? "held by" : "held by nobody"));
    drawEntries(this.list, held ? entriesOf(held, details) : []);
    const sharers = held ? entriesOfSharers(held, details) : [];
    setAttribute(this.shared, "hidden", sharers.length === 0);
    drawEntries(this.sharers, sharers);
  }
}

function drawEntries(list, entries) {
  reconcile(
    list,
    entries,
    ({ key }) => key,
    ({ name }) => el("span", { title: name }, el("span", { class: "holder-name" }, name), " ", el("b")),
    (node, { name, blocks }) => {
      setText(node.firstChild, name);
      setText(node.lastChild, blocks === undefined ? "" : count(blocks));
    },
  );
}

// Blocks by their only holder; `several`, `unknown`: held, but by more than one, or not known by whom. `sets`: those of
// several by the holder word of the set that they are of.
function countHolders(table, range, { holderOf }) {
  const held = { by: new Map(), sets: new Map(), several: 0, unknown: 0, total: 0 };
  range.each(table.numBlocks, (block) => {
    if (table.ref[block] === 0 || table.isNull(block)) return;
    const holder = holderOf[block];
    held.total += 1;
    // Held by somebody since the answer, like what is not known: the next one tells by whom.
    if (holder === NOBODY || holder === UNKNOWN_HOLDER) held.unknown += 1;
    else if (isOfSeveral(holder)) {
      held.several += 1;
      add(held.sets, holder, 1);
    } else add(held.by, holder, 1);
  });
  return held;
}

const add = (counts, key, blocks) => counts.set(key, (counts.get(key) ?? 0) + blocks);

const mostFirst = (counts) => [...counts].sort((a, b) => b[1] - a[1]);

function entriesOf({ by, several, unknown }, details) {
  const most = mostFirst(by);
  const entries = namedOf(most, details);
  const others = most.slice(NAMED).reduce((sum, [, blocks]) => sum + blocks, 0);
  if (others) entries.push({ key: "others", name: `${count(most.length - NAMED)} more`, blocks: others });
  if (several) entries.push({ key: "several", name: "several at once", blocks: several });
  if (unknown) entries.push({ key: "unknown", name: "not known", blocks: unknown });
  return entries;
}

// Those who hold most of what several hold. Of blocks of sets that were not told nobody is named.
function entriesOfSharers({ sets }, details) {
  const [shares, left] = [new Map(), new Map()];
  for (const [holder, blocks] of sets) {
    const members = details.together(holder);
    if (members) for (const member of members) add(shares, member, blocks);
    else add(left, "not named", blocks);
  }
  const most = mostFirst(shares);
  if (!most.length) return [];
  const entries = namedOf(most, details);
  if (most.length > NAMED) entries.push({ key: "others", name: `${count(most.length - NAMED)} more` });
  return [...entries, ...[...left].map(([name, blocks]) => ({ key: "left", name, blocks }))];
}

const namedOf = (most, details) =>
  most.slice(0, NAMED).map(([holder, blocks]) => ({
    key: `holder ${holder}`,
    name: details.nameOf(holder),
    blocks,
  }));
