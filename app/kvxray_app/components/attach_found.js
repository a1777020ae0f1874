// What a test of the connection found: events, metrics, and which panels will be exact, derived or not observable.

import { el } from "./elements.js";
import { count, plural } from "./format.js";

const HEARD = { heard: "good", read: "good", silent: "open", none: "open", refused: "bad", failed: "bad" };

/** The answer of `/api/engines/test` as nodes. */
export function foundNodes(found, { certainties, makes }) {
  return [
    el("p", { class: "verdict", "data-is": found.reachable ? "good" : "bad" }, found.sentence),
    part("Events", found.events, eventFacts(found.events)),
    part("Metrics", found.metrics, metricFacts(found.metrics, makes)),
    ...(found.findings.length ? [findingsOf(found.findings)] : []),
    ...coverageNodes(found.coverage, certainties),
  ];
}

function part(title, { state, sentence }, facts) {
  const told = facts.filter(([, value]) => value);
  const rows = told.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  return el(
    "section",
    { class: "found", "data-part": title.toLowerCase(), "data-is": HEARD[state] },
    el("h3", {}, title),
    el("p", {}, sentence),
    told.length ? el("dl", {}, ...rows) : null,
  );
}

function eventFacts({ state, dialect, ranks, groups, media, block_size: size, batches, replay }) {
  if (state !== "heard") return [["Replay", REPLAYS[replay]]];
  return [
    ["Dialect", dialect],
    ["Batches heard", count(batches)],
    ["Ranks", ranks.join(", ")],
    ["Block size", size == null ? "" : plural(size, "token")],
    ["Memory", media.join(", ")],
    ["Groups", groups.map(groupText).join(", ")],
    ["Replay", REPLAYS[replay]],
  ];
}

const REPLAYS = { answers: "answers", silent: "does not answer", none: "" };

const groupText = ({ kind, window }) => (window ? `${kind} (window ${count(window)})` : kind).replaceAll("_", " ");

function metricFacts({ state, make, signals, capacity_blocks: capacity, block_size: size }, makes) {
  if (state !== "read") return [];
  return [
    ["They are of", makes.find(({ key }) => key === make)?.label ?? make],
    ["Signals", count(signals)],
    ["Capacity", capacity == null ? "not observable" : plural(capacity, "block")],
    ["Block size", size == null ? "" : plural(size, "token")],
  ];
}

function findingsOf(sentences) {
  const list = el("ul", {}, ...sentences.map((sentence) => el("li", {}, sentence)));
  return el("section", { class: "found", "data-is": "bad", "data-part": "findings" }, el("h3", {}, "Look at this"), list);
}

/** Panels in three lists by how sure they are, each with its reason. */
export function coverageNodes(panels, words) {
  return Object.entries(words).map(([certainty, title]) => {
    const listed = panels.filter((panel) => panel.certainty === certainty);
    const rows = listed.flatMap(({ label, why }) => [el("dt", {}, label), el("dd", {}, why)]);
    const mark = el("i", { class: "mark", "data-certainty": certainty, "aria-hidden": "true" });
    return el(
      "details",
      { class: "coverage", "data-certainty": certainty, open: true },
      el("summary", {}, mark, `${title}: ${plural(listed.length, "panel")}`),
      el("dl", {}, ...rows),
    );
  });
}
