// The one switch between blocks, tokens and bytes: every tile and readout follows it. Remembered by the
// browser.

import { NO_DATA, count, size } from "./format.js";

export const UNITS = ["blocks", "tokens", "bytes"];

const KEY = "kvxray-unit";
const listeners = new Set();
let unit = UNITS.includes(recall()) ? recall() : "blocks";

export const currentUnit = () => unit;

export function setUnit(next) {
  if (next === unit || !UNITS.includes(next)) return;
  unit = next;
  try {
    localStorage.setItem(KEY, unit);
  } catch {
    // Storage can be forbidden: then the choice lasts as long as the page.
  }
  for (const listener of [...listeners]) listener(unit);
}

export function onUnit(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A number of blocks in the chosen unit, as text without its unit where that is not bytes. */
export function amount(blocks, state) {
  if (blocks == null) return NO_DATA;
  if (unit === "tokens") return count(blocks * state.block_size);
  if (unit === "bytes") return state.bytes_per_block ? size(blocks * state.bytes_per_block) : NO_DATA;
  return count(blocks);
}

/** "blocks" or "token slots"; bytes carry their unit in the amount. */
export const unitWord = () => (unit === "tokens" ? "token slots" : unit === "bytes" ? "" : "blocks");

function recall() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
