// What the feed does not carry of each block: how old it is, who holds it, and for which tenant. Each answer says what was
// so when it was made; a block that changed since is told from the feed where that is possible (nobody holds it), else by
// the next answer.

import { shortHash } from "./format.js";
import { MapAsking } from "./map_asking.js";
import { MapMedia } from "./map_media.js";
import { MapSlots } from "./map_slots.js";

const HEADER = 32;
const MAGIC = 0x4458564b; // "KVXD" read as little-endian u4
const VERSION = 3;
const HOLDERS_KNOWN = 1;
const TENANTS_TOLD = 2;
const UNKNOWN_AGE = 0xffffffff;
export const NOBODY = 0xffffffff;
export const UNKNOWN_HOLDER = 0xfffffffd;
const FIRST_SET = 0x80000000; // from here on sets of holders by their place, below it ordinals
const TENANT_FIRST = 5; // of the classes of tenants, as the backend tells them

// Seconds below which a block is of each step of the scale, the newest last.
const AGE_STEPS = [Infinity, 3600, 600, 60, 10, 1];
export const NAMED = 7; // holders, or tenants, with a colour of their own

/** Classes of ages, holders and tenants: unknown, nothing to tell, then steps or those named, others, several. */
export const CLASS_UNKNOWN = 0;
export const CLASS_NONE = 1;
export const CLASS_FIRST = 2;
export const CLASS_OTHERS = CLASS_FIRST + NAMED;
export const CLASS_SEVERAL = CLASS_OTHERS + 1;
export const CLASS_NOT_TOLD = CLASS_SEVERAL + 1;

const WITH_SHARERS = { sharers: 1 };
const ASKED = ["age", "holder", "tenant"];
const ASKING = {
  age: "Asking how old the blocks are.",
  holder: "Asking who holds the blocks.",
  tenant: "Asking for whom the blocks are held.",
};

/** Whether a holder word, neither nobody nor unknown, tells of more than one. */
export const isOfSeveral = (holder) => holder >= FIRST_SET;

/** Whether the colours of a mode come from answers, not from the feed. */
export const isAsked = (mode) => ASKED.includes(mode);

export class MapDetails {
  /** `changed()`: there is an answer. */
  constructor(feed, changed) {
    this.feed = feed;
    this.version = 0; // grows with every answer
    this.media = new MapMedia(feed);
    this.holderSlots = new MapSlots(NAMED);
    this.tenantSlots = new MapSlots(NAMED);
    this.#forget();
    this.asking = new MapAsking(feed, "state/details", {
      take: (buffer) => this.#take(buffer),
      forget: () => this.#forget(),
      changed,
    });
  }

  close() {
    this.asking.close();
  }

  /** Ask from now on, or no longer; `withSharers`: also who holds blocks together, which costs the backend more. */
  want(isWanted, withSharers) {
    this.asking.want(isWanted, withSharers ? WITH_SHARERS : null);
  }

  /** Why a mode has nothing to show yet, as a sentence; else "". */
  lack(mode) {
    if (mode === "medium") return this.media.lack();
    if (!isAsked(mode)) return "";
    if (this.asking.problem) return this.asking.problem;
    if (!this.ages) return ASKING[mode];
    if (mode !== "age" && !this.holdersKnown)
      return "Who holds blocks is not known since a gap, until a snapshot tells.";
    return mode === "tenant" && !this.tenantsTold ? "No request says for which tenant it is." : "";
  }

  /** Names of those in the places of the legend; null where there is none. */
  slotNames(mode) {
    if (mode === "medium") return this.media.names();
    return mode === "tenant" ? this.tenantSlots.names(shortHash) : this.holderSlots.names(this.nameOf);
  }

  nameOf = (ordinal) => this.names[ordinal] ?? this.sharers[ordinal] ?? `holder ${ordinal}`;

  /** Ordinals of all that hold the blocks of this holder word together; undefined where it is of no set. */
  together = (holder) => this.sets[holder - FIRST_SET];

  #forget() {
    this.ages = this.holders = this.tenants = null; // u1 classes, a block each
    this.holderOf = null; // ordinals, or why there is not one
    this.names = {};
    this.sharers = {};
    this.sets = [];
    this.holdersKnown = this.tenantsTold = true;
    this.version += 1;
    this.holderSlots.clear();
    this.tenantSlots.clear();
  }

  #take(buffer) {
    const view = new DataView(buffer);
    if (buffer.byteLength < HEADER || view.getUint32(0, true) !== MAGIC || view.getUint8(4) !== VERSION)
      throw new Error("The backend tells ages and holders in a form that this page does not read.");
    const count = view.getUint32(12, true);
    if (count !== this.feed.table?.numBlocks) return;
    const flags = view.getUint8(5);
    this.holdersKnown = (flags & HOLDERS_KNOWN) !== 0;
    this.tenantsTold = (flags & TENANTS_TOLD) !== 0;
    const tail = HEADER + 8 * count + (this.tenantsTold ? count : 0);
    const told = new Uint8Array(buffer, tail, view.getUint32(24, true));
    const { holders, tenants, together, sharers } = JSON.parse(new TextDecoder().decode(told));
    Object.assign(this, { names: holders, sets: together, sharers });
    this.version += 1;
    this.ages = ageClasses(new Uint32Array(buffer, HEADER, count));
    this.holderOf = new Uint32Array(buffer, HEADER + 4 * count, count);
    this.holders = this.#holderClasses();
    this.tenants = this.tenantsTold
      ? this.#tenantClasses(new Uint8Array(buffer, HEADER + 8 * count, count), tenants)
      : this.holders.map((found) => (found > CLASS_NONE ? CLASS_NOT_TOLD : found));
  }

  #holderClasses() {
    const { holderOf, holderSlots } = this;
    const counts = new Map(Object.keys(this.names).map((ordinal) => [Number(ordinal), 0]));
    for (const holder of holderOf) if (counts.has(holder)) counts.set(holder, counts.get(holder) + 1);
    holderSlots.place(counts);
    const classes = new Uint8Array(holderOf.length);
    let [last, found] = [-1, 0]; // holders come in runs
    for (let block = 0; block < classes.length; block++) {
      const holder = holderOf[block];
      if (holder !== last) [last, found] = [holder, classOfHolder(holder, holderSlots)];
      classes[block] = found;
    }
    return classes;
  }

  // `tenants`: of most blocks first.
  #tenantClasses(told, tenants) {
    const { tenantSlots } = this;
    tenantSlots.place(tenants.map((tenant, at) => [tenant, -at]));
    const fixed = [CLASS_UNKNOWN, CLASS_NONE, CLASS_NOT_TOLD, CLASS_SEVERAL, CLASS_OTHERS];
    const classOf = new Uint8Array(256).fill(CLASS_UNKNOWN);
    classOf.set(fixed);
    for (const [at, tenant] of tenants.entries())
      classOf[TENANT_FIRST + at] = classInPlace(tenantSlots.get(tenant));
    return told.map((code) => classOf[code]);
  }
}

const classInPlace = (slot) => (slot === undefined ? CLASS_OTHERS : CLASS_FIRST + slot);

function classOfHolder(holder, slots) {
  if (holder === NOBODY) return CLASS_NONE;
  if (holder === UNKNOWN_HOLDER) return CLASS_UNKNOWN;
  return isOfSeveral(holder) ? CLASS_SEVERAL : classInPlace(slots.get(holder));
}

function ageClasses(ages) {
  const classes = new Uint8Array(ages.length);
  const ends = AGE_STEPS.map((seconds) => seconds * 100);
  for (let block = 0; block < ages.length; block++) {
    const age = ages[block];
    if (age === UNKNOWN_AGE) continue;
    let step = ends.length - 1;
    while (age >= ends[step]) step -= 1;
    classes[block] = CLASS_FIRST + step;
  }
  return classes;
}
