// Moments of a source worth a mark on any chart over time: what was found, and what somebody marked.

import { getJson } from "./address.js";

const KNOWN_AS = { gap: "gap", epoch: "restart" };

/** `findings`, `bookmarks`: as the API told them last. */
export class Marks {
  constructor(source) {
    Object.assign(this, { source, findings: [], bookmarks: [] });
  }

  async refresh(signal) {
    const { source } = this;
    const [findings, bookmarks] = await Promise.all([
      getJson("findings", { source }, signal),
      getJson("bookmarks", { source }, signal),
    ]);
    Object.assign(this, { findings: findings.findings, bookmarks: bookmarks.bookmarks });
  }

  /** These and `others`, oldest first: `{kind, time (ms), at: EPOCH.SEQ or null, words, severity}`. */
  with(others) {
    const found = this.findings.map((each) => ({
      kind: KNOWN_AS[each.kind] ?? "finding",
      time: Date.parse(each.time),
      at: null,
      words: each.mark || each.sentence,
      severity: each.severity,
    }));
    const marked = this.bookmarks.map((mark) => ({
      kind: "bookmark",
      time: Date.parse(mark.time),
      at: mark.at,
      words: mark.note || "Bookmark",
    }));
    return [...found, ...marked, ...others].sort((a, b) => a.time - b.time);
  }
}
