// The live feed of a source: one WebSocket. It follows the viewer's rule: open the socket, keep deltas back, get the
// snapshot over HTTP, drop the deltas it covers, apply the rest; when a delta does not follow, or the epoch is
// another, get the snapshot again.

import { answered, apiUrl, liveUrl, refusal } from "./address.js";
import { BlockTable } from "./block_table.js";
import { decodeFrame } from "./frames.js";
import { FigureHistory } from "./history.js";

const SILENCE_MS = 8000; // summaries come at least every 2 s: a longer silence is a dead connection
const HIDDEN_MS = 15000; // a tab that nobody sees for longer lets its socket go
const SNAPSHOT_PAUSE_MS = 250;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];
const CLOSED_FOR_GOOD = {
  4401: "The token is missing or wrong.",
  4403: "This address may not open the feed.",
  4404: "The backend follows no engine of this name.",
};

/** Sockets of this page that are open or opening. */
export const OPEN_SOCKETS = new Set();

/** Keeps a feed at the present. */
export class LiveFeed {
  constructor(feed) {
    this.feed = feed;
    this.figures = new FigureHistory();
    this.snapshotAt = 0;
    this.running = false;
    this.attempt = 0;
    this.socket = null;
    this.heldBack = null; // deltas kept while a snapshot is on its way, else null
    this.onVisibility = () => this.#visibility();
    this.onOnline = () => this.#retryNow();
  }

  start() {
    this.running = true;
    document.addEventListener("visibilitychange", this.onVisibility);
    window.addEventListener("online", this.onOnline);
    this.attempt = 0;
    this.feed.setStatus("connecting");
    this.#connect();
  }

  stop() {
    this.running = false;
    document.removeEventListener("visibilitychange", this.onVisibility);
    window.removeEventListener("online", this.onOnline);
    this.#disconnect();
  }

  #connect() {
    this.#disconnect();
    const socket = new WebSocket(liveUrl(this.feed.source));
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    OPEN_SOCKETS.add(socket);
    socket.onopen = () => this.#fetchSnapshot();
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = ({ code }) => {
      OPEN_SOCKETS.delete(socket);
      if (socket === this.socket) this.#lost(code);
    };
    this.#watch();
  }

  // Also forgets every timer and pending snapshot, so that nothing of an earlier connection reaches a later
  // one.
  #disconnect() {
    clearTimeout(this.retryTimer);
    clearTimeout(this.silenceTimer);
    clearTimeout(this.snapshotTimer);
    clearTimeout(this.hiddenTimer);
    this.snapshotRequest?.abort();
    this.heldBack = null;
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = null;
    socket.close();
  }

  #lost(code) {
    const final = CLOSED_FOR_GOOD[code];
    const delay = final ? 30000 : code === 1013 ? 0 : RETRY_MS[Math.min(this.attempt, RETRY_MS.length - 1)];
    this.attempt += 1;
    this.#disconnect();
    const reason = code === 4404 && this.feed.source == null ? "No engine to follow yet." : final;
    this.feed.setStatus("lost", reason ?? "The backend does not answer.", Date.now() + delay);
    // A hidden tab does not try again: coming back to it does.
    this.retryTimer = setTimeout(() => document.hidden || this.#connect(), delay * (0.8 + 0.4 * Math.random()));
  }

  #watch() {
    clearTimeout(this.silenceTimer);
    const socket = this.socket;
    this.silenceTimer = setTimeout(() => socket === this.socket && this.#lost(0), SILENCE_MS);
  }

  #retryNow() {
    if (this.feed.status.phase === "lost" && this.running) this.#connect();
  }

  #visibility() {
    clearTimeout(this.hiddenTimer);
    if (document.hidden) {
      this.hiddenTimer = setTimeout(() => this.#disconnect(), HIDDEN_MS);
    } else if (!this.socket && this.running) {
      this.attempt = 0;
      this.feed.setStatus("connecting");
      this.#connect();
    }
  }

  #receive(data) {
    this.#watch();
    if (typeof data === "string") this.#takeSummary(JSON.parse(data));
    else this.#takeDelta(data);
  }

  #takeSummary(summary) {
    if (summary.type !== "summary") return;
    this.attempt = 0;
    this.feed.summary = summary;
    if (summary.state) this.figures.push(Date.parse(summary.state.time) / 1000, summary.state.figures);
    const heard = summary.source?.state;
    const phase = heard === "connected" ? "live" : heard === "stale" ? "stale" : "connecting";
    this.feed.setStatus(phase, phase === "connecting" ? (heard ?? "") : "");
    this.feed.emit("summary", summary);
    // No picture yet, or one of an earlier life of an engine that has been idle since.
    if (summary.state && summary.state.epoch !== this.feed.table?.epoch) this.#fetchSnapshot();
  }

  #takeDelta(buffer) {
    let delta;
    try {
      delta = decodeFrame(buffer);
    } catch (error) {
      console.warn(`kvxray: ${error.message}; fetching a snapshot`);
      this.#fetchSnapshot();
      return;
    }
    if (this.heldBack) this.heldBack.push(delta);
    else this.#apply(delta);
  }

  #apply(delta) {
    if (!this.feed.table || !this.feed.table.follows(delta)) {
      this.#fetchSnapshot();
      this.heldBack.push(delta);
      return;
    }
    const turned = this.feed.table.apply(delta);
    if (turned === null) return;
    // A change that no event told, such as a leak found, is no news of the event before it.
    this.feed.changedAt = Math.floor(delta.seqTo) > Math.floor(delta.seqFrom) ? delta.time : 0;
    this.feed.emit("blocks", delta.ids, turned);
  }

  async #fetchSnapshot() {
    if (this.heldBack) return;
    const held = (this.heldBack = []);
    const request = (this.snapshotRequest = new AbortController());
    try {
      await this.#snapshotTurn();
      if (this.heldBack !== held) return;
      const url = apiUrl("state/blocks", { source: this.feed.source });
      const response = await answered(fetch(url, { signal: request.signal, cache: "no-cache" }));
      if (!response.ok) throw await refusal(response);
      const snapshot = decodeFrame(await response.arrayBuffer());
      if (this.heldBack !== held) return;
      this.#joinAt(snapshot, held);
    } catch (error) {
      if (this.heldBack !== held || error.name === "AbortError") return;
      this.feed.noPicture = error.status === undefined ? "What came is no picture of blocks." : error.message;
      // Before the source has joined there is none (503): summaries say when to ask again.
      this.snapshotTimer = setTimeout(() => this.#askAgain(held), 1000);
    }
  }

  // A snapshot that does not help (an old one from a cache) must not become a storm of requests.
  async #snapshotTurn() {
    const wait = this.snapshotAt + SNAPSHOT_PAUSE_MS - Date.now();
    if (wait > 0) await new Promise((done) => setTimeout(done, wait));
    this.snapshotAt = Date.now();
  }

  #askAgain(held) {
    if (this.heldBack !== held) return;
    this.heldBack = null;
    if (this.feed.summary?.state) this.#fetchSnapshot();
  }

  #joinAt(snapshot, held) {
    if (this.feed.table) this.feed.table.load(snapshot);
    else this.feed.table = new BlockTable(snapshot);
    this.heldBack = null;
    this.feed.noPicture = "";
    this.feed.changedAt = 0; // whatever it shows may have happened long ago
    // A new epoch may have begun while the snapshot was on its way: then the first delta of it asks for
    // another.
    for (const delta of held) {
      if (this.heldBack) this.heldBack.push(delta);
      else if (delta.epoch > this.feed.table.epoch) this.#apply(delta);
      else if (delta.epoch === this.feed.table.epoch && delta.seqTo > this.feed.table.seq) this.#apply(delta);
    }
    this.feed.emit("blocks", null, null);
  }
}
