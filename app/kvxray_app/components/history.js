// The last minutes of every figure, kept in the browser for sparklines. A null value is a hole in the line, not
// a zero.

const LENGTH = 240;

export class FigureHistory {
  constructor() {
    this.times = [];
    this.rows = [];
  }

  /** Remember the figures of one summary ({name: {value}}) at a time in seconds. */
  push(time, figures) {
    if (this.times.length && time <= this.times[this.times.length - 1]) return;
    this.times.push(time);
    this.rows.push(figures);
    if (this.times.length > LENGTH) {
      this.times.shift();
      this.rows.shift();
    }
  }

  /** Times and values of one figure, oldest first; values may be null. */
  series(key) {
    return { times: this.times, values: this.rows.map((row) => row[key]?.value ?? null) };
  }
}
