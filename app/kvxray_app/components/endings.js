// When requests ended, as this browser saw it happen. Kept as long as their feed, so that a page change forgets
// nothing.

/** Statuses of a request that is over. */
export const ENDED = new Set(["finished", "aborted", "failed"]);

class Endings {
  constructor() {
    this.living = new Set();
    this.times = new Map();
  }

  /** Take in the rows of a summary whose newest event has this time. */
  see(rows, time) {
    const living = new Set();
    const times = new Map();
    for (const row of rows) {
      const key = keyOf(row);
      if (!ENDED.has(row.status)) living.add(key);
      else if (this.times.has(key)) times.set(key, this.times.get(key));
      else if (this.living.has(key)) times.set(key, Date.parse(time));
    }
    this.living = living;
    this.times = times;
  }

  /** Unix milliseconds, NaN when it was not seen. */
  of(row) {
    return this.times.get(keyOf(row)) ?? NaN;
  }
}

const keyOf = (row) => `${row.ordinal} ${row.arrived_at}`; // ordinals begin anew with an epoch

const endings = new WeakMap();

/** What is known of a feed's requests. */
export function endingsOf(feed) {
  if (!endings.has(feed)) endings.set(feed, new Endings());
  return endings.get(feed);
}
