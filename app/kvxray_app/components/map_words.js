// The words around the map: what to say when there is nothing or nothing new to show, and the readout of how fast it
// is.

import { el, setAttribute, setText } from "./elements.js";
import { NO_DATA, eventNumber, plural, seconds, timeOfDay } from "./format.js";

const RECENT_MS = 2000;

/** A mark beside the title of an old picture, and a note where there is no picture yet. */
export class MapNotice {
  constructor() {
    this.age = el("span", { class: "badge old", hidden: true });
    this.note = el("div", { class: "stage-note", role: "status" }, el("b"), el("span"));
  }

  /** `time`: of the newest event of the picture; `problem`: why there is none. */
  draw(hasPicture, status, source, time, problem = "") {
    const words = hasPicture ? ageWords(status, source, time) : "";
    setText(this.age, words);
    setAttribute(this.age, "hidden", !words);
    setAttribute(this.age, "data-phase", status.phase);
    setAttribute(this.note, "hidden", hasPicture);
    if (hasPicture) return;
    const [title, line] = noteWords(status, source, problem);
    setText(this.note.firstChild, title);
    setText(this.note.lastChild, line);
  }
}

/** Updates a second, and the time from an event in the engine to the pixels that show it. */
export class Readout {
  constructor() {
    this.node = el("span", { class: "readout" });
    this.painted = [];
    this.lags = [];
    this.newest = 0; // the last event counted
    this.onPaint = null; // told of every picture, by benchmarks
  }

  /** The picture was painted; `changedAt`: unix seconds of the event it was painted for, 0 where it was for none. */
  mark(changedAt) {
    this.onPaint?.(changedAt);
    this.painted.push(performance.now());
    if (this.painted.length > 240) this.painted.shift();
    // The first picture of an event tells how long it took; later ones are painted for other reasons.
    if (changedAt && changedAt !== this.newest) this.lags.push(Date.now() / 1000 - changedAt);
    if (changedAt) this.newest = changedAt;
    if (this.lags.length > 20) this.lags.shift();
  }

  draw(table, status) {
    setText(this.node, table ? this.#text(table, status) : "");
  }

  #text(table, status) {
    const event = table.seq < 0 ? "no events yet" : `event ${eventNumber(table.epoch, table.seq)}`;
    const recent =
      this.painted.filter((at) => performance.now() - at < RECENT_MS).length / (RECENT_MS / 1000);
    if (["past", "lost", "stale"].includes(status.phase)) return event; // nobody knows whether it is idle
    if (status.phase !== "live" || !recent) return `idle  ·  ${event}`;
    const lag = [...this.lags].sort((a, b) => a - b)[this.lags.length >> 1];
    const lagText = lag >= 0 && lag < 600 ? seconds(lag) : NO_DATA;
    const lagWords = lag === undefined ? "" : `  ·  ${lagText} from event to pixel`;
    return `${plural(Math.max(1, Math.round(recent)), "update")}/s${lagWords}  ·  ${event}`;
  }
}

// Short: the line at the head of the page tells since when and why.
function ageWords(status, source, time) {
  if (status.phase === "past") return time ? `as of ${timeOfDay(time, true)}` : "";
  if (status.phase === "stale") return `as of ${timeOfDay(source?.since)}`;
  if (status.phase === "lost") return `as of ${timeOfDay(status.since)}`;
  if (status.phase !== "connecting") return "";
  return source?.state === "joining"
    ? "old picture, joining the engine again"
    : "old picture, connecting again";
}

function noteWords(status, source, problem) {
  if (status.phase === "past")
    return status.reason
      ? ["No picture of this moment", status.reason]
      : ["Going back", "Getting the blocks of then."];
  if (status.phase === "lost") return [status.reason, "Trying again by itself."];
  if (source?.state === "waiting") {
    return [
      "Waiting for the engine",
      `Nothing has arrived from ${source.source} yet. The map appears with its first events.`,
    ];
  }
  if (source?.state === "joining")
    return ["Joining", "The engine is being asked for a snapshot of its blocks."];
  if (status.phase === "live")
    return problem ? ["No picture of the blocks yet", `${problem} Trying again.`] : ["Live", "Getting the blocks."];
  if (status.phase === "stale")
    return ["No word from the engine", `${source?.source ?? "It"} has told nothing yet.`];
  return ["Connecting", "Opening the live feed."];
}
