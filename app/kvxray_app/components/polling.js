// A JSON route asked once a second, or as often as its page wants, while somebody sees the page.

import { getJson } from "./address.js";

const EVERY_MS = 1000;
const RETRY_MS = 2000;

/**
 * Calls `changed()` after every answer or failure. `told`: the last answer, null before; `failed`: the sentence of a
 * failure, "" without, `failedSince`: of when it is. `once`: what is over does not change, one answer is enough.
 * `everyMs` may be set to another pause between two questions.
 */
export class Polling {
  constructor(path, query, changed, once = false) {
    this.path = path;
    this.query = query;
    this.changed = changed;
    this.once = once;
    this.everyMs = EVERY_MS;
    this.told = null;
    this.failed = "";
    this.failedSince = 0;
    this.request = null;
    this.onVisibility = () => this.askNow();
    document.addEventListener("visibilitychange", this.onVisibility);
    this.askNow();
  }

  close() {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.#rest();
  }

  /** Ask without waiting for the next turn; nothing while the page is not seen. */
  askNow() {
    this.#rest();
    if (!document.hidden) this.#ask();
  }

  #rest() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = null;
  }

  async #ask() {
    const request = (this.request = new AbortController());
    try {
      const told = await getJson(this.path, this.query, request.signal);
      if (request !== this.request) return;
      this.told = told;
      this.failed = "";
    } catch (error) {
      if (request !== this.request) return;
      if (!this.failed) this.failedSince = Date.now();
      this.failed = error.message;
    }
    this.changed();
    if (this.once && !this.failed) return;
    this.timer = setTimeout(() => this.#ask(), this.failed ? Math.max(RETRY_MS, this.everyMs) : this.everyMs);
  }
}
