// Where in time the page is: live, or at a moment of the past, perhaps with a second one beside it to compare.
// Kept here, outside the DOM, one a source, so that it survives script runs, remounts and page changes; it is in the
// address (?at=3.10482&with=3.9001), which is the permalink.

const WRITE_MS = 200; // browsers refuse an address that changes with every move of the pointer
const POINT = /^\d{1,9}\.\d{1,18}$/;
const moments = new Map();

/** The moment of a source's page. `home`: its last moment, of a source that no engine goes on telling; else null. */
export function momentFor(source, home = null) {
  const key = source ?? "";
  // The moment in the address is one of the source that the page opened with; another source begins live.
  if (!moments.has(key)) moments.set(key, new Moment(moments.size ? new URLSearchParams() : addressed(), home));
  return moments.get(key);
}

/** Whether a moment is written EPOCH.SEQ. */
export const isPoint = (at) => POINT.test(at);

export const epochOf = (point) => point.slice(0, point.indexOf("."));

class Moment {
  constructor(query, home) {
    const at = query.get("at");
    this.home = home;
    this.at = at && at !== "live" ? at : home; // null: live
    this.asked = null; // ms since 1970, where a time was asked for: nothing may have happened just then
    this.beside = (this.at !== null && query.get("with")) || null;
    this.besideTime = null; // ms, once its picture is there
    this.listeners = new Set();
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** To a moment (EPOCH.SEQ or ISO-8601). */
  go(at) {
    this.#turn(at, null, this.beside);
  }

  /** To a time in ms since 1970. */
  goTime(ms) {
    const whole = Math.floor(ms);
    this.#turn(new Date(whole).toISOString(), whole, this.beside);
  }

  /** Back to the present; to the last moment where there is no present. */
  goLive() {
    this.#turn(this.home, null, null);
  }

  /** Put a moment beside the one shown, or none (null). */
  compare(beside) {
    this.#turn(this.at, this.asked, beside);
  }

  swap() {
    this.#turn(this.beside, null, this.at);
  }

  /** What was asked for is this event: from now on the moment is called by it. */
  resolve(asked, point) {
    if (this.at === asked) this.at = point;
    this.writeSoon();
  }

  /** Put it into the address; also after a page change, which clears it. */
  writeAddress() {
    clearTimeout(this.writing);
    const url = new URL(location.href);
    for (const [name, value] of [
      ["at", this.at],
      ["with", this.beside],
    ]) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    if (url.href !== location.href) history.replaceState(history.state, "", url);
  }

  writeSoon() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.writeAddress(), WRITE_MS);
  }

  /** Whoever leaves the page must not write into the address of the next. */
  stopWriting() {
    clearTimeout(this.writing);
  }

  #turn(at, asked, beside) {
    if (at === this.at && beside === this.beside) return;
    Object.assign(this, { at, asked, beside: at === null ? null : beside });
    this.writeSoon();
    for (const listener of [...this.listeners]) listener();
  }
}

/** The second moment of a page, to whoever only wants to show one. */
export class Beside {
  constructor(moment) {
    this.moment = moment;
  }

  get at() {
    return this.moment.beside;
  }

  subscribe(listener) {
    return this.moment.subscribe(listener);
  }

  resolve(asked, point) {
    if (this.moment.beside === asked) this.moment.beside = point;
    this.moment.writeSoon();
  }

  writeAddress() {}

  stopWriting() {}
}

const addressed = () => new URLSearchParams(location.search);
