// What an event says beyond its kind, in a few words; `event_words.py` says it alike (a browser test compares).
// Meanings of value, a0 and a1 follow the table of event kinds in the docs.

import { count, plural, shortHash } from "./format.js";

const hashWords = ({ parent, medium, group }) =>
  [parent && `after ${shortHash(parent)}`, medium, group == null ? "" : `group ${group}`].filter(Boolean).join(" · ");

const WORDS = {
  BlockReferenced: (event) => `ref count ${event.value}`,
  BlockDereferenced: (event) => `ref count ${event.value}`,
  BlockFilled: (event) => `${plural(event.value, "slot")} written`,
  BlockFreed: (event) => `to the ${event.a0 === 0 ? "front" : "tail"} of the free queue`,
  RequestArrived: (event) => `${plural(event.a1, "prompt token")}`,
  RequestScheduled: (event) => `${count(event.a1)} of ${plural(event.a0, "token")} from the prefix cache`,
  TokensGenerated: (event) => `${count(event.a1)} in all`,
  RequestPreempted: (event) =>
    `${plural(event.a0, "token")} to compute again${event.taker_id ? `, blocks to ${event.taker_id}` : ""}`,
  RequestResumed: (event) => `${plural(event.a0, "token")} to compute again`,
  RequestFinished: (event) => `${count(event.a0)} prompt, ${count(event.a1)} output tokens`,
  RequestAborted: (event) => `${count(event.a0)} prompt, ${count(event.a1)} output tokens`,
  RequestFailed: (event) => `${count(event.a0)} prompt, ${count(event.a1)} output tokens`,
  ResidencyStored: hashWords,
  ResidencyRemoved: hashWords,
  StepCompleted: (event) => `${plural(event.a1, "token")} computed`,
};

/** A few words, or "" when the kind says it all. `event` as in /api/events or a block's history. */
export function eventWords(event) {
  const words = event.value == null && event.a0 == null ? "" : (WORDS[event.kind]?.(event) ?? "");
  const cause = event.cause && event.cause !== "none" ? event.cause : "";
  return [cause, words].filter(Boolean).join(" · ");
}
