// What a route of the backend says of the thing inspected: asked for when it is selected, and again when somebody says
// that it changed, not more often than a pause allows, nor so often that answering takes more than a tenth of the time
// (half of it where the page went to another moment): what is read from a long log takes long. While answers lag behind,
// they say so.

import { apiUrl, getJson } from "./address.js";

const RESTS = 9; // times as long as the last answer took
const RETRY_MS = 2000; // where the fault was not the question's

export class Answers {
  /** `changed()`: there is another answer, or none any more. `pauseMs`: between two questions, at least. */
  constructor(feed, changed, pauseMs) {
    Object.assign(this, { feed, changed, pauseMs });
    this.turnTo(null);
  }

  /** Ask this route, `null`: none. */
  turnTo(path, more = {}) {
    this.stop();
    Object.assign(this, { path, more, answer: null, problem: "", refused: false, moment: undefined, at: 0 });
    this.tookMs = 0;
    if (path !== null) this.#ask();
  }

  /** What was asked about changed. */
  again() {
    if (this.path === null) return;
    if (this.asking) this.asksAgain = true;
    else this.timer ??= setTimeout(() => this.#ask(), this.#pause());
  }

  /** The page may be at another moment: answers of an earlier one are old, even where nothing changed. */
  follow() {
    if (!this.isOld) return;
    clearTimeout(this.timer); // it may be a long one
    this.timer = null;
    this.again();
  }

  get isOld() {
    return this.answer !== null && this.moment !== this.feed.query().at;
  }

  /** Whether an answer is on its way and there is none so far. */
  get isFirst() {
    return this.answer === null && this.asking !== null;
  }

  /** The address whose answer this is, from the server's root on. */
  get address() {
    const url = apiUrl(this.path, this.#query(this.moment));
    return url.pathname + url.search;
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.asking?.abort();
    this.asking = null;
    this.asksAgain = false;
  }

  #query(at) {
    return { ...this.feed.query(this.more), at };
  }

  #pause() {
    const since = performance.now() - (this.askedAt ?? -Infinity);
    const rest = this.tookMs * (this.isOld ? 1 : RESTS);
    return Math.max(0, Math.max(this.pauseMs, this.tookMs + rest) - since);
  }

  async #ask() {
    this.timer = null;
    this.asksAgain = false;
    this.askedAt = performance.now();
    const asking = (this.asking = new AbortController());
    const { at } = this.feed.query();
    try {
      const answer = await getJson(this.path, this.#query(at), asking.signal);
      if (asking !== this.asking) return;
      Object.assign(this, { answer, moment: at, at: Date.now(), problem: "", refused: false });
    } catch (error) {
      if (asking !== this.asking || error.name === "AbortError") return;
      this.refused = error.status > 0; // without any answer what we had stays, marked as old
      if (this.refused) this.answer = null;
      this.problem = error.message;
      if (!this.refused || error.status >= 500) this.timer = setTimeout(() => this.#ask(), RETRY_MS);
    }
    this.asking = null;
    this.tookMs = performance.now() - this.askedAt;
    if (this.asksAgain) this.again();
    this.changed();
  }
}
