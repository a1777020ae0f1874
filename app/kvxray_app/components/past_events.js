// The events around a moment of the past: those up to it and the first after it. A stretch is asked for once; steps
// within it need no more questions.

import { getJson } from "./address.js";
import { epochOf } from "./moment.js";

const BEFORE = 300;
const AFTER = 100;
const SPARE = 40; // when so few are left on a side, ask anew
const PAUSE_MS = 120;

const numberOf = (seq) => Number(seq.slice(seq.indexOf(".") + 1));

export class PastEvents {
  /** `changed()`: other events are there. */
  constructor(feed, changed) {
    this.feed = feed;
    this.changed = changed;
    this.forget();
  }

  forget() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
    this.from = this.to = 0; // numbers of events that were asked for
    this.epoch = null;
    this.events = []; // newest first
  }

  /** Be at a moment, EPOCH.SEQ. */
  goTo(at) {
    const number = numberOf(at);
    const spare = [number - this.from >= SPARE || this.from === 0, this.to - number >= SPARE];
    if (this.epoch === epochOf(at) && spare.every(Boolean)) return;
    if (this.epoch !== epochOf(at)) this.events = [];
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(at), PAUSE_MS);
  }

  async #ask(at) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const [epoch, from] = [epochOf(at), Math.max(0, numberOf(at) - BEFORE)];
    const query = { source: this.feed.source, from: `${epoch}.${from}`, limit: BEFORE + AFTER };
    const told = await getJson("events", query, asking.signal).catch(() => null);
    if (asking !== this.asking || told === null) return;
    const events = told.events.filter((event) => epochOf(event.seq) === epoch);
    markMissing(events);
    Object.assign(this, { asking: null, epoch, from, to: from + BEFORE + AFTER, events: events.reverse() });
    this.changed();
  }
}

// Numbers that lead on without an event: it is not stored. `events`: oldest first.
function markMissing(events) {
  for (let at = 1; at < events.length; at++) {
    events[at].skipped = numberOf(events[at].seq) - numberOf(events[at - 1].seq) - 1;
  }
}
