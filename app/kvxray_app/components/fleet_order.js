// In which order the fleet stands, and who is in it: pure.

import { NO_DATA } from "./format.js";

const RANKS = ["critical", "warning", "cannot_tell", "healthy"];

const VALUES = {
  status: (engine) => RANKS.indexOf(engine.status),
  name: (engine) => engine.name,
  sentence: (engine) => engine.sentence,
  cached: (engine) => engine.figures.cached_blocks?.value,
  coverage: (engine) => engine.coverage?.exact,
  findings: (engine) => engine.num_findings,
};

// Words read from A, the worst comes before the well; of a number the largest is asked for.
const ASCENDING = new Set(["status", "name", "sentence"]);

/** The direction in which a column is sorted first. */
export const firstDirection = (key) => (ASCENDING.has(key) ? "ascending" : "descending");

/** Engines by a column; what is not known comes last in both directions, equals by their names. */
export function sorted(engines, key, direction) {
  const value = VALUES[key] ?? ((engine) => engine.figures[key]?.value);
  const sign = direction === "ascending" ? 1 : -1;
  return [...engines].sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if ((one == null) !== (other == null)) return one == null ? 1 : -1;
    return (one == null ? 0 : sign * compared(one, other)) || compared(a.name, b.name);
  });
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

const compared = (one, other) =>
  typeof one === "string" ? COLLATOR.compare(one, other) : Math.sign(one - other);

/** Whether an engine has all words of the filter, anywhere in what the table or its labels say of it. */
export function fits(engine, filter, words) {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return true;
  const labels = Object.entries(engine.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const told = [engine.name, engine.make, words.makes[engine.make], engine.model, engine.role, engine.state]
    .concat([words.states[engine.state], words.statuses[engine.status], engine.sentence, ...labels])
    .join("\n")
    .toLowerCase();
  return wanted.every((word) => told.includes(word));
}

/** Make, model, role and node of an engine in one line. */
export function aboutEngine(engine, makes) {
  const role = engine.role === "both" ? "" : engine.role;
  const ranks = engine.sources.length > 1 ? `${engine.sources.length} ranks` : "";
  const make = makes[engine.make] ?? engine.make;
  return [make, engine.model, role, engine.labels?.node, ranks].filter(Boolean).join("  ·  ") || NO_DATA;
}
