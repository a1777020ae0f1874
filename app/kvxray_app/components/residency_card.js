// What is known of the cell that is pointed at: from the map at once, its hash when the pointer rests.

import { getJson } from "./address.js";
import { el } from "./elements.js";
import { age, count, plural, shortHash } from "./format.js";
import { MAYBE, UNKNOWN_TIME, UNREACHABLE } from "./residency_frame.js";
import { groupNames, mediaNames } from "./residency_look.js";

const REST_MS = 180;

export class ResidencyCard {
  /** `changed()`: the hash is known now. */
  constructor(feed, changed) {
    Object.assign(this, { feed, changed });
    this.node = el("div", { class: "card", hidden: true });
    this.ordinal = null;
    this.hash = null;
  }

  /** The cell `at` of a frame, whose box on the stage is [x, y, w, h]; null: none is pointed at. */
  draw(frame, at, box, stage) {
    this.node.hidden = at === null;
    if (at === null) return this.#ask(null);
    this.#ask(frame.ordinal[at]);
    const [head, ...lines] = cellWords(frame, at, this.feed.summary?.descriptor);
    this.node.replaceChildren(
      el("div", { class: "card-head" }, el("b", {}, this.hash ? shortHash(this.hash) : head)),
      ...(this.hash ? [head, ...lines] : lines).map((line) => el("div", {}, line)),
    );
    const [x, y, w, h] = box;
    const { offsetWidth: wide, offsetHeight: high } = this.node;
    const left = x + w + 10 + wide > stage.clientWidth ? x - wide - 10 : x + w + 10;
    const top = Math.min(Math.max(0, y + Math.min(h, 60) / 2 - high / 2), stage.clientHeight - high);
    Object.assign(this.node.style, { left: `${Math.max(0, left)}px`, top: `${Math.max(0, top)}px` });
  }

  close() {
    this.#ask(null);
  }

  #ask(ordinal) {
    if (ordinal === this.ordinal) return;
    clearTimeout(this.timer);
    this.asking?.abort();
    Object.assign(this, { ordinal, hash: null });
    if (ordinal !== null) this.timer = setTimeout(() => this.#fetch(ordinal), REST_MS);
  }

  async #fetch(ordinal) {
    this.asking = new AbortController();
    const query = this.feed.query({ ordinal });
    const answer = await getJson("residency/hash", query, this.asking.signal).catch(() => null);
    if (!answer || ordinal !== this.ordinal) return;
    this.hash = answer.hash;
    this.changed();
  }
}

/** A cell in words, line by line. */
export function cellWords(frame, at, descriptor) {
  const place = frame.place[at];
  const medium = mediaNames(descriptor)[place >> 8] ?? "medium not told";
  const group = (descriptor?.groups ?? []).length > 1 ? `group ${groupNames(descriptor)[place & 0xff]}` : "";
  const before = frame.depth[at];
  return [
    before ? `${plural(before, "block")} before it` : "first of its chain",
    [medium, group].filter(Boolean).join("  ·  "),
    `here ${sinceWords(frame.age[at])}  ·  last heard of ${sinceWords(frame.idle[at], " ago")}`,
    frame.reuses[at] ? `reuse reported ${frame.reuses[at] === 65535 ? "65,535 or more" : count(frame.reuses[at])} times` : "",
    frame.certainty[at] === MAYBE ? "maybe still here: repeats may have been reuse" : "",
    frame.flags[at] & UNREACHABLE ? "unreachable: a block before it is gone" : "",
  ].filter(Boolean);
}

const sinceWords = (hundredths, ago = "") =>
  hundredths === UNKNOWN_TIME ? "since when is not known" : `${age(hundredths / 100)}${ago}`;
