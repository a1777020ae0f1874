// The past of a source over HTTP: no socket. The first picture is a snapshot; from there each move is a delta frame,
// forwards or backwards. Only one move is on its way at a time: whoever scrubs gets as many pictures as there is time
// for, and the last one always.

import { apiUrl, getJson, refusal } from "./address.js";
import { BlockTable } from "./block_table.js";
import { FigureCourse } from "./figure_course.js";
import { decodeFrame } from "./frames.js";
import { epochOf, isPoint } from "./moment.js";

const RETRY_MS = 2000;

/** Keeps a feed at the moment that its page is at. */
export class PastFeed {
  constructor(feed) {
    this.feed = feed;
    this.figures = new FigureCourse(feed);
    this.shown = null; // EPOCH.SEQ of the picture, null while there is none
    this.told = null; // the moment last asked for and answered, be it by a refusal
    this.following = null; // resolves when there is nowhere else to go
    this.ready = null; // a move prepared beforehand: {from, to, made: Promise}
  }

  start() {
    this.alive = new AbortController();
    this.shown = this.told = this.ready = null;
    this.moving = false;
    this.feed.setStatus("past");
    this.turn();
  }

  stop() {
    this.alive.abort();
    clearTimeout(this.retry);
    this.figures.forget();
    this.shown = null;
  }

  /** The page's moment is another. */
  turn() {
    if (!this.moving) this.following = this.#follow(this.alive.signal);
  }

  /** Get what leads from the moment shown to another, so that going there takes no time. Never fails. */
  async prepare(at) {
    const made = this.#load(at, this.alive.signal);
    this.ready = { from: this.shown, to: at, made };
    await made.catch(() => null);
  }

  async #follow(signal) {
    this.moving = true;
    while (!signal.aborted && this.told !== this.feed.moment.at) {
      const at = this.feed.moment.at;
      try {
        const next = await this.#made(at, signal);
        if (!signal.aborted) this.#show(at, next);
      } catch (error) {
        if (!signal.aborted) this.#refuse(at, error);
      }
    }
    if (!signal.aborted) this.moving = false;
  }

  #made(at, signal) {
    const { ready } = this;
    this.ready = null;
    return ready?.to === at && ready.from === this.shown ? ready.made : this.#load(at, signal);
  }

  async #load(at, signal) {
    const asked = getJson("summary", { source: this.feed.source, at }, signal);
    // A time has to be resolved first: it may be of another epoch, and the present may move on past it.
    const point = isPoint(at) ? at : (await asked).state.at;
    const [summary, frame] = await Promise.all([asked, this.#frame(point, signal)]);
    return { point, summary, frame };
  }

  async #frame(point, signal) {
    const { shown, feed } = this;
    if (point === shown) return null;
    if (shown !== null && epochOf(shown) === epochOf(point)) {
      const { seq, numBlocks } = feed.table;
      const delta = await this.#get("state/delta", { from: shown, to: point }, signal);
      if (delta.seqFrom === seq && delta.numBlocks === numBlocks) return delta;
    }
    return this.#get("state/blocks", { at: point }, signal);
  }

  async #get(path, query, signal) {
    const response = await fetch(apiUrl(path, { source: this.feed.source, ...query }), { signal });
    if (!response.ok) throw await refusal(response);
    return decodeFrame(await response.arrayBuffer());
  }

  #show(at, { point, summary, frame }) {
    const { feed } = this;
    let turned = null;
    if (frame?.ids) turned = feed.table.jump(frame);
    else if (frame && feed.table) feed.table.load(frame);
    else if (frame) feed.table = new BlockTable(frame);
    this.shown = point;
    this.told = at;
    feed.moment.resolve(at, point);
    if (feed.moment.at === point) this.told = point;
    feed.changedAt = feed.table.time;
    feed.summary = summary;
    this.figures.goTo(Date.parse(summary.state.time) / 1000);
    feed.setStatus("past");
    if (frame) feed.emit("blocks", frame.ids, turned);
    feed.emit("summary", summary);
  }

  // A moment that the backend refuses has no picture: an earlier one must not pass for it. Without any answer
  // what there is stays. Where the fault was not the question's, it is put again.
  #refuse(at, error) {
    const { feed } = this;
    this.told = at;
    const answered = error.status > 0;
    if (answered) {
      this.shown = null;
      feed.table = feed.summary = null;
      this.figures.forget();
    }
    feed.setStatus("past", error.message);
    if (answered) feed.emit("blocks", null, null);
    if (answered) feed.emit("summary", null);
    if (!answered || error.status >= 500) {
      clearTimeout(this.retry);
      this.retry = setTimeout(() => this.#again(), RETRY_MS);
    }
  }

  #again() {
    this.told = null;
    this.turn();
  }
}
