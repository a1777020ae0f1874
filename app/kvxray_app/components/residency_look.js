// How cached hashes are coloured: each belongs to a class of what the map shows, and each class has a colour.

import { mix, pixel } from "./colours.js";
import { MAYBE, UNKNOWN_TIME } from "./residency_frame.js";

export const MODES = ["age", "idle", "reuses", "medium", "group", "certainty"];

const FADED_SHARE = 0.17;
const TIMES = [100, 1000, 6000, 60_000, 360_000]; // hundredths of a second
const REUSES = [0, 1, 3, 7, 15];
const NAMED = 6;
const UNKNOWN = { name: "unknown", colour: "unknown" };
const scale = (names) => names.map((name, at) => ({ name, colour: `scale-${at + 1}` }));
const named = (names) => [
  ...(names.length ? [] : [UNKNOWN]),
  ...names.slice(0, NAMED).map((name, at) => ({ name, colour: `holder-${at + 1}` })),
  ...(names.length > NAMED ? [{ name: "others", colour: "holder-others" }] : []),
];
const SINCE = [UNKNOWN, ...scale(["1 h and more", "< 1 h", "< 10 min", "< 1 min", "< 10 s", "< 1 s"])];
const TOLD_REUSES = [
  { name: "none told", colour: "free" },
  ...scale(["1", "2–3", "4–7", "8–15", "16 or more"]),
];
const CERTAINTIES = [
  { name: "certain", colour: "cached" },
  { name: "maybe", colour: "shared" },
];

/** The classes of a mode. `descriptor`: of the summary, which names media and groups. */
export function classesOf(mode, descriptor) {
  if (mode === "age" || mode === "idle") return SINCE;
  if (mode === "reuses") return TOLD_REUSES;
  if (mode === "certainty") return CERTAINTIES;
  return named(mode === "medium" ? mediaNames(descriptor) : groupNames(descriptor));
}

/** The class of every cell, as u1. */
export function classify(mode, frame, numClasses) {
  const of = CLASS_OF[mode];
  const found = new Uint8Array(frame.count);
  for (let at = 0; at < frame.count; at++) found[at] = Math.min(of(frame, at), numClasses - 1);
  return found;
}

/** Colours of classes as canvases take them; those that step back (not in `only`, null: all stand out) are faded. */
export function pixelsOf(classes, palette, only) {
  return Uint32Array.from(classes, ({ colour }, at) => {
    const full = palette[`kx-${colour}`];
    return pixel(only === null || only.has(at) ? full : mix(full, palette["kx-panel"], FADED_SHARE));
  });
}

const CLASS_OF = {
  age: (frame, at) => timeClass(frame.age[at]),
  idle: (frame, at) => timeClass(frame.idle[at]),
  reuses: (frame, at) => REUSES.filter((most) => frame.reuses[at] > most).length,
  medium: (frame, at) => frame.place[at] >> 8,
  group: (frame, at) => frame.place[at] & 0xff,
  certainty: (frame, at) => (frame.certainty[at] === MAYBE ? 1 : 0),
};

function timeClass(hundredths) {
  if (hundredths === UNKNOWN_TIME) return 0;
  return 1 + TIMES.filter((least) => hundredths < least).length;
}

/** Names of media, by their number in places. */
export const mediaNames = (descriptor) =>
  (descriptor?.media ?? []).map(({ name, tier }) => mediumName(name, tier));

/** A memory as the engine calls it, and what that is where it does not say so itself. No name means the GPU. */
export function mediumName(name, tier) {
  const told = name || "GPU";
  return tier && tier.toUpperCase() !== told.toUpperCase() ? `${told} (${tier})` : told;
}

/** Names of groups, by their number in places. */
export const groupNames = (descriptor) =>
  (descriptor?.groups ?? []).map(({ kind, window }, at) => `${at} · ${groupKind(kind)}${window ? ` ${window}` : ""}`);

/** A kind of group in words. */
export const groupKind = (kind) => kind?.replaceAll("_", " ") || "kind not told";
