// The rows of the panel of tenants, made of an answer of /api/tenants. Pure.

import { whoseKey } from "./tenants_choice.js";

/**
 * One row each, those of most first, then what is no tenant's: {key, kind, name, held, cached, lost, took}. An amount is
 * null where it is not known: a tenant beyond the 64 of most that are told has something, nobody says how much.
 */
export function rowsOf({ held, cached, evictions }) {
  const rows = new Map();
  const parts = { held, cached };
  for (const [column, shares] of Object.entries(parts))
    for (const { told_by, tenant, amount } of shares?.tenants ?? []) rowOf(rows, told_by, tenant)[column] = amount;
  for (const { told_by, tenant, lost, took } of evictions?.tenants ?? [])
    Object.assign(rowOf(rows, told_by, tenant), { lost, took });
  const tenants = [...rows.values()].map((row) => ({ ...row, ...filled(row, parts, evictions) }));
  return [...tenants.sort(mostFirst), ...restRows(parts, evictions)];
}

/** Whether any tenant is told at all. */
export const namesAny = ({ held, cached, evictions }) =>
  [held, cached, evictions].some((told) => told?.tenants.length) || [held, cached].some((told) => told?.several);

/** A share of a whole, null where there is none. */
export const shareOf = (amount, shares) => (amount === null || !shares?.total ? null : amount / shares.total);

function rowOf(rows, kind, name) {
  const key = whoseKey(kind, name);
  if (!rows.has(key)) rows.set(key, { key, kind, name });
  return rows.get(key);
}

// Who is not among those told has nothing, unless more are left out.
function filled(row, parts, evictions) {
  const none = (told) => (told && !told.num_others ? 0 : null);
  const found = Object.fromEntries(Object.entries(parts).map(([name, shares]) => [name, row[name] ?? none(shares)]));
  return { ...found, lost: row.lost ?? none(evictions), took: row.took ?? none(evictions) };
}

function restRows(parts, evictions) {
  const of = (name) => ({ held: parts.held?.[name] ?? null, cached: parts.cached?.[name] ?? null });
  const numOthers = Math.max(parts.held?.num_others ?? 0, parts.cached?.num_others ?? 0);
  const lost = (name) => evictions?.[`lost_${name}`] ?? null;
  const took = (name) => evictions?.[`took_${name}`] ?? null;
  const rest = [
    { key: "several:", kind: "several", ...of("several"), lost: null, took: null },
    { key: "others:", kind: "others", ...of("others"), lost: null, took: null, num: numOthers },
    { key: "not_told:", kind: "not_told", ...of("not_told"), lost: lost("not_told"), took: took("not_told") },
    { key: "unknown:", kind: "unknown", ...of("unknown"), lost: lost("unknown"), took: took("unknown") },
  ];
  return rest.filter(({ kind, num, held, cached, lost, took }) => (kind === "others" ? num : held || cached || lost || took));
}

const weight = ({ held, cached, lost, took }) => Math.max(held ?? 0, cached ?? 0) || ((lost ?? 0) + (took ?? 0)) / 1e6;
const mostFirst = (a, b) => weight(b) - weight(a) || (a.key < b.key ? -1 : 1);
