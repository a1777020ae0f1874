// How much of the cache is whose, asked for every few seconds while somebody sees it; of the past once.

import { Polling } from "./polling.js";

const EVERY_MS = 5000;

export class TenantsFeed {
  /** `changed()`: after every answer or failure. */
  constructor(changed) {
    this.changed = changed;
    this.asked = null;
    this.polling = null;
    this.before = null; // the last answer of the same source, while another question about it is open
    this.why = ""; // why nothing is asked
  }

  /** What to ask from now on; `at`: null = live. The same again changes nothing. */
  ask(source, at, by) {
    const asked = JSON.stringify([source, at, by]);
    if (asked === this.asked) return;
    const isSameSource = this.asked !== null && JSON.parse(this.asked)[0] === source;
    this.before = isSameSource ? this.told : null;
    this.asked = asked;
    this.why = "";
    this.polling?.close();
    this.polling = new Polling("tenants", { source, at, by }, () => this.changed(), at !== null);
    this.polling.everyMs = EVERY_MS;
  }

  /** Ask nothing: of this source nothing can be told, and why, as a sentence. */
  decline(why) {
    this.close();
    Object.assign(this, { asked: null, polling: null, before: null, why });
  }

  get told() {
    return this.polling?.told ?? this.before;
  }

  get failed() {
    return this.polling?.failed ?? this.why;
  }

  /** Whether what is told is the answer to what was asked last. */
  get isFresh() {
    return !this.failed && this.polling?.told != null;
  }

  get isAsking() {
    return this.polling !== null;
  }

  close() {
    this.polling?.close();
  }
}
