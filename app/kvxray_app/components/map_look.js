// How blocks are coloured: each belongs to a class of what the map shows (its state, how many hold it, how old it is, who
// holds it, for which tenant, in which memory it lies), and each class has a colour. Blocks that shall step back have the
// faded colour of their class.

import { mix } from "./colours.js";
import { FULL, STATES, UNKNOWN } from "./frames.js";
import { CLASS_NONE, CLASS_UNKNOWN, NAMED } from "./map_details.js";
import { MEDIUM_CLASSES } from "./map_media.js";

export const FADED = 64; // added to the class of a block that steps back
export const LEAKED = STATES.length; // the class, by state, of a block that only ended requests hold
const FADED_SHARE = 0.17;

const UNKNOWN_CLASS = { name: "unknown", colour: "unknown" };
const NOBODY_CLASS = { name: "nobody", colour: "empty" };
const NAMED_CLASSES = [
  UNKNOWN_CLASS,
  NOBODY_CLASS,
  ...Array.from({ length: NAMED }, (_, at) => ({ name: null, colour: `holder-${at + 1}` })),
  { name: "others", colour: "holder-others" },
  { name: "several", colour: "holder-several" },
];
const scale = (names) => names.map((name, at) => ({ name, colour: `scale-${at + 1}` }));

const CLASSES = {
  state: [...STATES, "leaked"].map((name) => ({ name, colour: name })),
  references: [
    UNKNOWN_CLASS,
    NOBODY_CLASS,
    ...scale(["1", "2", "3–4", "5–8", "9–16", "17 or more"]),
  ],
  age: [
    UNKNOWN_CLASS,
    { name: "keeps nothing", colour: "empty" },
    ...scale(["1 h and more", "< 1 h", "< 10 min", "< 1 min", "< 10 s", "< 1 s"]),
  ],
  holder: NAMED_CLASSES,
  tenant: [...NAMED_CLASSES, { name: "not told", colour: "free" }],
  medium: MEDIUM_CLASSES,
};

const CACHED = STATES.indexOf("cached");

// The class of a block; `details` are as of the last answer, the table is as of now.
const CLASS_OF = {
  state: (table, block) => (table.isLeakedOnly(block) ? LEAKED : table.state[block]),
  references: (table, block) => REFERENCE_CLASS[table.ref[block]],
  age(table, block, { ages }) {
    const state = table.state[block];
    if (state < CACHED) return state === 0 ? CLASS_UNKNOWN : CLASS_NONE;
    return ages ? ages[block] : CLASS_UNKNOWN;
  },
  holder: (table, block, { holders }) => heldClass(table, block, holders),
  tenant: (table, block, { tenants }) => heldClass(table, block, tenants),
  medium: (table, block, { media }) => media.classOf(block),
};

function heldClass(table, block, classes) {
  if (table.ref[block] === 0) return CLASS_NONE;
  // Held by somebody since the answer: the next one tells by whom.
  return classes && classes[block] !== CLASS_NONE ? classes[block] : CLASS_UNKNOWN;
}

const REFERENCE_CLASS = Uint8Array.from({ length: 256 }, (_, ref) => {
  if (ref === UNKNOWN) return 0;
  const steps = [0, 1, 2, 4, 8, 16, FULL];
  return 1 + steps.findIndex((most) => ref <= most);
});

export class Look {
  /**
   * `mode`: what the colours tell. `details`: a MapDetails. `only`: classes that stand out, null = all. `lit`: {has: u1 a
   * block, share}, or null.
   */
  constructor(mode, palette, details, only = null, lit = null) {
    Object.assign(this, { mode, details, only, lit });
    this.classes = CLASSES[mode];
    this.kindOf = CLASS_OF[mode];
    const panel = palette["kx-panel"];
    const share = lit?.share ?? FADED_SHARE;
    this.colours = [];
    for (const [at, { colour }] of this.classes.entries()) {
      const solid = palette[`kx-${colour}`];
      this.colours[at] = solid;
      this.colours[at + FADED] = mix(solid, panel, share);
    }
  }

  classOf(table, block) {
    return this.kindOf(table, block, this.details);
  }

  /** The class of a block, FADED added when it steps back: an index of `colours`. */
  indexOf(table, block) {
    const found = this.classOf(table, block);
    if (!this.only && !this.lit) return found;
    return this.#isFaded(table, block, found) ? found + FADED : found;
  }

  /** How many blocks are of each class; the null block is of none. */
  counts(table) {
    const counts = new Uint32Array(this.classes.length);
    for (let block = 0; block < table.numBlocks; block++)
      if (!table.isNull(block)) counts[this.classOf(table, block)] += 1;
    return counts;
  }

  #isFaded(table, block, found) {
    if (this.lit && !this.lit.has[block]) return true;
    if (!this.only || this.only.has(found)) return false;
    // A leaked block is counted under its state as well.
    if (this.mode !== "state") return true;
    return !this.only.has(table.state[block]) && !(this.only.has(LEAKED) && table.isLeaked(block));
  }
}

/** Which of `numBlocks` blocks are in a list: one byte each. */
export function maskOf(blocks, numBlocks) {
  const has = new Uint8Array(numBlocks);
  for (const block of blocks) if (block < numBlocks) has[block] = 1;
  return has;
}
