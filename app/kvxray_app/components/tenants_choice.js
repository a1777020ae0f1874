// What makes a tenant, and whose blocks are marked on the map. Kept outside the DOM, one a source, so that it survives
// script runs and page changes; the address carries it (?by=salt&whose=salt:DIGEST), and leads to it from other pages.

export const KINDS = ["tenant", "salt", "lora", "session"];
export const REASONS = ["several", "not_told", "unknown"];

const NAMES = ["by", "whose"];
const LONGEST = 4200;
const choices = new Map();

export function tenantChoiceFor(source) {
  const key = source ?? "";
  // What the address says is of the source that the page opened with.
  if (!choices.has(key)) choices.set(key, new TenantChoice(choices.size ? new URLSearchParams() : addressed()));
  return choices.get(key);
}

/** Whose something is, as one word: "salt:DIGEST", or "several:" and the like. */
export const whoseKey = (kind, tenant = "") => `${kind}:${tenant}`;

/** What a route is asked for by such a word. */
export function whoseQuery(key) {
  const end = key.indexOf(":");
  return { whose: key.slice(0, end), tenant: key.slice(end + 1) || undefined };
}

class TenantChoice {
  constructor(query) {
    const [by, whose] = NAMES.map((name) => query.get(name));
    this.by = KINDS.includes(by) ? by : null; // null: of each name the first that it tells
    this.whose = isWhose(whose ?? "") ? whose : null;
    this.listeners = new Set();
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Another thing makes a tenant: who was marked is somebody else now. */
  setBy(by) {
    this.#set({ by, whose: null });
  }

  /** Mark these blocks, or none any more where they are marked. */
  toggle(whose) {
    this.#set({ whose: whose === this.whose ? null : whose });
  }

  letGo() {
    this.#set({ whose: null });
  }

  /** Put it into the address; also after a page change, which clears it. */
  writeAddress() {
    const url = new URL(location.href);
    for (const name of NAMES) {
      if (this[name] === null) url.searchParams.delete(name);
      else url.searchParams.set(name, this[name]);
    }
    if (url.href !== location.href) history.replaceState(history.state, "", url);
  }

  #set(next) {
    if (Object.entries(next).every(([name, value]) => this[name] === value)) return;
    Object.assign(this, next);
    this.writeAddress();
    for (const listener of [...this.listeners]) listener();
  }
}

function isWhose(text) {
  const kind = text.slice(0, Math.max(0, text.indexOf(":")));
  return text.length <= LONGEST && [...KINDS, ...REASONS].includes(kind);
}

const addressed = () => new URLSearchParams(location.search);
