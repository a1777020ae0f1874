// Which part of the map is looked at, how it is coloured and laid out and which blocks are chosen: one for all panes of a
// source, so that two moments beside each other show the same part. Kept outside the DOM, like the selection: it survives
// script runs, themes and page changes; the address carries it (?mode=age&layout=chain&sel=100-250&zoom=8,0.5,0.25).

import { ChosenBlocks } from "./map_chosen.js";
import { WHOLE } from "./map_layout.js";

export const MODES = ["state", "references", "age", "holder", "tenant", "medium"];
export const LAYOUTS = ["id", "chain"];

const WRITE_AFTER_MS = 300; // browsers take few changes of an address a second
const views = new Map();

export function mapViewFor(source) {
  const key = source ?? "";
  if (!views.has(key)) views.set(key, new MapView(new URLSearchParams(location.search)));
  return views.get(key);
}

class MapView {
  constructor(query) {
    this.mode = MODES.includes(query.get("mode")) ? query.get("mode") : MODES[0];
    this.layout = LAYOUTS.includes(query.get("layout")) ? query.get("layout") : LAYOUTS[0];
    this.range = ChosenBlocks.parse(query.get("sel")); // or null
    this.part = parsePart(query.get("zoom")); // {zoom, x, y}, as MapLayout takes it
    this.listeners = new Set();
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  setMode(mode) {
    this.#set("mode", mode);
  }

  setLayout(layout) {
    this.#set("layout", layout);
  }

  /** Choose blocks (ChosenBlocks), or none (null). */
  choose(range) {
    if (range !== this.range && !range?.isSame(this.range)) this.#set("range", range);
  }

  look(part) {
    const { zoom, x, y } = this.part;
    if (part.zoom !== zoom || part.x !== x || part.y !== y) this.#set("part", part);
  }

  /** Write the address when things have come to rest; also after a page change, which clears it. */
  writeAddressSoon() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.#writeAddress(), WRITE_AFTER_MS);
  }

  /** A page without a map is not this map's to write to. */
  stopWriting() {
    clearTimeout(this.writing);
  }

  #set(what, value) {
    this[what] = value;
    this.writeAddressSoon();
    for (const listener of [...this.listeners]) listener(what);
  }

  #writeAddress() {
    const url = new URL(location.href);
    const { zoom, x, y } = this.part;
    const written = {
      mode: this.mode === MODES[0] ? null : this.mode,
      layout: this.layout === LAYOUTS[0] ? null : this.layout,
      sel: this.range && this.range.key,
      zoom: zoom > 1 ? [zoom.toFixed(2), x.toFixed(4), y.toFixed(4)].join(",") : null,
    };
    for (const [name, value] of Object.entries(written)) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    // Commas need no escape in a query, and a link that people read should have none.
    const href = url.href.replaceAll("%2C", ",");
    if (href !== location.href) history.replaceState(history.state, "", href);
  }
}

function parsePart(text) {
  const parts = (text ?? "").split(",").map(Number);
  const [zoom, x, y] = parts;
  const isSound =
    parts.length === 3 && zoom > 1 && zoom < 1e4 && [x, y].every((share) => share >= 0 && share <= 1);
  return isSound ? { zoom, x, y } : WHOLE;
}
