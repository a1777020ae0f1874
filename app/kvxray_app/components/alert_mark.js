// The alert whose culprits are marked: blocks, requests and hashes of what made it fire. Named by the address
// (?mark=ALERT), asked for once; kept outside the DOM, one a source, so that it survives steps in time and page changes.

import { getJson } from "./address.js";
import { epochOf, isPoint } from "./moment.js";

const NAME = "mark";
const MAX = 1000; // of each kind
const marks = new Map();

/** The mark of a source's page; without one `id` is null. */
export function markFor(source) {
  const key = source ?? "";
  // The alert in the address is one of the source that the page opened with.
  if (!marks.has(key)) marks.set(key, new AlertMark(source, marks.size ? null : addressed()));
  return marks.get(key);
}

class AlertMark {
  constructor(source, id) {
    Object.assign(this, { source, id, view: null, problem: "", at: null, listeners: new Set() });
    this.#take();
    if (id) this.#ask(id);
  }

  /** Told when it is known, or gone. Returns the way out. */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** What the page shows is of this moment (null: live): what was found later is not marked there. */
  show(at) {
    if (at === this.at) return;
    this.at = at;
    if (!this.view || this.#here().length === this.found.length - this.later) return;
    this.#take();
    this.#tell();
  }

  /** What was found in this source, of another whose blocks are other blocks nothing. */
  get found() {
    return (this.view?.alert.findings ?? []).filter(({ source }) => !this.source || source === this.source);
  }

  /** Nothing is marked any more. */
  remove() {
    Object.assign(this, { id: null, view: null, problem: "" });
    this.#take();
    this.writeAddress();
    this.#tell();
  }

  /** Put it into the address; also after a page change, which clears it. */
  writeAddress() {
    const url = new URL(location.href);
    if (this.id === null) url.searchParams.delete(NAME);
    else url.searchParams.set(NAME, this.id);
    if (url.href !== location.href) history.replaceState(history.state, "", url);
  }

  async #ask(id) {
    try {
      const view = await getJson(`alerts/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      this.view = view;
      this.#take();
    } catch (error) {
      if (id !== this.id) return;
      this.problem = error.message;
    }
    this.#tell();
  }

  // Before it fired, what it fired for is marked all the same: how it came to be. The later, the more of them.
  #here() {
    return this.found.filter((one) => this.at === null || isBy(one, this.at) || isBy(one, this.view.alert.moment.at));
  }

  // Null where there are none to mark.
  #take() {
    const here = this.#here();
    this.later = this.found.length - here.length;
    for (const kind of ["blocks", "requests", "hashes"]) {
      const all = new Set(here.flatMap(({ subjects }) => subjects[kind] ?? []));
      this[kind] = all.size ? [...all].slice(0, MAX) : null;
    }
  }

  #tell() {
    for (const listener of [...this.listeners]) listener();
  }
}

// Whether it was found by a moment, EPOCH.SEQ or a time.
function isBy({ epoch, seq0, time }, at) {
  if (!isPoint(at)) return Date.parse(time) <= Date.parse(at);
  const of = Number(epochOf(at));
  return epoch === of ? seq0 <= Number(at.slice(at.indexOf(".") + 1)) : epoch < of;
}

const addressed = () => new URLSearchParams(location.search).get(NAME) || null;
