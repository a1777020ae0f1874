// What the panel of tenants says: about tenants, what is none's, and why nothing is known.

import { NO_DATA, count, percent, plural, seconds, shortHash, timeOfDay } from "./format.js";

export const TITLE = "Shares by tenant";
export const ASKING = "Asking whose the cache is.";

/** What makes a tenant: a name, in a row a word beside it, and what it means. */
export const KIND_WORDS = {
  first: ["Any", "", "A tenant is the first that its requests tell: tenant, cache salt, LoRA adapter, session."],
  tenant: ["Tenant", "tenant", "As requests name their tenant."],
  salt: ["Salt", "salt", "By cache salt: only requests with the same salt share blocks."],
  lora: ["Adapter", "adapter", "By LoRA adapter."],
  session: ["Session", "session", "By session."],
};

const REST_WORDS = {
  several: ["Shared by several", "Blocks that several tenants hold at once: counted here, and for none of them."],
  others: ["further tenants", "All tenants beyond the 64 of most, together."],
  not_told: ["Not told", "Of requests, or stores, that do not tell what is asked for."],
  unknown: [
    "Not known",
    "Nothing tells whose it is: its allocation is not among the events read, its holder is not known, or its chain " +
      "begins where nothing was told.",
  ],
};
const A_DIGEST = "A keyed digest: equal wherever the name is, and nothing else can be read from it.";

const DIGEST = /^[0-9a-f]{16,}$/;

/** What a row is called: [name, word beside it]. */
export function rowName({ kind, name, num }) {
  if (kind === "others") return [`${count(num)} ${REST_WORDS.others[0]}`, ""];
  if (kind in REST_WORDS) return [REST_WORDS[kind][0], ""];
  return [DIGEST.test(name) ? shortHash(name) : name, KIND_WORDS[kind][1]];
}

/** Lines that explain a row; the first is its whole name. */
export function rowLines(row, view, marks) {
  const { kind, name } = row;
  const isTenant = !(kind in REST_WORDS);
  const [, rest] = REST_WORDS[kind] ?? [];
  return [
    isTenant ? short(name) : rowName(row)[0],
    isTenant ? KIND_WORDS[kind][2] : rest,
    isTenant && DIGEST.test(name) ? A_DIGEST : "",
    kind === "others" ? "" : marks,
    view.unit === "blocks" && isTenant && row.lost ? evictedWords(row) : "",
  ];
}

const evictedWords = ({ lost, took }) => `${plural(lost, "block")} of its evicted, ${count(took)} evicted for it.`;

// Somebody outside gave it: it may be as long as they like.
const short = (name) => (name.length > 160 ? `${name.slice(0, 150)}… (${count(name.length)} characters)` : name);

/** An amount and its share: ["1,234", "12.3%"]. */
export const amountWords = (amount, share) => [amount === null ? NO_DATA : count(amount), share === null ? "" : percent(share)];

/** Over which time evictions are counted. */
export const windowWords = ({ seconds: lasted }) =>
  lasted >= 59.5 ? "in 60 s" : `in ${lasted < 1 ? seconds(lasted) : `${Math.round(lasted)} s`}`;

/** Why there is no table: a title, and what would make it known. */
export function nothingWords(view) {
  const { unit, held, cached, by, told } = view;
  const amount = (shares) => shares?.total ?? 0;
  if (!amount(held) && !amount(cached) && !view.evictions?.num)
    return ["The cache is empty", "Whose it is shows as soon as something is held or cached."];
  if (by && told.length) return [`No name tells a ${KIND_WORDS[by][1]}`, "Choose another thing that makes a tenant."];
  const has = [held && `${plural(held.total, "block")} held`, `${plural(cached.total, unit === "blocks" ? "block" : "hash", unit === "blocks" ? "blocks" : "hashes")} cached`];
  return [
    "Whose the cache is, is not told",
    `${has.filter(Boolean).join(", ")}, of requests that name neither tenant, cache salt, LoRA adapter nor session. ${
      unit === "blocks"
        ? "Send requests with a cache_salt, and each salt becomes a tenant."
        : "Send requests with a cache salt or to an adapter: engines that tell these with what they store make it known."
    }`,
  ];
}

const BEHIND_MS = 8000; // what is stored is read every few seconds

/** What is not known of the evictions that are counted; "" where nothing is missing. */
export function lackWords({ seq, time, evictions }) {
  const { num, lost_unknown: unknown, until, until_time: last } = evictions;
  const isBehind = until !== seq && Date.parse(time) - Date.parse(last) > BEHIND_MS;
  const whose = unknown ? `Whose the block was is not known of ${unknown === num ? "any" : count(unknown)} of them.` : "";
  const later = isBehind ? `Nothing is stored of what came after ${timeOfDay(last)}: it is not counted.` : "";
  return [whose, later].filter(Boolean).join(" ");
}
