// Which blocks stand out and how far the others step back: those lit up, else the range that is chosen, else those that an
// alert marks, else those that differ from another moment, else those of the legend's pressed classes. Made anew only when one of them changes, since
// a new look repaints everything.

import { isAsked } from "./map_details.js";
import { Look, maskOf } from "./map_look.js";

const LIT_SHARE = 0.2;
const RANGE_SHARE = 0.45;
const MARKED_SHARE = 0.45;
const DIFFERING_SHARE = 0.35;

export class MapFocus {
  constructor() {
    this.only = null; // classes pressed in the legend, or null
    this.mode = null;
    this.made = new Map(); // by feed, of which there are two where two moments are compared
  }

  /** Press a class of the legend: it stands out, or no longer. */
  toggle(pressed) {
    const only = new Set(this.only ?? []);
    if (!only.delete(pressed)) only.add(pressed);
    this.only = only.size ? only : null;
  }

  /** Colours for the blocks of a feed as they are now. `details`: a MapDetails of it. */
  look(mode, palette, feed, details, { lit, range, marked, differing }) {
    if (this.mode !== mode) this.only = null;
    this.mode = mode;
    const numBlocks = feed.table?.numBlocks ?? 0;
    const media = mode === "medium" ? details.media.version(numBlocks) : "";
    const version = isAsked(mode) ? details.version : media;
    const parts = [mode, palette, this.only, numBlocks, version, lit, range, marked, differing];
    const made = this.made.get(feed);
    if (made && parts.every((part, at) => part === made.parts[at])) return made.look;
    const look = new Look(mode, palette, details, this.only, setOf(numBlocks, lit, range, marked, differing));
    this.made.set(feed, { parts, look });
    return look;
  }

  /** A feed is looked at no more. */
  forget(feed) {
    this.made.delete(feed);
  }
}

function setOf(numBlocks, lit, range, marked, differing) {
  if (lit) return { has: maskOf(lit, numBlocks), share: LIT_SHARE };
  if (range && !range.isOpen) return { has: range.mask(numBlocks), share: RANGE_SHARE };
  if (marked) return { has: maskOf(marked, numBlocks), share: MARKED_SHARE };
  return differing && { has: maskOf(differing, numBlocks), share: DIFFERING_SHARE };
}
