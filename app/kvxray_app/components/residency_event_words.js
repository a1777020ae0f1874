// What an event of an engine that tells of hashes says, in words, and which of them belong together.

import { shortHash } from "./format.js";

const KINDS = { ResidencyStored: "Stored", ResidencyRemoved: "Removed", CacheCleared: "Cleared", StepStarted: "Batch" };
const CAUSES = {
  reuse_report: "a reuse",
  placeholder: "a placeholder: nobody told what it holds",
  store: "",
  remove: "",
  none: "",
};

/** {kind, words} of an event as `/api/events` gives it. */
export function residencyEventWords(event) {
  const cause = CAUSES[event.cause] ?? event.cause ?? "";
  const group = event.group == null ? "" : `group ${event.group}`;
  const after = event.parent ? `after ${shortHash(event.parent)}` : "";
  const words = [after, event.medium, group, cause].filter(Boolean).join("  ·  ");
  return { kind: KINDS[event.kind] ?? event.kind, words };
}

/**
 * Events, oldest first, as runs, newest first: {key, first, newest, size}. Of one run are neighbours of one kind, moment
 * and place; batches as such are left out.
 */
export function runsOfHashes(events) {
  const runs = [];
  for (const event of events) {
    if (event.kind === "StepStarted" || event.kind === "StepCompleted") continue;
    const last = runs.at(-1);
    if (last && isOfOne(last.newest, event)) Object.assign(last, { newest: event, size: last.size + 1 });
    else runs.push({ key: event.seq, first: event, newest: event, size: 1 });
  }
  return runs.reverse();
}

const isOfOne = (one, other) =>
  ["kind", "time", "cause", "medium", "group"].every((name) => one[name] === other[name]) &&
  other.kind.startsWith("Residency");
