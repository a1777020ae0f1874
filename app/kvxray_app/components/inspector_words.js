// What the inspector says in words of a block's leak, of hashes and times that there are not, and of requests and prefixes.
// `details`: the answer of /api/blocks/{id}, or null.

import { NO_DATA, count, plural } from "./format.js";

export const NULL_BLOCK =
  "This is the null block: the engine keeps it aside, hands it out to nobody and counts it nowhere.";

/** Which of the holders leak, as far as the newest answer tells; `otherwise` when it does not. */
export function leakWords(details, otherwise) {
  const holders = details?.holders ?? [];
  const ended = holders.filter((holder) => holder.leaked).length;
  if (!ended) return otherwise;
  if (holders.length === 1) return "Its only holder has ended and still holds it.";
  if (ended === holders.length) return `All ${count(ended)} holders have ended and still hold it.`;
  const [has, holds] = ended === 1 ? ["has", "holds"] : ["have", "hold"];
  return `${count(ended)} of ${count(holders.length)} holders ${has} ended and still ${holds} it; the others live.`;
}

/** A missing hash is a fact of its own: said in words, not as a dash. */
export function noHashWords(details) {
  if (!details) return NO_DATA;
  return details.state === "unknown" ? "not known" : "none, not in the prefix cache";
}

export function noParentWords(details) {
  if (!details) return NO_DATA;
  return details.block_hash ? "none, first block of its prompt" : "none, as it has no hash";
}

/** What is to be known of a request beyond its status. `row`: as in the table of requests; `answers`: of its route. */
export function requestWords(row, answers) {
  if (!row) return answers.refused ? `${answers.problem} What is stored of it is below.` : "";
  if (row.leaked_blocks) return `Leak: it has ended and still holds ${plural(row.leaked_blocks, "block")}.`;
  if (row.status === "preempted") return "Its blocks were taken for others; it goes on when there is room again.";
  if (row.status === "waiting") return "It waits for a place in the batch, for the step's tokens, or for blocks.";
  return "";
}

/** Why a request has no such time: "Waited", "Prefill", "First token" or "Decode". */
export function noTimeWords(name, row) {
  if (row && !row.arrived_at && name !== "Decode") return "not seen";
  if (row?.preemptions && (name === "Waited" || name === "Prefill")) return "not known, it was preempted";
  return row?.ended_at ? "none" : "not yet";
}

/** Whether a prefix is in the cache, and whose it is. `answer`: of /api/prefixes/{hash}, or null. */
export function prefixWords(answer, isPast) {
  if (!answer) return "";
  const [is, can] = isPast ? ["was", "could"] : ["is", "can"];
  if (!answer.blocks.length) return `It ${is} not in the cache.`;
  const blocks = answer.blocks.length === 1 ? "" : ` in ${count(answer.blocks.length)} blocks`;
  const held = answer.holders.length ? `, held by ${count(answer.holders.length)}` : "";
  const broken = answer.is_whole ? "" : ` Its beginning ${is} not: no prompt ${can} hit it.`;
  return `It ${is} in the cache${blocks}${held}.${broken}`;
}
