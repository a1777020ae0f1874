// Where the reader is on the page of alerts: which tab, which alert and which rule. It is in the address
// (?tab=history, ?id=ALERT, ?rule=NAME), which the browser's back and forward go through.

const NAMES = ["tab", "id", "rule"];

export class AlertsPlace {
  constructor() {
    this.listeners = new Set();
    this.#read();
    this.onPop = () => {
      this.#read();
      this.#tell();
    };
    window.addEventListener("popstate", this.onPop);
  }

  close() {
    window.removeEventListener("popstate", this.onPop);
  }

  subscribe(listener) {
    this.listeners.add(listener);
  }

  /** An alert is where alerts are, a rule is among the rules, unless somebody says otherwise. */
  get tab() {
    if (this.named) return this.named;
    return this.rule ? "rules" : "active";
  }

  /** `{tab, id, rule}`: what is left out is left. */
  go({ tab = null, id = null, rule = null }) {
    if (tab === this.named && id === this.id && rule === this.rule) return;
    Object.assign(this, { named: tab, id, rule });
    const href = placeUrl({ tab, id, rule });
    if (href !== location.href) history.pushState(history.state, "", href);
    this.#tell();
  }

  #read() {
    const query = new URLSearchParams(location.search);
    const [tab, id, rule] = NAMES.map((name) => query.get(name) || null);
    Object.assign(this, { named: ["active", "history", "rules"].includes(tab) ? tab : null, id, rule });
  }

  #tell() {
    for (const listener of [...this.listeners]) listener();
  }
}

/** The address of a place of this page. */
export function placeUrl(place) {
  const url = new URL(location.href);
  for (const name of NAMES) {
    if (place[name]) url.searchParams.set(name, place[name]);
    else url.searchParams.delete(name);
  }
  return url.href;
}
