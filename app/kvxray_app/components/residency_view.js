// How the map of cached hashes is looked at: its colours, how its cells lie, which part is enlarged and which hash is
// selected. Kept outside the DOM, one a source, so that it survives script runs, themes and page changes; the address
// carries all but the part (?mode=reuses&layout=rows&hash=HEX).

import { MODES } from "./residency_look.js";
import { WHOLE } from "./residency_part.js";

export const LAYOUTS = ["tree", "rows"];

const HASH = /^([0-9a-f]{2}){1,64}$/;
const views = new Map();

export function residencyViewFor(source) {
  if (!views.has(source)) views.set(source, new ResidencyView(new URLSearchParams(views.size ? "" : location.search)));
  return views.get(source);
}

class ResidencyView {
  constructor(query) {
    const [mode, layout, hash] = ["mode", "layout", "hash"].map((name) => query.get(name));
    this.mode = MODES.includes(mode) ? mode : MODES[0];
    this.layout = LAYOUTS.includes(layout) ? layout : LAYOUTS[0];
    this.hash = HASH.test(hash ?? "") ? hash : null;
    this.ordinal = null; // of the selected hash, once it is known; hashes come as ordinals with the map
    this.only = null; // classes of the legend that stand out, null: all
    this.part = WHOLE;
    this.listeners = new Set();
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  setMode(mode) {
    this.only = null;
    this.#set({ mode });
  }

  setLayout(layout) {
    this.part = WHOLE;
    this.#set({ layout });
  }

  look(part) {
    this.#set({ part });
  }

  /** Let one class of the legend stand out, or no longer. */
  toggle(at) {
    const only = new Set(this.only ?? []);
    if (!only.delete(at)) only.add(at);
    this.#set({ only: only.size ? only : null });
  }

  /** Select a hash by what is known of it. */
  select({ hash = null, ordinal = null }) {
    this.#set({ hash, ordinal });
  }

  get isSelected() {
    return this.hash !== null || this.ordinal !== null;
  }

  letGo() {
    this.#set({ hash: null, ordinal: null, only: null });
  }

  /** The selected hash was asked for under one name and has the other too. */
  resolve(hash, ordinal) {
    if (hash === this.hash && (ordinal === this.ordinal || ordinal === null)) return;
    this.#set({ hash, ordinal: ordinal ?? this.ordinal });
  }

  /** Put it into the address; also after a page change, which clears it. */
  writeAddress() {
    const url = new URL(location.href);
    const written = {
      mode: this.mode === MODES[0] ? null : this.mode,
      layout: this.layout === LAYOUTS[0] ? null : this.layout,
      hash: this.hash,
    };
    for (const [name, value] of Object.entries(written)) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    if (url.href !== location.href) history.replaceState(history.state, "", url);
  }

  #set(next) {
    Object.assign(this, next);
    if (!("part" in next)) this.writeAddress();
    for (const listener of [...this.listeners]) listener();
  }
}
