// One prefix, named by the hash of its last block: the blocks that carry it, who holds them, the chain up to it and what
// goes on from it; and every stay of the hash in the cache, with what gave and what took it.

import { ChainButton } from "./chain_button.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { NO_DATA, count, plural, timeOfDay } from "./format.js";
import { Answers } from "./inspect_answers.js";
import { copyFrom } from "./inspect_copy.js";
import { Facts, Freshness, Holders, hashLink } from "./inspect_lists.js";
import { Stays } from "./inspect_stays.js";
import { BlockStrip } from "./inspect_strip.js";
import { prefixWords } from "./inspector_words.js";

const PAUSE_MS = 800;
const STAYS_PAUSE_MS = 2500; // they are read from the event log
const MAX_STAYS = 50;
const FACTS = [
  "Tokens",
  "Holders",
  "Blocks before it",
  "Parent hash",
  "Blocks beyond it",
  "Hits so far",
  "Cached since",
];

export class InspectPrefix {
  /** `frame`: the inspector, as `inspector.js` describes it. */
  constructor(frame) {
    this.frame = frame;
    this.hash = null;
    const changed = () => frame.requestDraw();
    this.details = new Answers(frame.feed, changed, PAUSE_MS);
    this.stays = new Answers(frame.feed, changed, STAYS_PAUSE_MS);
    this.meaning = el("div", { class: "muted meaning" });
    this.whole = el("span", { class: "mono whole" });
    const copyHash = () => copyFrom(copy, this.hash);
    const copy = el("button", { class: "quiet-button", onclick: copyHash }, "Copy hash");
    this.facts = new Facts(frame, FACTS);
    this.chain = new ChainButton(frame.feed, frame.selection);
    this.freshness = new Freshness("Blocks that carry it");
    this.carriers = new BlockStrip(frame, "Blocks that carry the hash");
    this.holders = new Holders(frame);
    this.before = new BlockStrip(frame, "The chain up to it");
    this.beforeHead = el("h3", {}, "The chain up to it, from its beginning");
    this.branches = el("ul", { class: "branches" });
    this.branchesHead = el("h3", {}, "What goes on from it");
    this.stored = new Freshness("Its stays in the cache, newest first");
    this.history = new Stays(frame);
    this.node = el(
      "div",
      {},
      this.meaning,
      el("div", { class: "hash-line" }, this.whole, copy),
      this.facts.node,
      this.chain.node,
      this.freshness.node,
      this.carriers.node,
      el("h3", {}, "Holders"),
      this.holders.node,
      this.beforeHead,
      this.before.node,
      this.branchesHead,
      this.branches,
      this.stored.node,
      this.history.node,
    );
  }

  get title() {
    return "Prefix";
  }

  get answers() {
    return [this.details, this.stays];
  }

  get refusal() {
    return this.details.refused ? this.details.problem : "";
  }

  turnTo(hash) {
    this.hash = hash;
    this.details.turnTo(hash && `prefixes/${hash}`, { limit: 120 });
    this.stays.turnTo(hash && `hashes/${hash}`, { limit: MAX_STAYS });
    if (hash === null) this.chain.draw(null, null);
  }

  /** Any block may come to carry the hash, or to go on from it. */
  blocksChanged() {
    for (const answers of this.answers) answers.again();
  }

  summed() {
    for (const answers of this.answers) answers.follow();
  }

  draw() {
    const { answer } = this.details;
    const stays = this.stays.answer?.stays ?? null;
    setText(this.meaning, prefixWords(answer, this.frame.feed.isPast));
    setText(this.whole, this.hash);
    this.#drawFacts(answer, stays);
    this.chain.draw(answer?.blocks[0] ?? null, answer?.blocks.length ? this.hash : null);
    this.freshness.draw(this.frame.feed, this.details, false);
    this.carriers.draw(answer?.blocks ?? []);
    this.holders.draw(answer?.holders ?? null);
    this.before.draw((answer?.before ?? []).map((link) => link.block_id));
    for (const node of [this.beforeHead, this.before.node])
      setAttribute(node, "hidden", !answer?.before.length);
    this.#drawBranches(answer?.branches ?? []);
    this.stored.drawTime(this.stays);
    this.history.draw(stays ?? (this.stays.refused ? [] : null));
  }

  #drawFacts(answer, stays) {
    const isThere = Boolean(answer?.blocks.length);
    this.facts.setFigure("Tokens", answer?.tokens, count);
    this.facts.set("Holders", isThere ? count(answer.holders.length) : NO_DATA);
    const open = isThere && !answer.is_whole ? " or more" : "";
    this.facts.set("Blocks before it", isThere ? `${count(answer.num_before)}${open}` : NO_DATA);
    this.facts.setHash("Parent hash", answer?.before.at(-1)?.block_hash, noParent(answer));
    this.facts.set("Blocks beyond it", isThere ? this.#beyond(answer) : NO_DATA);
    this.facts.set("Hits so far", hitsOf(stays));
    const current = stays?.find((stay) => !stay.until && stay.lost_after === null);
    this.facts.set("Cached since", isThere ? sinceWords(stays, current) : NO_DATA);
  }

  // Not all branches may be listed: their blocks add up to what there is only then.
  #beyond({ branches, num_branches: all }) {
    const blocks = branches.reduce((sum, branch) => sum + branch.blocks, 0);
    if (!all) return "0";
    const more = branches.length < all ? " or more" : "";
    return `${count(blocks)}${more} in ${plural(all, "branch", "branches")}`;
  }

  #drawBranches(branches) {
    for (const node of [this.branchesHead, this.branches]) setAttribute(node, "hidden", !branches.length);
    const key = (branch) => `${branch.block_hash} ${branch.block_id}`;
    reconcile(this.branches, branches, key, (branch) => this.#branch(branch), patchBranch);
  }

  #branch({ block_hash: hash, block_id: block }) {
    const open = () => this.frame.selection.selectBlock(block);
    const link = hash ? hashLink(this.frame, hash) : el("span", { class: "faint" }, "hash not known");
    const to = el("button", { class: "link", onclick: open }, `block ${count(block)}`);
    return el("li", {}, link, to, el("span", { class: "muted status" }));
  }
}

function patchBranch(node, branch) {
  const held = branch.ref_cnt ? `, held by ${count(branch.ref_cnt)}` : "";
  setText(node.lastChild, `${plural(branch.blocks, "block")}${held}`);
}

function noParent(answer) {
  if (!answer?.blocks.length) return NO_DATA;
  return answer.is_whole ? "none, first block of its prompt" : "not in the cache";
}

// What messages are missing after, nobody knows: what is counted until then is not all.
function hitsOf(stays) {
  if (!stays?.length) return stays ? "not stored" : NO_DATA;
  const hits = stays.reduce((sum, stay) => sum + stay.hits, 0);
  const more = stays.length === MAX_STAYS || stays.some((stay) => stay.lost_after !== null);
  return `${count(hits)}${more ? " or more" : ""}`;
}

function sinceWords(stays, current) {
  if (!stays) return NO_DATA;
  return current ? timeOfDay(current.since.time) : "not stored";
}
