// Which blocks, or hashes, are of the tenant that is chosen: asked for at the moment shown, again while it goes on.

import { Polling } from "./polling.js";
import { whoseQuery } from "./tenants_choice.js";

const EVERY_MS = 2000;

export class TenantMarks {
  /** `choice`: a TenantChoice; `query()`: the source and moment to ask about; `changed()`: called when more is known. */
  constructor(choice, query, changed) {
    Object.assign(this, { choice, query, changed, whose: choice.whose, ids: null, leftOut: 0, problem: "", asked: null });
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
    this.asked?.close();
    this.asked = null;
  }

  #ask() {
    const query = this.query();
    const { by, whose } = this.choice;
    const isPast = query.at != null;
    const took = () => this.#take(isPast);
    this.asked = new Polling("tenants/blocks", { ...query, by, ...whoseQuery(whose) }, took, isPast);
    this.asked.everyMs = EVERY_MS;
  }

  #take(isPast) {
    const { told, failed } = this.asked;
    // What was marked at another moment is not marked at this one.
    if (failed) Object.assign(this, { problem: failed, ...(isPast ? { ids: null, leftOut: 0 } : {}) });
    else Object.assign(this, { ids: spread(told.runs), leftOut: told.left_out, problem: "" });
    this.changed();
  }
}

function spread(runs) {
  const ids = new Uint32Array(runs.reduce((sum, [, number]) => sum + number, 0));
  let at = 0;
  for (const [first, number] of runs) for (let next = first; next < first + number; next++) ids[at++] = next;
  return ids;
}
