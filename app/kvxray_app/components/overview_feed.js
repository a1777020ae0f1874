// The overview of all engines, asked for once a second while somebody sees it; at a moment of the past, once.

import { getJson } from "./address.js";

const EVERY_MS = 1000;
const RETRY_MS = 2000;

/**
 * `source`: whose events `at` counts, where it counts events. Calls `changed()` after every answer or failure. `told`:
 * the last answer, null before; `failed`: its sentence.
 */
export class OverviewFeed {
  constructor(source, at, changed) {
    this.query = at ? { source, at } : {};
    this.at = at;
    this.changed = changed;
    this.told = null;
    this.failed = "";
    this.failedSince = 0;
    this.request = null;
    this.onVisibility = () => this.#turn();
    document.addEventListener("visibilitychange", this.onVisibility);
    this.#turn();
  }

  close() {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.#rest();
  }

  #rest() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = null;
  }

  #turn() {
    this.#rest();
    if (!document.hidden) this.#ask();
  }

  async #ask() {
    const request = (this.request = new AbortController());
    try {
      const told = await getJson("overview", this.query, request.signal);
      if (request !== this.request) return;
      this.told = told;
      this.failed = "";
    } catch (error) {
      if (request !== this.request) return;
      if (!this.failed) this.failedSince = Date.now();
      this.failed = error.message;
    }
    this.changed();
    if (this.at && !this.failed) return; // what is over does not change
    this.timer = setTimeout(() => this.#ask(), this.failed ? RETRY_MS : EVERY_MS);
  }
}
