// What a cache holds at most, and what its dtype gains: all from the engine's own descriptor.

import { count, size } from "./format.js";

const SHORT = { float32: "fp32", float16: "fp16", bfloat16: "bf16" };

/** The cache's dtype as options write it; empty where the source has none. */
export const dtypeName = (about) => {
  const name = about?.kv_cache_dtype;
  return name && name !== "none" ? (SHORT[name] ?? name) : "";
};

/** How many blocks this dtype has in the bytes of one in fp16; null where the source does not tell. */
export const gain = (about) =>
  about?.bytes_per_block && about.bytes_per_block_fp16
    ? about.bytes_per_block_fp16 / about.bytes_per_block
    : null;

/** `int4: 3.6× the blocks of fp16`; the dtype alone where that is no news. */
export function capacityWords(about) {
  const [name, times] = [dtypeName(about), gain(about)];
  return !name || times == null || times === 1 ? name : `${name}: ${times.toFixed(1)}× the blocks of fp16`;
}

/** The same in full, as lines of a tooltip. */
export function capacityLines(about) {
  if (!about?.bytes_per_block) return [];
  const usable = about.num_blocks - (about.null_block >= 0 ? 1 : 0);
  const tokens = count(usable * about.block_size);
  const room = `Capacity: ${count(usable)} blocks = ${tokens} tokens = ${size(usable * about.bytes_per_block)}.`;
  const name = dtypeName(about);
  const block = `A block of ${about.block_size} tokens takes ${size(about.bytes_per_block)}${name && ` in ${name}`}`;
  const times = gain(about);
  if (times == null || times === 1) return [room, `${block}.`];
  return [
    room,
    `${block}, scales and all; in fp16 it would take ${size(about.bytes_per_block_fp16)}.`,
    `For the same bytes: ${times.toFixed(2)} times the blocks of fp16.`,
  ];
}
