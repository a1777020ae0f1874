// What the reader is looking at: a block or a prefix (a block hash), a request, and blocks lit up on the map. Kept here,
// outside the DOM, one a source, so that it survives script runs, remounts and page changes; all but what is lit up is in
// the address (?block=12&request=agent-3, ?prefix=HASH), which is the permalink.
//
// A request lies under the block or prefix that was reached from it: letting go of those comes back to it. Selecting a
// request lets go of what lay over the one before.

const selections = new Map();
const NAMES = ["block", "prefix", "request"];

export function selectionFor(source) {
  const key = source ?? "";
  if (!selections.has(key)) selections.set(key, new Selection());
  return selections.get(key);
}

class Selection {
  constructor() {
    Object.assign(this, addressed());
    this.lit = null; // {label, blocks: [ids]}: blocks that stand out on the map
    this.listeners = new Set();
  }

  /** What the inspector is about, `{kind: "block" | "prefix" | "request", id}`, or null. */
  get subject() {
    const kind = NAMES.find((name) => this[name] !== null);
    return kind ? { kind, id: this[kind] } : null;
  }

  /** Told which of "block", "prefix", "request", "lit" is another, or "seek". Returns the way out. */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  selectBlock(block) {
    this.#set(block === null ? { block } : { block, prefix: null });
  }

  selectPrefix(prefix) {
    this.#set(prefix === null ? { prefix } : { prefix, block: null });
  }

  selectRequest(request) {
    this.#set(request === null ? { request } : { request, block: null, prefix: null });
  }

  /** Let go of what the inspector shows, and come back to what lies under it. */
  letGoOfSubject() {
    const { subject } = this;
    if (subject) this.#set({ [subject.kind]: null });
  }

  /** Nothing is selected and nothing lit any more. */
  letGo() {
    this.#set({ block: null, prefix: null, request: null });
    this.light(null);
  }

  /** Light blocks up (`{label, blocks}`), or none (null). */
  light(lit) {
    if (lit === this.lit) return;
    this.lit = lit;
    this.#tell(["lit"]);
  }

  /** Put the selection into the address; also after a page change, which clears it. */
  writeAddress() {
    const { href } = this.#address();
    if (href !== location.href) history.replaceState(history.state, "", href);
  }

  /** Bring the row of the selected request into sight. */
  seekRequest() {
    this.#tell(["seek"]);
  }

  /** Be what the address says: the browser went back or forward. */
  readAddress() {
    const told = this.#differing(addressed());
    this.#tell(told);
  }

  // Every choice is a place that the browser's back button comes back to.
  #set(next) {
    const told = this.#differing(next);
    if (!told.length) return;
    const { href } = this.#address();
    if (href !== location.href) history.pushState(history.state, "", href);
    this.#tell(told);
  }

  #differing(next) {
    const names = Object.keys(next).filter((name) => next[name] !== this[name]);
    for (const name of names) this[name] = next[name];
    return names;
  }

  #address() {
    const url = new URL(location.href);
    for (const name of NAMES) {
      if (this[name] === null) url.searchParams.delete(name);
      else url.searchParams.set(name, this[name]);
    }
    return url;
  }

  #tell(names) {
    for (const name of names) for (const listener of [...this.listeners]) listener(name);
  }
}

function addressed() {
  const query = new URLSearchParams(location.search);
  const [block, prefix] = [query.get("block") ?? "", query.get("prefix") ?? ""];
  return {
    block: /^\d{1,9}$/.test(block) ? Number(block) : null,
    prefix: /^([0-9a-f]{2}){1,32}$/.test(prefix) ? prefix : null,
    request: query.get("request") || null,
  };
}
