// The overview of all engines, asked for once a second while somebody sees it; at a moment of the past, once.

import { Polling } from "./polling.js";

/** `source`: whose events `at` counts, where it counts events. */
export class OverviewFeed extends Polling {
  constructor(source, at, changed) {
    super("overview", at ? { source, at } : {}, changed, Boolean(at));
  }
}
