// The binary frames of the live feed, little endian: a 64-byte header, then columns. Decoding makes views, not
// copies.

export const STATES = ["unknown", "empty", "free", "cached", "active", "shared"];
export const SNAPSHOT = 1;
export const DELTA = 2;
export const FLAG_LEAKED = 1;
export const FLAG_NULL = 2;
export const FLAG_HASHED = 4;
export const FLAG_LEAKED_ONLY = 8; // with FLAG_LEAKED: none of its holders lives any more
export const FULL = 254; // fill and ref counts go from 0 to 254
export const UNKNOWN = 255;

const HEADER = 64;
const VERSION = 1;
const MAGIC = 0x4258564b; // "KVXB" read as little-endian u4

/**
 * Decode a snapshot or a delta. Values of a delta are absolute: applying one twice does no harm.
 * A snapshot has one row a block id; `ids` is null then. Throws an Error for anything else than a whole frame.
 */
export function decodeFrame(buffer) {
  if (buffer.byteLength < HEADER) throw new Error("a frame is shorter than its header");
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC || view.getUint8(4) !== VERSION)
    throw new Error("not a frame of this version");
  const frame = {
    type: view.getUint8(5),
    epoch: view.getUint32(8, true),
    numBlocks: view.getUint32(12, true),
    seqFrom: view.getFloat64(16, true),
    seqTo: view.getFloat64(24, true),
    time: view.getFloat64(32, true),
    count: view.getUint32(40, true),
    nullBlock: view.getInt32(44, true),
    blockSize: view.getUint32(48, true),
    usable: view.getUint32(52, true),
    ids: null,
  };
  if (frame.type !== SNAPSHOT && frame.type !== DELTA) throw new Error("a frame of an unknown type");
  const idBytes = frame.type === DELTA ? 4 : 0;
  if (buffer.byteLength !== HEADER + frame.count * (idBytes + 4))
    throw new Error("a frame's size does not match its count");
  if (frame.type === SNAPSHOT && frame.count !== frame.numBlocks) throw new Error("a snapshot lacks blocks");
  let offset = HEADER;
  if (idBytes) {
    frame.ids = new Uint32Array(buffer, offset, frame.count);
    offset += idBytes * frame.count;
  }
  for (const column of ["state", "ref", "fill", "flags"]) {
    frame[column] = new Uint8Array(buffer, offset, frame.count);
    offset += frame.count;
  }
  return frame;
}
