// Asks the backend for what the feed does not carry of all blocks: once a second while it is wanted and somebody sees the
// page, and once a moment of the past.

import { apiUrl, refusal } from "./address.js";

const PAUSE_MS = 1000;
const PAST_PAUSE_MS = 120; // who scrubs gets the moment they stop at
const MOST_OF_TIME = 4; // pauses are so many times as long as an answer takes: large pools are asked for less often

export class MapAsking {
  /**
   * `on`: {take(buffer): an answer, throws where it makes no sense; forget(): what was told holds no more; changed():
   * there is an answer, or a `problem`}.
   */
  constructor(feed, route, on) {
    Object.assign(this, { feed, route, on });
    this.isWanted = false;
    this.more = null; // what to ask for beyond the moment, as a query
    this.problem = "";
    const onVisible = () => document.hidden || this.#askSoon(0);
    document.addEventListener("visibilitychange", onVisible);
    this.exits = [
      feed.subscribe("blocks", (ids) => this.#blocksChanged(ids)),
      () => document.removeEventListener("visibilitychange", onVisible),
    ];
  }

  close() {
    this.want(false);
    for (const exit of this.exits) exit();
  }

  /** Ask from now on, or no longer. `more`: what to ask for beyond the moment, the same object as long as that is the same. */
  want(isWanted, more = null) {
    if (isWanted === this.isWanted && more === this.more) return;
    Object.assign(this, { isWanted, more });
    if (isWanted) return this.#askSoon(0);
    clearTimeout(this.timer);
    this.timer = null;
    this.asking?.abort();
    this.asking = null;
  }

  // All blocks changed: another moment, another epoch, or a gap.
  #blocksChanged(ids) {
    if (ids === null && !this.feed.isPast) this.on.forget();
    if (ids === null || this.feed.isPast) this.#askSoon(PAST_PAUSE_MS);
  }

  #askSoon(wait) {
    if (!this.isWanted) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(), wait);
  }

  async #ask() {
    if (document.hidden || !this.feed.table) return;
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const began = performance.now();
    try {
      const response = await fetch(apiUrl(this.route, { ...this.feed.query(), ...this.more }), { signal: asking.signal });
      if (!response.ok) throw await refusal(response);
      this.on.take(await response.arrayBuffer());
      this.problem = "";
    } catch (error) {
      if (error.name === "AbortError") return;
      this.problem = error.message;
    }
    this.on.changed();
    if (this.asking !== asking) return;
    const took = performance.now() - began;
    if (!this.feed.isPast || this.problem) this.#askSoon(Math.max(PAUSE_MS, MOST_OF_TIME * took));
  }
}
