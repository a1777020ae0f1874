// One event or one step of the engine back or forward, across epochs too. Whoever presses a key faster than the
// backend answers gets there all the same: what is still owed goes into one question.

import { getJson } from "./address.js";
import { epochOf } from "./moment.js";

export class TimeSteps {
  /** `epochs()`: those of the source; `say(words)`: why it goes no further. */
  constructor(feed, epochs, say) {
    Object.assign(this, { feed, epochs, say });
    this.owed = { event: 0, step: 0 };
    this.busy = false;
  }

  async step(by, n) {
    if (!this.feed.isPast) return;
    this.owed[by] += n;
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.owed.event || this.owed.step) await this.#pay(this.owed.event ? "event" : "step");
    } catch (error) {
      this.owed = { event: 0, step: 0 };
      this.say(error.message);
    }
    this.busy = false;
  }

  async #pay(by) {
    const { moment, source } = this.feed;
    const n = this.owed[by];
    this.owed[by] = 0;
    const from = this.feed.query().at;
    const told = await getJson("step", { source, at: from, by, n });
    if (told.at !== from) moment.go(told.at);
    else this.#across(from, Math.sign(n));
    await this.feed.past.following;
  }

  // The epoch is over here: the next one begins elsewhere.
  #across(at, direction) {
    const next = this.epochs().find((epoch) => epoch.epoch === Number(epochOf(at)) + direction);
    const to = direction > 0 ? next?.first_seq : next?.last_seq;
    if (to) this.feed.moment.go(to);
    else this.say(direction > 0 ? "This is the last event stored." : "This is the first event stored.");
  }
}
