// Signals in words: their numbers with units, and what a chart says of one moment. Pure.

import { NO_DATA, count, percent, rate, seconds, size } from "./format.js";

/** A number of a signal's unit. */
export function amount(value, unit) {
  if (value == null) return NO_DATA;
  if (unit === "ratio") return value > 1.5 ? value.toFixed(2) : percent(value);
  if (unit === "seconds") return seconds(value);
  if (unit === "bytes") return size(value);
  if (unit === "per_second") return `${rate(value)}/s`;
  return Number.isInteger(value) || Math.abs(value) >= 100 ? count(value) : value.toFixed(2);
}

/** So much of it a second. */
export function perSecond(value, unit) {
  if (value == null) return NO_DATA;
  if (unit === "bytes") return `${size(value)}/s`;
  if (unit === "seconds") return `${percent(value)} of the time`;
  return value > 0 && value < 0.05 ? `${amount(value * 60, "")}/min` : `${rate(value)}/s`;
}

const isBandwidth = ({ name, unit }) => unit === "bytes" && name.endsWith("_bandwidth");

/** The one number of a signal as it is now. */
export function valueOf(signal) {
  const { kind, unit } = signal;
  if (signal.certainty === "not_observable") return "not observable";
  if (kind === "counter") return perSecond(signal.rate_per_s, unit);
  if (kind === "histogram") return amount(signal.p50, unit);
  return amount(signal.value, unit) + (isBandwidth(signal) && signal.value != null ? "/s" : "");
}

/** What stands beside it, in small. */
export function besides(signal) {
  const { kind, unit } = signal;
  if (kind === "counter") return signal.value == null ? "" : `${amount(signal.value, unit)} in all`;
  if (kind !== "histogram") return "";
  if (signal.p50 == null) return "nothing lately";
  const mean = signal.mean == null ? "" : `mean ${amount(signal.mean, unit)}`;
  return [`p99 ${amount(signal.p99, unit)}`, mean, `${rate(signal.rate_per_s)}/s`].filter(Boolean).join("  ·  ");
}

// A share of nothing is no number, though the engine was asked all the time.
const NOTHING = { ratio: "Nothing to take a share of in this stretch." };

/** What a line says at one of its places. */
export function readout(line, at) {
  const { kind, unit, values, more } = line;
  const value = values[at];
  if (value == null) return "nothing was read";
  if (kind === "counter") return perSecond(value, unit);
  if (kind !== "histogram") return amount(value, unit);
  return `p50 ${amount(value, unit)}  ·  p99 ${amount(more.p99?.[at], unit)}`;
}

/** The same of the whole stretch, for those who cannot see it. */
export function summary(line) {
  const told = line.values.filter((value) => value != null);
  if (!told.length) return NOTHING[line.kind] ?? "Nothing was read in this stretch.";
  const write = (value) => (line.kind === "counter" ? perSecond(value, line.unit) : amount(value, line.unit));
  return `From ${write(Math.min(...told))} to ${write(Math.max(...told))}, last ${write(told.at(-1))}.`;
}

/** Lines of the tooltip: what it is, how sure it is, and what it is read from. */
export function explanation(signal, certainties) {
  return [
    signal.label,
    signal.meaning,
    certainties[signal.certainty] ?? "",
    signal.told_by ? `Read from ${signal.told_by.replaceAll("`", "")}` : "",
    `Signal ${signal.name}.`,
  ];
}
