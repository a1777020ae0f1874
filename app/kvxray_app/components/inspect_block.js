// One block in full. State, references and slots come from the same table as the map, so the two cannot disagree; holders,
// hash and history are asked for over HTTP and asked again when the block changes.

import { referencesOf, slotsOf, stateOf, swatchOf } from "./block_facts.js";
import { ChainButton } from "./chain_button.js";
import { el, setAttribute, setText } from "./elements.js";
import { NO_DATA, age, count, timeOfDay } from "./format.js";
import { FULL } from "./frames.js";
import { Answers } from "./inspect_answers.js";
import { Events } from "./inspect_events.js";
import { SubjectFindings } from "./inspect_findings.js";
import { Facts, Freshness, Holders } from "./inspect_lists.js";
import { NULL_BLOCK, leakWords, noHashWords, noParentWords } from "./inspector_words.js";

const PAUSE_MS = 400;
const FACTS = ["References", "Slots written", "Allocated", "Last event", "Hash", "Parent hash", "Medium"];

export class InspectBlock {
  /** `frame`: the inspector, as `inspector.js` describes it. */
  constructor(frame) {
    this.frame = frame;
    this.block = null;
    this.details = new Answers(frame.feed, () => frame.requestDraw(), PAUSE_MS);
    this.swatch = el("i", { class: "swatch" });
    this.state = el("span");
    this.meaning = el("div", { class: "muted meaning" });
    this.facts = new Facts(frame, FACTS);
    this.chain = new ChainButton(frame.feed, frame.selection);
    this.freshness = new Freshness("Holders");
    this.holders = new Holders(frame);
    this.findings = new SubjectFindings(frame);
    this.events = new Events(frame, "block");
    this.node = el(
      "div",
      {},
      el("div", { class: "state" }, this.swatch, this.state),
      this.meaning,
      this.facts.node,
      this.chain.node,
      this.freshness.node,
      this.holders.node,
      this.findings.node,
      el("h3", {}, "History, newest first"),
      this.events.node,
    );
  }

  get title() {
    return `Block ${count(this.block)}`;
  }

  get answers() {
    return [this.details];
  }

  /** Why there is nothing to show of the block, "" when there is. */
  get refusal() {
    if (this.frame.feed.table?.isNull(this.block)) return NULL_BLOCK;
    return this.details.refused ? this.details.problem : "";
  }

  /** Be about a block, null: about none. */
  turnTo(block) {
    this.block = block;
    this.details.turnTo(block === null ? null : `blocks/${block}`);
    if (block === null) this.chain.draw(null, null);
  }

  blocksChanged(ids) {
    if (ids === null || ids.includes(this.block)) this.details.again();
  }

  summed() {
    this.details.follow();
  }

  draw() {
    const { table } = this.frame.feed;
    const known = table && this.block < table.numBlocks ? table : null;
    this.#drawNow(known);
    this.#drawDetails(known);
  }

  // What the map knows of it at this moment.
  #drawNow(table) {
    const state = table ? stateOf(table, this.block) : "unknown";
    const leaked = table?.isLeaked(this.block) ?? false;
    const looks = table ? swatchOf(table, this.block) : { "data-state": state };
    for (const name of ["data-state", "data-leaks"]) setAttribute(this.swatch, name, looks[name]);
    setText(this.state, leaked ? `${state}, leaked` : state);
    setAttribute(this.state, "class", leaked ? "leaked" : null);
    const { words } = this.frame.data;
    setText(this.meaning, leaked ? leakWords(this.details.answer, words.leaked) : words.states[state]);
    const slots = table ? slotsOf(table, this.block) : null;
    this.facts.set("References", table ? referencesOf(table, this.block) : NO_DATA);
    this.facts.set("Slots written", slots === null ? NO_DATA : `${slots} of ${table.blockSize}`);
  }

  #drawDetails(table) {
    const { answer } = this.details;
    this.facts.set("Allocated", this.#ago(answer?.age_s, answer?.allocated_at));
    this.facts.set("Last event", this.#ago(answer?.idle_s, answer?.last_event_at));
    this.facts.setHash("Hash", answer?.block_hash, noHashWords(answer));
    this.facts.setHash("Parent hash", answer?.parent_block_hash, noParentWords(answer));
    this.facts.set("Medium", answer ? (answer.medium ?? "the engine does not say") : NO_DATA);
    this.chain.draw(this.block, answer?.block_hash);
    this.findings.draw(({ blocks }) => blocks.includes(this.block), answer?.findings);
    this.freshness.draw(this.frame.feed, this.details, this.#isBehind(table));
    this.holders.draw(answer?.holders ?? null);
    this.events.draw(answer?.history ?? null);
  }

  // The answer is older than the map, or was given by another life of the engine.
  #isBehind(table) {
    const { answer } = this.details;
    if (!table || !answer) return false;
    const told = answer.ref_cnt.value;
    const ref = told === null ? table.ref[this.block] : Math.min(told, FULL);
    return answer.state !== stateOf(table, this.block) || ref !== table.ref[this.block];
  }

  #ago(figure, instant) {
    const { answer, moment, at } = this.details;
    if (!answer) return NO_DATA;
    if (!instant) return answer.state === "unknown" ? "not known" : "never in this epoch";
    if (figure?.value == null) return timeOfDay(instant);
    const past = moment !== undefined;
    const since = past ? figure.value : figure.value + (Date.now() - at) / 1000;
    return `${timeOfDay(instant)}, ${age(since)} ${past ? "before" : "ago"}`;
  }
}
