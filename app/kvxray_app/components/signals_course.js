// The course of the signals of one panel: asked for when somebody sees the panel, and again every so often.

import { getJson } from "./address.js";

const FINE_MS = 5_000;
const COARSE_MS = 60_000;
const RETRY_MS = 5_000;
const FINE_S = 7_200;

export class SignalsCourse {
  /** `changed()` is called after every answer and failure. `told`: the last answer; `failed`: a sentence, "" without. */
  constructor(changed) {
    this.changed = changed;
    this.told = null;
    this.failed = "";
    this.asked = "";
    this.wanted = null;
    this.isSeen = false;
    this.onVisibility = () => this.#askSoon(0);
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  close() {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.wanted = null;
    this.#stop();
  }

  /** `engine`, `names`, `span_s`, and `end` (ms, null: now). What was told of anything else is forgotten. */
  want(engine, names, span_s, end) {
    const key = JSON.stringify([engine, names, span_s, end]);
    if (key === this.asked) return;
    const isOther = this.wanted?.engine !== engine || this.wanted?.span_s !== span_s || this.wanted?.end !== end;
    this.asked = key;
    this.wanted = { engine, names, span_s, end };
    if (isOther) this.told = null;
    this.#askSoon(0);
  }

  see(isSeen) {
    if (isSeen === this.isSeen) return;
    this.isSeen = isSeen;
    this.#askSoon(0);
  }

  #stop() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = null;
  }

  #askSoon(ms) {
    this.#stop();
    if (this.wanted?.names.length && this.isSeen && !document.hidden) this.timer = setTimeout(() => this.#ask(), ms);
  }

  async #ask() {
    const request = (this.request = new AbortController());
    const { engine, names, span_s, end } = this.wanted;
    const to = end ?? Date.now();
    const query = {
      engine,
      signals: names.join(","),
      from: new Date(to - span_s * 1000).toISOString(),
      to: new Date(to).toISOString(),
      heat: 1,
      fit: 1,
    };
    try {
      this.told = await getJson("signals/course", query, request.signal);
      this.failed = "";
    } catch (error) {
      if (error.name === "AbortError") return;
      this.failed = error.message;
    }
    if (request !== this.request) return;
    this.changed();
    if (end === null || this.failed)
      this.#askSoon(this.failed ? RETRY_MS : span_s <= FINE_S ? FINE_MS : COARSE_MS);
  }
}
