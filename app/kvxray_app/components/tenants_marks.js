// Which blocks, or hashes, are of the tenant that is chosen: asked for at the moment shown, again while it goes on.

import { getJson } from "./address.js";
import { whoseQuery } from "./tenants_choice.js";

const EVERY_MS = 2000;

export class TenantMarks {
  /** `choice`: a TenantChoice; `query()`: the source and moment to ask about; `changed()`: called when more is known. */
  constructor(choice, query, changed) {
    Object.assign(this, { choice, query, changed, ids: null, leftOut: 0, problem: "" });
    this.asking = null;
    this.whose = choice.whose;
    this.exit = choice.subscribe(() => this.follow());
    if (this.whose !== null) this.#ask();
  }

  close() {
    this.exit();
    this.#rest();
  }

  /** Another tenant, or another moment. */
  follow() {
    this.#rest();
    const { whose } = this.choice;
    if (whose !== this.whose) Object.assign(this, { whose, ids: null, leftOut: 0, problem: "" });
    if (whose === null) this.changed();
    else this.#ask();
  }

  #rest() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }

  async #ask() {
    const asking = (this.asking = new AbortController());
    const query = this.query();
    const { by, whose } = this.choice;
    try {
      const told = await getJson("tenants/blocks", { ...query, by, ...whoseQuery(whose) }, asking.signal);
      if (asking !== this.asking) return;
      Object.assign(this, { ids: spread(told.runs), leftOut: told.left_out, problem: "" });
    } catch (error) {
      if (asking !== this.asking) return;
      // What was marked at another moment is not marked at this one.
      Object.assign(this, { problem: error.message, ...(query.at == null ? {} : { ids: null, leftOut: 0 }) });
    }
    this.changed();
    if (query.at == null || this.problem) this.#askLater();
  }

  // Not while nobody sees the page.
  #askLater() {
    this.timer = setTimeout(() => (document.hidden ? this.#askLater() : this.#ask()), EVERY_MS);
  }
}

function spread(runs) {
  const ids = new Uint32Array(runs.reduce((sum, [, number]) => sum + number, 0));
  let at = 0;
  for (const [first, number] of runs) for (let next = first; next < first + number; next++) ids[at++] = next;
  return ids;
}
