// The cached hashes of a source as `/api/residency/map` gives them, little endian: a 32-byte header, then columns.
// Decoding makes views, not copies.

export const ROOT = 0xffffffff; // of `parent`: it begins its chain
export const NOT_HERE = 0xfffffffe; // of `parent`: the block before it is not among these, or was never told
export const UNKNOWN_TIME = 0xffffffff; // of `age` and `idle`, which count hundredths of a second
export const MAYBE = 1; // of `certainty`
export const UNREACHABLE = 1; // of `flags`

const HEADER = 32;
const VERSION = 1;
const MAGIC = 0x4358564b; // "KVXC" read as little-endian u4
const COLUMNS = [
  ["ordinal", Uint32Array],
  ["parent", Uint32Array],
  ["place", Uint16Array],
  ["certainty", Uint8Array],
  ["flags", Uint8Array],
  ["age", Uint32Array],
  ["idle", Uint32Array],
  ["reuses", Uint16Array],
  ["depth", Uint16Array],
];
const ROW = COLUMNS.reduce((bytes, [, Column]) => bytes + Column.BYTES_PER_ELEMENT, 0);

/** Decode an answer; throws an Error for anything else than a whole one. `total` > `count`: not all are in it. */
export function decodeResidency(buffer) {
  if (buffer.byteLength < HEADER) throw new Error("The map is shorter than its header.");
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC || view.getUint8(4) !== VERSION)
    throw new Error("The map is not of this version.");
  const frame = {
    epoch: view.getUint32(8, true),
    count: view.getUint32(12, true),
    total: view.getUint32(16, true),
    trees: view.getUint32(20, true),
    time: view.getFloat64(24, true),
  };
  if (buffer.byteLength !== HEADER + frame.count * ROW) throw new Error("The map's size does not match its count.");
  let offset = HEADER;
  for (const [name, Column] of COLUMNS) {
    frame[name] = new Column(buffer, offset, frame.count);
    offset += frame.count * Column.BYTES_PER_ELEMENT;
  }
  return frame;
}

/** What tells a cell from all others, and stays while it is there. */
export const keyOf = (frame, at) => frame.ordinal[at] * 65536 + frame.place[at];
