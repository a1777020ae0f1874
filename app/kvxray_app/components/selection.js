// What the reader is looking at: a block, a request, and blocks lit up on the map. Kept here, outside the DOM,
// one a source, so that it survives script runs, remounts and page changes; block and request are in the
// address (?block=12&request=agent-3), which is the permalink.

const selections = new Map();

export function selectionFor(source) {
  const key = source ?? "";
  if (!selections.has(key)) selections.set(key, new Selection());
  return selections.get(key);
}

class Selection {
  constructor() {
    const query = new URLSearchParams(location.search);
    const block = query.get("block") ?? "";
    this.block = /^\d{1,9}$/.test(block) ? Number(block) : null;
    this.request = query.get("request") || null;
    this.lit = null; // {label, blocks: [ids]}: blocks that stand out on the map
    this.listeners = new Set();
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  selectBlock(block) {
    if (block === this.block) return;
    this.block = block;
    this.#changed("block");
  }

  selectRequest(request) {
    if (request === this.request) return;
    this.request = request;
    this.#changed("request");
  }

  /** Nothing is selected and nothing lit any more. */
  letGo() {
    this.selectBlock(null);
    this.selectRequest(null);
    this.light(null);
  }

  /** Light blocks up (`{label, blocks}`), or none (null). */
  light(lit) {
    if (lit === this.lit) return;
    this.lit = lit;
    this.#tell("lit");
  }

  /** Put the selection into the address; also after a page change, which clears it. */
  writeAddress() {
    const url = new URL(location.href);
    setOrDelete(url.searchParams, "block", this.block);
    setOrDelete(url.searchParams, "request", this.request);
    if (url.href !== location.href) history.replaceState(history.state, "", url);
  }

  #changed(what) {
    this.writeAddress();
    this.#tell(what);
  }

  #tell(what) {
    for (const listener of [...this.listeners]) listener(what);
  }
}

function setOrDelete(params, name, value) {
  if (value === null) params.delete(name);
  else params.set(name, value);
}
