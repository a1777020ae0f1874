// The stays of a hash in the cache: on which block, since when and until when, how often it was hit, what took it away.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { eventWords } from "./event_words.js";
import { count, plural } from "./format.js";
import { whenWords } from "./moment_words.js";
import { momentLink } from "./inspect_lists.js";

export class Stays {
  constructor(frame) {
    this.frame = frame;
    this.list = el("ol", { class: "events" });
    this.none = el("div", { class: "faint" }, "Nothing is stored of it in this epoch.");
    this.node = el("div", {}, this.list, this.none);
  }

  /** null: not known yet. */
  draw(stays) {
    reconcile(
      this.list,
      stays ?? [],
      (stay) => `${stay.since.seq} ${stay.block_id} ${stay.until?.seq ?? stay.lost_after}`,
      (stay) => this.#make(stay),
      (node, stay) => setText(node.kxHits, `, ${plural(stay.hits, "hit")}`),
    );
    setAttribute(this.none, "hidden", !stays || stays.length > 0);
  }

  #make(stay) {
    const { frame } = this;
    const hits = el("span", { class: "muted" });
    const open = () => frame.selection.selectBlock(stay.block_id);
    const block = el("button", { class: "link", onclick: open }, `block ${count(stay.block_id)}`);
    const since = momentLink(frame, stay.since.seq, whenWords(stay.since.time));
    const end = el("div", { class: "faint" }, ...this.#end(stay));
    const node = el("li", {}, since, el("div", {}, block, hits, end));
    node.kxHits = hits;
    return node;
  }

  #end({ until, lost_after: lost }) {
    if (lost !== null) return ["messages are missing after ", momentLink(this.frame, lost, `event ${lost}`)];
    if (!until) return [this.frame.feed.isPast ? "was there at this moment" : "still there"];
    const cause = [until.kind, eventWords(until)].filter(Boolean).join(", ");
    return [`until ${cause} at `, momentLink(this.frame, until.seq, whenWords(until.time))];
  }
}
