// Lights up the blocks of the request that is pointed at or selected, and keeps up while that request grows.

import { getJson, requestRoute } from "./address.js";

const PAUSE_MS = 120;

export class RequestBlocks {
  constructor(feed, selection) {
    this.feed = feed;
    this.selection = selection;
    this.request = null;
    this.blocks = -1; // how many blocks the request had when its table was asked for
  }

  /** Light up a request (null: none) that is said to hold `blocks` blocks at the moment shown. */
  show(request, blocks) {
    const { at } = this.feed.query();
    if (request === this.request && blocks === this.blocks && at === this.at) return;
    const other = request !== this.request;
    this.request = request;
    this.blocks = blocks;
    this.at = at;
    clearTimeout(this.timer);
    if (request === null) this.#put(null);
    else this.timer = setTimeout(() => this.#ask(request), other ? PAUSE_MS / 2 : PAUSE_MS);
  }

  close() {
    clearTimeout(this.timer);
    if (this.lit) this.#put(null);
    this.request = null;
  }

  async #ask(request) {
    const query = this.feed.query();
    const [path, named] = requestRoute(request);
    const answer = await getJson(path, { ...query, ...named }).catch(() => null);
    if (request !== this.request || query.at !== this.at) return;
    const blocks = answer?.block_table ?? [];
    this.#put(blocks.length ? { label: request, blocks } : null);
  }

  // Only what this object lit up is put out again: a finding's blocks stay.
  #put(lit) {
    if (lit === null && this.selection.lit !== this.lit) return;
    this.lit = lit;
    this.selection.light(lit);
  }
}
