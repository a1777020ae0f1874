// Plays the past forwards, so many times as fast as it happened. While one picture is shown the next is being got
// ready; where that takes longer than a tick there are fewer pictures, not a slower clock.

import { shownTime } from "./moment_words.js";

export const SPEEDS = [1, 5, 20, 100];

const TICK_MS = 120;

export class Player {
  /** `end()`: where history ends now, in ms; `changed()`: it plays, or plays no more. */
  constructor(feed, end, changed) {
    Object.assign(this, { feed, end, changed });
    this.speed = 1;
    this.run = null; // the run going on
    this.atEnd = false;
  }

  get playing() {
    return this.run !== null;
  }

  toggle() {
    if (this.playing) this.stop();
    else this.#play({});
  }

  stop() {
    if (!this.run) return;
    this.run = null;
    this.changed();
  }

  setSpeed(speed) {
    this.speed = speed;
    if (this.run) this.#rebase(this.run);
    this.changed();
  }

  async #play(run) {
    this.run = run;
    this.atEnd = false;
    this.#rebase(run);
    this.changed();
    while (this.run === run) await this.#tick(run);
  }

  async #tick(run) {
    const { past, moment } = this.feed;
    if (moment.at !== run.left) this.#rebase(run); // somebody went elsewhere meanwhile
    const due = performance.now() + TICK_MS;
    const wanted = run.time + (due - run.since) * this.speed;
    const time = Math.min(wanted, this.end());
    await past.prepare(new Date(Math.floor(time)).toISOString());
    await pause(due - performance.now());
    if (this.run !== run) return;
    if (!this.feed.isPast) return this.stop();
    if (moment.at !== run.left) return;
    moment.goTime(time);
    await past.following;
    run.left = moment.at;
    if (wanted < this.end()) return;
    this.atEnd = true;
    this.stop();
  }

  // Its clock starts anew where the page is.
  #rebase(run) {
    run.time = shownTime(this.feed) ?? this.end();
    run.since = performance.now();
    run.left = this.feed.moment.at;
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, Math.max(0, ms)));
