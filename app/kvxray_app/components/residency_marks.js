// Which cells of the map of cached prefixes an alert is about. The map knows hashes by numbers only, so each hash is asked
// for once.

import { getJson } from "./address.js";

const MOST = 50; // hashes that are asked for; alerts about hashes name a few

export class ResidencyMarks {
  /** `mark`: an AlertMark; `changed()`: called when more is known. */
  constructor(feed, mark, changed) {
    Object.assign(this, { feed, mark, changed, ordinals: new Set(), asked: null });
    this.asking = new AbortController();
    this.exit = mark.subscribe(() => this.#follow());
    this.#follow();
  }

  close() {
    this.exit();
    this.asking.abort();
  }

  /** The marked cells of a frame (null: none yet). */
  cells(frame) {
    if (this.frame === frame && this.known === this.ordinals.size) return this.found;
    Object.assign(this, { frame, known: this.ordinals.size, found: [] });
    if (frame && this.known)
      for (let at = 0; at < frame.count; at++) if (this.ordinals.has(frame.ordinal[at])) this.found.push(at);
    return this.found;
  }

  #follow() {
    const hashes = this.mark.hashes ?? [];
    if (hashes === this.asked) return;
    this.asked = hashes;
    this.ordinals.clear();
    for (const hash of hashes.slice(0, MOST)) this.#ask(hash);
    this.changed();
  }

  // A hash that is not known at this moment is on no map.
  async #ask(hash) {
    const answer = await getJson("residency/hash", this.feed.query({ hash, history: 0 }), this.asking.signal).catch(() => null);
    if (answer?.ordinal == null) return;
    this.ordinals.add(answer.ordinal);
    this.changed();
  }
}
