// One block in full. State, references and slots come from the same table as the map, so the two cannot
// disagree; holders, hash and history are asked for over HTTP and asked again when the block changes. While
// they lag behind, the panel says so.

import { getJson } from "./address.js";
import { referencesOf, slotsOf, stateOf, swatchOf } from "./block_facts.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { eventWords } from "./event_words.js";
import { NO_DATA, age, count, shortHash, timeOfDay } from "./format.js";
import { FULL } from "./frames.js";
import { LiveView, defineLiveComponent } from "./live_view.js";

const PAUSE_MS = 400;
const NULL_BLOCK = "This is the null block: the engine keeps it aside, hands it out to nobody and counts it nowhere.";

class Inspector extends LiveView {
  constructor(context) {
    super(context);
    this.block = null;
    this.details = null; // the answer of /api/blocks/{id}, with the table's seq when it was asked for
    this.problem = "";
    this.#build();
    this.listen(
      this.feed.subscribe("blocks", (ids) => this.#blocksChanged(ids)),
      this.feed.subscribe("summary", () => this.requestDraw()),
      this.feed.subscribe("status", () => this.requestDraw()),
      this.selection.subscribe((what) => what === "block" && this.#select()),
      () => this.#stop(),
    );
    this.#select();
  }

  draw() {
    const { table } = this.feed;
    const known = table && this.block !== null && this.block < table.numBlocks;
    const refusal = this.#refusal(table);
    setAttribute(this.empty, "hidden", this.block !== null);
    setAttribute(this.body, "hidden", this.block === null || refusal !== "");
    setText(this.problemLine, this.block === null ? "" : refusal || this.problem);
    setAttribute(this.problemLine, "data-alone", refusal !== "");
    setAttribute(this.close_, "hidden", this.block === null);
    setText(this.title, this.block === null ? "Inspector" : `Block ${count(this.block)}`);
    if (this.block === null || refusal) return;
    this.#drawNow(known ? table : null);
    this.#drawDetails(known ? table : null);
  }

  #build() {
    this.title = el("h2");
    this.close_ = el(
      "button",
      {
        class: "quiet-button close",
        "aria-label": "Close the inspector",
        onclick: () => this.selection.selectBlock(null),
      },
      "×",
    );
    this.empty = el(
      "div",
      { class: "note" },
      el("b", {}, "No block selected"),
      "Click a block on the map, or focus the map, move with the arrow keys and press Enter.",
    );
    this.swatch = el("i", { class: "swatch" });
    this.state = el("span");
    this.meaning = el("div", { class: "muted meaning" });
    this.facts = {};
    const facts = el(
      "dl",
      {},
      ...["References", "Slots written", "Allocated", "Last event", "Hash", "Parent hash", "Medium"].flatMap(
        (name) => this.#fact(name),
      ),
    );
    this.problemLine = el("div", { class: "problem", role: "status" });
    this.freshness = el("span", { class: "freshness" });
    this.holders = el("ul", { class: "holders" });
    this.nobody = el("div", { class: "faint" }, "Nobody holds it.");
    this.history = el("ol", { class: "events" });
    this.body = el(
      "div",
      { class: "body scroll", tabindex: "0", "aria-label": "Details of the block" },
      el("div", { class: "state" }, this.swatch, this.state),
      this.meaning,
      facts,
      el("h3", {}, "Holders", this.freshness),
      this.holders,
      this.nobody,
      el("h3", {}, "History, newest first"),
      this.history,
    );
    this.root.append(
      el(
        "section",
        { class: "panel inspector", "aria-label": "Inspector" },
        el("div", { class: "panel-head" }, this.title, this.close_),
        this.empty,
        this.problemLine,
        this.body,
      ),
    );
  }

  #fact(name) {
    const value = el("dd");
    this.facts[name] = value;
    return [el("dt", {}, name), value];
  }

  #select() {
    this.block = this.selection.block;
    this.details = null;
    this.problem = "";
    this.refused = false;
    this.#stop();
    if (this.block !== null) this.#ask();
    this.requestDraw();
  }

  #blocksChanged(ids) {
    if (this.block === null) return;
    if (ids === null || ids.includes(this.block)) this.#askSoon();
    this.requestDraw();
  }

  #askSoon() {
    if (this.asking) this.again = true;
    else
      this.timer ??= setTimeout(
        () => this.#ask(),
        Math.max(0, PAUSE_MS - (performance.now() - (this.askedAt ?? -PAUSE_MS))),
      );
  }

  async #ask() {
    this.timer = null;
    this.again = false;
    this.askedAt = performance.now();
    const asking = (this.asking = new AbortController());
    try {
      const seq = this.feed.table?.seq ?? 0;
      const answer = await getJson(`blocks/${this.block}`, { source: this.data.source }, asking.signal);
      if (asking !== this.asking) return;
      this.details = { ...answer, seq, at: Date.now() };
      this.problem = "";
      this.refused = false;
    } catch (error) {
      if (asking !== this.asking || error.name === "AbortError") return;
      this.refused = error.status > 0; // without any answer what we had stays, marked as old
      if (this.refused) this.details = null;
      this.problem = error.message;
    }
    this.asking = null;
    if (this.again) this.#askSoon();
    this.requestDraw();
  }

  #stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.asking?.abort();
    this.asking = null;
    this.again = false;
  }

  // Why there is nothing to show of the block, "" when there is.
  #refusal(table) {
    if (this.block !== null && table?.isNull(this.block)) return NULL_BLOCK;
    return this.refused ? this.problem : "";
  }

  // What the map knows of it at this moment.
  #drawNow(table) {
    const state = table ? stateOf(table, this.block) : "unknown";
    const leaked = table?.isLeaked(this.block) ?? false;
    const looks = table ? swatchOf(table, this.block) : { "data-state": state };
    for (const name of ["data-state", "data-leaks"]) setAttribute(this.swatch, name, looks[name]);
    setText(this.state, leaked ? `${state}, leaked` : state);
    setAttribute(this.state, "class", leaked ? "leaked" : null);
    setText(this.meaning, leaked ? this.#leakWords() : this.data.words.states[state]);
    const slots = table ? slotsOf(table, this.block) : null;
    setText(this.facts.References, table ? referencesOf(table, this.block) : NO_DATA);
    setText(this.facts["Slots written"], slots === null ? NO_DATA : `${slots} of ${table.blockSize}`);
  }

  #drawDetails(table) {
    const { details } = this;
    setText(this.facts.Allocated, this.#ago(details?.age_s, details?.allocated_at));
    setText(this.facts["Last event"], this.#ago(details?.idle_s, details?.last_event_at));
    this.#drawHash(this.facts.Hash, details?.block_hash, noHashWords(details));
    this.#drawHash(this.facts["Parent hash"], details?.parent_block_hash, noParentWords(details));
    setText(this.facts.Medium, details ? (details.medium ?? "the engine does not say") : NO_DATA);
    const behind = this.#isBehind(table);
    setText(this.freshness, this.problem ? "" : behind ? "catching up" : "up to date");
    setAttribute(this.freshness, "data-behind", behind);
    reconcile(
      this.holders,
      details?.holders ?? [],
      (holder) => `${holder.holder} ${holder.request_id}`,
      (holder) => this.#holder(holder),
      patchHolder,
    );
    setAttribute(this.nobody, "hidden", !details || details.holders.length > 0);
    reconcile(this.history, details?.history ?? [], eventKey, makeEvent, () => {});
  }

  // The answer is older than the map, or was given by another life of the engine.
  #isBehind(table) {
    if (!table) return false;
    if (!this.details) return true;
    const told = this.details.ref_cnt.value;
    const ref = told === null ? table.ref[this.block] : Math.min(told, FULL);
    return this.details.state !== stateOf(table, this.block) || ref !== table.ref[this.block];
  }

  // Which of the holders leak, as far as the newest answer tells.
  #leakWords() {
    const holders = this.details?.holders ?? [];
    const ended = holders.filter((holder) => holder.leaked).length;
    if (!ended) return this.data.words.leaked;
    if (holders.length === 1) return "Its only holder has ended and still holds it.";
    return ended === holders.length
      ? `All ${count(ended)} holders have ended and still hold it.`
      : `${count(ended)} of ${count(holders.length)} holders ${ended === 1 ? "has" : "have"} ended and still ${
          ended === 1 ? "holds" : "hold"
        } it; the others live.`;
  }

  #ago(figure, instant) {
    if (!this.details) return NO_DATA;
    if (!instant) return this.details.state === "unknown" ? "not known" : "never in this epoch";
    if (figure?.value == null) return timeOfDay(instant);
    return `${timeOfDay(instant)}, ${age(figure.value + (Date.now() - this.details.at) / 1000)} ago`;
  }

  #drawHash(node, hex, without) {
    if (hex == null) {
      node.kxHash = null;
      return setText(node, without);
    }
    if (node.kxHash === hex) return;
    node.kxHash = hex;
    const copy = el(
      "button",
      { class: "hash mono", "aria-label": `Copy ${hex}`, onclick: () => this.#copy(copy, hex) },
      shortHash(hex),
    );
    this.tip.describe(copy, () => ["Copy this hash", hex]);
    node.replaceChildren(copy);
  }

  async #copy(button, text) {
    const done = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    setText(button, done ? "Copied" : "Cannot copy here");
    setTimeout(() => setText(button, shortHash(text)), 1200);
  }

  #holder(holder) {
    const show = () => this.selection.selectRequest(holder.request_id);
    return el(
      "li",
      {},
      el("button", { class: "link mono", onclick: show }, holder.request_id),
      el("span", { class: "muted status" }),
      el("span", { class: "badge critical", hidden: true }, "leaked"),
    );
  }
}

// A missing hash is a fact of its own: said in words, not as a dash.
function noHashWords(details) {
  if (!details) return NO_DATA;
  return details.state === "unknown" ? "not known" : "none, not in the prefix cache";
}

function noParentWords(details) {
  if (!details) return NO_DATA;
  return details.block_hash ? "none, first block of its prompt" : "none, as it has no hash";
}

function patchHolder(node, holder) {
  const kind = holder.kind && holder.kind !== "request" ? `${holder.kind}, ` : "";
  setText(node.children[1], `${kind}${holder.status}`);
  setAttribute(node.children[2], "hidden", !holder.leaked);
}

const eventKey = (event) => `${event.seq} ${event.kind}`;

function makeEvent(event) {
  const words = [event.request_id, eventWords(event)].filter(Boolean).join(" · ");
  return el(
    "li",
    {},
    el("time", { class: "faint mono" }, timeOfDay(event.time, true)),
    el("div", {}, el("span", {}, event.kind), el("div", { class: "faint" }, words)),
  );
}

export const mount = defineLiveComponent("inspector", Inspector);
