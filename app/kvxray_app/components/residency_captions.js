// What a tree of prefixes says by itself, where there is room for words: what many prompts share, where each chain ends,
// and how deep in a prompt one is. Pure: which words, and where.

import { count, plural } from "./format.js";

const NONE = -1;

/**
 * Of a tree layout: `shared`: stretches of blocks that equally many branches follow, [{col, row, wide, span}];
 * `ends`: the last block of every branch, [{col, row, ordinal}]. `ordinals`: the hash of each cell.
 */
export function captionsOf(layout, ordinals) {
  const { col, row, span, parent } = layout;
  const isLast = new Uint8Array(col.length).fill(1);
  for (const above of parent) if (above !== NONE) isLast[above] = 0;
  const ends = [];
  const stretches = new Map(); // by its place of "row span": bands that begin in one row differ in their height
  for (let at = 0; at < col.length; at++) {
    if (isLast[at]) ends.push({ col: col[at], row: row[at], ordinal: ordinals[at] });
    if (span[at] < 2) continue;
    const key = `${row[at]} ${span[at]}`;
    const before = stretches.get(key);
    const [from, to] = [Math.min(before?.from ?? col[at], col[at]), Math.max(before?.to ?? col[at], col[at])];
    stretches.set(key, { from, to, row: row[at], span: span[at] });
  }
  const shared = [...stretches.values()].map(({ from, to, ...band }) => ({ col: from, wide: to - from + 1, ...band }));
  return { shared, ends };
}

/** How many prompts end in a stretch: what several groups of layers or memories hold is one prompt. */
export function numPrompts({ row, span }, ends) {
  const here = ends.filter((end) => end.row >= row && end.row < row + span);
  return new Set(here.map(({ ordinal }) => ordinal)).size;
}

/** So many tokens or blocks, in words. `blockSize`: tokens, null where blocks are not all of one size. */
export const lengthWords = (blocks, blockSize) =>
  blockSize ? `${count(blocks * blockSize)} tokens` : plural(blocks, "block");

/** Where marks of depth stand, in columns, about `apart` pixels from each other or more. */
export function depthMarks(cols, width, apart) {
  const least = Math.max(1, apart / width);
  const size = 10 ** Math.floor(Math.log10(least));
  const step = Math.ceil([1, 2, 5, 10].find((factor) => factor * size >= least) * size);
  return Array.from({ length: Math.floor(cols / step) + 1 }, (_, number) => number * step);
}
