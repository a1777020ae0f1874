// The words around the map: its legend with live counts, what to say when there is nothing or nothing new to
// show, and the readout of how fast it is.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { NO_DATA, age, count, seconds, timeOfDay } from "./format.js";

const LEGEND = ["shared", "active", "cached", "free", "empty", "unknown", "leaked"];
const SHOWN_WHEN_SOME = new Set(["unknown", "leaked"]);
const RECENT_MS = 2000;

/** Names of states with their colours and counts; `words` explain them in tooltips. */
export class Legend {
  constructor(tip, words) {
    this.tip = tip;
    this.words = words;
    this.node = el("div", { class: "legend" });
  }

  draw(table) {
    const counts = { ...table?.countsByName(), leaked: table?.leaked };
    const shown = LEGEND.filter((name) => !SHOWN_WHEN_SOME.has(name) || counts[name] > 0);
    const put = (node, name) => setText(node.lastChild, count(counts[name]));
    reconcile(
      this.node,
      shown,
      (name) => name,
      (name) => this.#item(name),
      put,
    );
  }

  #item(name) {
    const swatch = el("i", { class: "swatch", "data-state": name });
    const node = el(
      "span",
      { class: "chip", tabindex: "0", "data-state": name },
      swatch,
      el("span", {}, name),
      el("b"),
    );
    const meaning = name === "leaked" ? this.words.leaked : this.words.states[name];
    this.tip.describe(node, () => [name[0].toUpperCase() + name.slice(1), meaning]);
    return node;
  }
}

/** A ribbon over an old picture, and a note where there is no picture yet. */
export class MapNotice {
  constructor() {
    this.ribbon = el("div", { class: "ribbon", hidden: true, role: "status" });
    this.note = el("div", { class: "stage-note", role: "status" }, el("b"), el("span"));
  }

  draw(hasPicture, status, source) {
    const words = hasPicture ? ribbonWords(status, source) : "";
    setText(this.ribbon, words);
    setAttribute(this.ribbon, "hidden", !words);
    setAttribute(this.ribbon, "data-phase", status.phase);
    setAttribute(this.note, "hidden", hasPicture);
    if (hasPicture) return;
    const [title, line] = noteWords(status, source);
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
  }

  /** The picture was painted; `changedAt`: unix seconds of its newest event, 0 when that does not count. */
  mark(changedAt) {
    this.painted.push(performance.now());
    if (this.painted.length > 240) this.painted.shift();
    if (changedAt) this.lags.push(Date.now() / 1000 - changedAt);
    if (this.lags.length > 20) this.lags.shift();
  }

  draw(table, status) {
    setText(this.node, table ? this.#text(table, status) : "");
  }

  #text(table, status) {
    const seq = `seq ${table.epoch}.${Math.floor(table.seq)}`;
    const recent = this.painted.filter((at) => performance.now() - at < RECENT_MS).length / (RECENT_MS / 1000);
    if (status.phase !== "live" || !recent) return `idle  ·  ${seq}`;
    const lag = [...this.lags].sort((a, b) => a - b)[this.lags.length >> 1];
    const lagText = lag >= 0 && lag < 600 ? seconds(lag) : NO_DATA;
    return `${recent.toFixed(0)} updates/s  ·  ${lagText} from event to pixel  ·  ${seq}`;
  }
}

function ribbonWords(status, source) {
  if (status.phase === "stale") {
    return `No word from the engine since ${timeOfDay(source?.since)}. This is the last state it told.`;
  }
  if (status.phase === "lost") {
    const ago = age((Date.now() - status.since) / 1000);
    return `Connection to the backend lost ${ago} ago. Trying again; this is the last state received.`;
  }
  if (status.phase !== "connecting") return "";
  if (source?.state === "joining") return "Joining the engine again: waiting for its snapshot.";
  return "Connecting again: this is the last state received.";
}

function noteWords(status, source) {
  if (status.phase === "lost") return [status.reason, "Trying again by itself."];
  if (source?.state === "waiting") {
    return [
      "Waiting for the engine",
      `Nothing has arrived from ${source.source} yet. The map appears with its first events.`,
    ];
  }
  if (source?.state === "joining")
    return ["Joining", "The engine is being asked for a snapshot of its blocks."];
  if (status.phase === "stale")
    return ["No word from the engine", `${source?.source ?? "It"} has told nothing yet.`];
  return ["Connecting", "Opening the live feed."];
}
