// Everything the page of an engine that tells of hashes is drawn from: its summary once a second while somebody sees it,
// the map whenever the summary says that it is another, what can be known of it, and its newest events.

import { answered, apiUrl, getJson, refusal } from "./address.js";
import { Polling } from "./polling.js";
import { decodeResidency } from "./residency_frame.js";

const EVENTS = 200;
const COVERAGE_EVERY_MS = 5000;

export class ResidencyFeed {
  /** `changed(what)`: "summary", "map", "coverage" or "events". */
  constructor(source, moment, isOfHashes, changed) {
    Object.assign(this, { source, moment, isOfHashes, changed });
    this.frame = null;
    this.frameProblem = "";
    this.coverage = null;
    this.events = [];
    this.eventsProblem = "";
    this.#begin();
    this.exit = moment.subscribe(() => this.#turn());
  }

  close() {
    this.exit();
    this.#end();
  }

  /** The last summary, null before the first; `failed`: the sentence of a failure since, "" without. */
  get summary() {
    return this.polling.told;
  }

  get failed() {
    return this.polling.failed;
  }

  get failedSince() {
    return this.polling.failedSince;
  }

  get isPast() {
    return this.moment.at !== null;
  }

  /** What a question about this moment carries. */
  query(more = {}) {
    return { source: this.source, at: this.moment.at, ...more };
  }

  #begin() {
    this.asked = { map: null, events: null };
    this.coverageAt = 0;
    this.asking = new AbortController();
    this.polling = new Polling("residency", this.query(), () => this.#told(), this.isPast);
  }

  #end() {
    this.polling.close();
    this.asking.abort();
  }

  #turn() {
    this.#end();
    this.frame = null;
    this.frameProblem = "";
    this.events = [];
    this.#begin();
    this.changed("summary");
  }

  #told() {
    this.changed("summary");
    if (!this.summary || this.failed) return;
    if (Date.now() - this.coverageAt > COVERAGE_EVERY_MS) this.#askCoverage();
    if (!this.isOfHashes || !this.summary.seq) return;
    const here = this.summary.seq;
    if (this.asked.map !== here) this.#askMap(here);
    if (this.asked.events !== here) this.#askEvents(here);
  }

  async #askCoverage() {
    this.coverageAt = Date.now();
    await this.#ask("coverage", async (signal) => {
      this.coverage = await getJson("coverage", { source: this.source }, signal);
    });
  }

  async #askMap(here) {
    this.asked.map = here;
    await this.#ask("map", async (signal) => {
      try {
        const answer = await answered(fetch(apiUrl("residency/map", this.query()), { signal }));
        if (!answer.ok) throw await refusal(answer);
        this.frame = decodeResidency(await answer.arrayBuffer());
        this.frameProblem = "";
      } catch (error) {
        if (!signal.aborted) [this.frameProblem, this.asked.map] = [error.message, null];
        throw error;
      }
    });
  }

  async #askEvents(here) {
    this.asked.events = here;
    await this.#ask("events", async (signal) => {
      try {
        this.events = (await getJson("events", this.query({ limit: EVENTS }), signal)).events;
        this.eventsProblem = "";
      } catch (error) {
        if (!signal.aborted) [this.eventsProblem, this.asked.events] = [error.message, null];
        throw error;
      }
    });
  }

  // What fails says so where it would be shown, and is asked for again with the next summary.
  async #ask(what, work) {
    const { signal } = this.asking;
    await work(signal).catch(() => null);
    if (!signal.aborted) this.changed(what);
  }
}
