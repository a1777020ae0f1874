// In which memory each block lies: its pool's medium, as the descriptor of the source tells. It does not change while an
// engine lives, so nothing is asked for.

const MEDIA = ["GPU", "CPU", "DISK", "REMOTE"];
const UNKNOWN = 0;
const FIRST = 1;
const OTHER = FIRST + MEDIA.length;

/** What the map calls each class: unknown, the media, any other. */
export const MEDIUM_CLASSES = [
  { name: "unknown", colour: "unknown" },
  ...["holder-1", "holder-2", "holder-3", "holder-5"].map((colour) => ({ name: null, colour })),
  { name: "other", colour: "holder-others" },
];

export class MapMedia {
  constructor(feed) {
    this.feed = feed;
    this.told = null;
    this.classes = null;
  }

  get pools() {
    return this.feed.summary?.source?.descriptor?.pools ?? [];
  }

  /** Why there is nothing to show, as a sentence; else "". */
  lack() {
    return this.pools.length ? "" : "The source does not tell in which memory its blocks lie.";
  }

  /** Media that there are, one for each place; null where there is none. */
  names() {
    const there = new Set(this.pools.map(({ medium }) => medium));
    return MEDIA.map((medium) => (there.has(medium) ? medium : null));
  }

  /** The class of a block. */
  classOf(block) {
    return this.classes?.[block] ?? UNKNOWN;
  }

  /** Bring the classes up to date; returns what they were made from, which is equal while they are. */
  version(numBlocks) {
    const told = JSON.stringify([numBlocks, this.pools]);
    if (told === this.told) return told;
    this.told = told;
    this.classes = new Uint8Array(numBlocks);
    for (const { medium, first_block_id: first, num_blocks: number } of this.pools) {
      const at = MEDIA.indexOf(medium);
      this.classes.fill(at < 0 ? OTHER : FIRST + at, first, first + number);
    }
    return told;
  }
}
