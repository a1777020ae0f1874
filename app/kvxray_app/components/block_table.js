// What every block is now: four byte columns, counts by state, and how to bring them up to date.

import { FLAG_LEAKED, FLAG_NULL, FLAG_LEAKED_ONLY, STATES } from "./frames.js";

export class BlockTable {
  constructor(snapshot) {
    this.load(snapshot);
  }

  /** Replace everything by a snapshot, whose buffer becomes ours. */
  load(snapshot) {
    this.epoch = snapshot.epoch;
    this.seq = snapshot.seqTo; // its whole part numbers an event; fractions are changes that no event told
    this.time = snapshot.time;
    this.numBlocks = snapshot.numBlocks;
    this.nullBlock = snapshot.nullBlock;
    this.blockSize = snapshot.blockSize;
    this.usable = snapshot.usable;
    this.state = snapshot.state;
    this.ref = snapshot.ref;
    this.fill = snapshot.fill;
    this.flags = snapshot.flags;
    this.counts = new Int32Array(STATES.length);
    this.leaked = 0;
    this.leakedOnly = 0; // those of them that nobody living holds
    this.leakedIds = null; // their ids, made when asked for
    for (let block = 0; block < this.numBlocks; block++) this.#count(block, 1);
  }

  /** True when the delta goes on where we are (or repeats what we have); false when something between is missing. */
  follows(delta) {
    return delta.epoch === this.epoch && delta.numBlocks === this.numBlocks && delta.seqFrom <= this.seq;
  }

  /**
   * Apply a delta. Returns for each of its rows 1 when state, references or flags changed (not only slots), else 0.
   * A delta that we already have is skipped: null.
   */
  apply(delta) {
    return delta.seqTo <= this.seq ? null : this.jump(delta);
  }

  /** Apply a delta to wherever it leads, be it back. Returns the same. */
  jump(delta) {
    const { ids, state, ref, fill, flags } = delta;
    const turned = new Uint8Array(ids.length);
    for (let row = 0; row < ids.length; row++) {
      const block = ids[row];
      if (block >= this.numBlocks) continue;
      if (
        this.state[block] !== state[row] ||
        this.ref[block] !== ref[row] ||
        this.flags[block] !== flags[row]
      ) {
        this.#count(block, -1);
        this.state[block] = state[row];
        this.ref[block] = ref[row];
        this.flags[block] = flags[row];
        this.#count(block, 1);
        turned[row] = 1;
      }
      this.fill[block] = fill[row];
    }
    this.seq = delta.seqTo;
    this.time = delta.time;
    return turned;
  }

  /** Counts of usable blocks by the name of their state. */
  countsByName() {
    return Object.fromEntries(STATES.map((name, index) => [name, this.counts[index]]));
  }

  /** Ids of the leaked blocks, smallest first. */
  leakedBlocks() {
    if (this.leakedIds) return this.leakedIds;
    this.leakedIds = [];
    for (let block = 0; this.leaked && block < this.numBlocks; block++)
      if (this.isLeaked(block)) this.leakedIds.push(block);
    return this.leakedIds;
  }

  isNull(block) {
    return (this.flags[block] & FLAG_NULL) !== 0;
  }

  isLeaked(block) {
    return (this.flags[block] & FLAG_LEAKED) !== 0;
  }

  /** Leaked, and no living request holds it besides. */
  isLeakedOnly(block) {
    return (this.flags[block] & FLAG_LEAKED_ONLY) !== 0;
  }

  // The null block is outside all counts.
  #count(block, by) {
    if (this.flags[block] & FLAG_NULL) return;
    if (this.state[block] < STATES.length) this.counts[this.state[block]] += by;
    if (this.isLeaked(block)) this.#countLeaked(by);
    if (this.isLeakedOnly(block)) this.leakedOnly += by;
  }

  #countLeaked(by) {
    this.leaked += by;
    this.leakedIds = null;
  }
}
