// The order of blocks by their prefixes, for a map that is laid out by it: those of one chain of hashes lie side by side. A
// new order is taken only when nobody points at the map, so that no block moves away from under a hand.

import { plural } from "./format.js";
import { MapAsking } from "./map_asking.js";

const HEADER = 32;
const MAGIC = 0x4f58564b; // "KVXO" read as little-endian u4
const UNREADABLE = "The backend tells the order of blocks in a form that this page does not read.";

export class MapOrder {
  constructor(feed, changed) {
    this.feed = feed;
    this.taken = null; // the order shown: {blocks, places, numBlocks, nullBlock, numHashed, numTrees}
    this.told = null; // the newest
    this.number = 0; // of orders told so far
    this.asking = new MapAsking(feed, "state/order", {
      take: (buffer) => this.#hear(buffer),
      forget: () => {},
      changed,
    });
  }

  close() {
    this.asking.close();
  }

  /** Ask for it from now on, or no longer. */
  want(isWanted) {
    this.asking.want(isWanted);
    if (!isWanted) this.taken = this.told = null;
  }

  /** Show the newest order, unless hands are on the map. */
  take(isHeld) {
    if (!isHeld || !this.isOf(this.feed.table)) this.taken = this.told;
  }

  /** The order shown, where it is one of these blocks; else null. */
  of(table) {
    return this.isOf(table) ? this.taken : null;
  }

  isOf(table) {
    const { taken } = this;
    return Boolean(table && taken?.numBlocks === table.numBlocks && taken.nullBlock === table.nullBlock);
  }

  /** What lies where; or why there is no order to show yet. */
  words() {
    if (!this.isOf(this.feed.table))
      return this.asking.problem || "Asking which blocks belong to one chain; until then they lie by id.";
    const { numHashed, numTrees } = this.taken;
    if (!numHashed) return "No block has a hash, so all lie by id.";
    const trees = `${plural(numHashed, "block")} in ${plural(numTrees, "tree")} of prefixes`;
    return `${trees}${numTrees > 1 ? ", the largest first" : ""}; blocks without a hash come last.`;
  }

  #hear(buffer) {
    this.told = this.#read(buffer) ?? this.told;
    this.number += 1;
  }

  // Null where the blocks are others than those of the map by now: the next answer is of them.
  #read(buffer) {
    const view = new DataView(buffer);
    if (buffer.byteLength < HEADER || view.getUint32(0, true) !== MAGIC || view.getUint8(4) !== 1)
      throw new Error(UNREADABLE);
    const count = view.getUint32(12, true);
    if (buffer.byteLength !== HEADER + 4 * count) throw new Error(UNREADABLE);
    const { numBlocks, nullBlock } = this.feed.table ?? {};
    const cells = numBlocks - (nullBlock >= 0 && nullBlock < numBlocks ? 1 : 0);
    if (count !== cells) return null;
    const differences = new Uint32Array(buffer, HEADER, count);
    const [numHashed, numTrees] = [view.getUint32(24, true), view.getUint32(28, true)];
    const told = { differences, numBlocks, nullBlock, numHashed, numTrees };
    if (isSame(told, this.told)) return this.told; // nothing is painted anew
    const blocks = summed(differences);
    return { ...told, blocks, places: placesOf(blocks, numBlocks, nullBlock) };
  }
}

function isSame({ differences, ...rest }, other) {
  if (!other || Object.keys(rest).some((name) => rest[name] !== other[name])) return false;
  for (let at = 0; at < differences.length; at++)
    if (differences[at] !== other.differences[at]) return false;
  return true;
}

// Each is told as the difference from the one before, modulo 2^32.
function summed(differences) {
  const blocks = new Uint32Array(differences.length);
  let block = 0;
  for (let at = 0; at < blocks.length; at++) blocks[at] = block = (block + differences[at]) >>> 0;
  return blocks;
}

// Where each block is in the order. Every one but the null block has to be there once.
function placesOf(blocks, numBlocks, nullBlock) {
  const places = new Int32Array(numBlocks).fill(-1);
  for (let at = 0; at < blocks.length; at++) {
    const block = blocks[at];
    if (block >= numBlocks || block === nullBlock || places[block] !== -1) throw new Error(UNREADABLE);
    places[block] = at;
  }
  return places;
}
