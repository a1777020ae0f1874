// What a chart says of one moment: the values there, what they span, how sure they are and who tells them. Pure.

import { age, NO_DATA } from "./format.js";
import { whenWords } from "./moment_words.js";

const SPOILED_BY_UNKNOWN = "derived: part of the blocks is not known";

/** A chart's values at a time (null: the newest): {time, values, figures, isLive}; null where nothing is told. */
export function valueAt(chart, data, ms) {
  const { told } = data;
  const tail = chart.lines[0].name in (data.tail[0]?.values ?? {}) ? data.tail : [];
  const point = tail.findLast(({ time }) => ms === null || time <= ms);
  if (point) return { ...point, isLive: true };
  const row = rowOf(told, ms);
  if (row < 0) return null;
  const at = (name) => told.series[name][row];
  const values = Object.fromEntries(Object.keys(told.series).map((name) => [name, at(name)]));
  return { time: told.t[row] * 1000, epoch: told.epoch[row], values, isLive: false };
}

function rowOf(told, ms) {
  if (!told?.t.length) return -1;
  if (ms === null) return told.t.length - 1;
  const second = ms / 1000;
  let [low, high] = [0, told.t.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (told.t[middle] <= second) low = middle + 1;
    else high = middle;
  }
  return low && second < told.t[low - 1] + told.seconds ? low - 1 : -1;
}

/** Lines of the card of a chart: `[class, ...cells]`. */
export function cardLines(chart, ms, row, data, state, mark) {
  const lines = [["title", whenWords(row ? row.time : ms, Boolean(row?.isLive))]];
  if (row) lines.push(...chart.lines.flatMap((line) => valueLines(chart, line, row, state)));
  else lines.push(["muted", "Nothing is told of this time."]);
  if (row && chart.window) lines.push(["muted", `over ${age(data.told?.windows?.[chart.window] ?? null)}`]);
  if (row) lines.push(["muted", sureness(chart, row, data)]);
  if (mark) lines.push(["mark", mark.words]);
  return lines;
}

function valueLines(chart, { name, label }, { values }, state) {
  const write = (value) => chart.write(value, state);
  const [value, low, high] = [values[name] ?? null, values[`${name}_min`], values[`${name}_max`]];
  const spread = low != null && high != null && low < high ? `${write(low)} to ${write(high)}` : "";
  if (value === null && !spread && chart.stacked) return [];
  return [["value", label, value === null ? NO_DATA : write(value), spread]];
}

/** How sure a chart's values are, and who tells them. */
export function sureness(chart, row, data) {
  if (row.isLive) {
    const sure = chart.lines.map(({ name }) => row.figures[name]?.certainty).filter(Boolean);
    const worst = ["not_observable", "derived"].find((each) => sure.includes(each)) ?? "exact";
    return `${worst.replaceAll("_", " ")} · live feed`;
  }
  return `${certainty(chart, row, data)} · event log, ${age(data.told.seconds)} a point`;
}

function certainty(chart, { time, values }, { told }) {
  if (chart.estimated) return "derived: estimated to 9 % from a histogram";
  if (values.unknown > 0) return SPOILED_BY_UNKNOWN;
  const reach = 1000 * ((chart.window ? told.windows[chart.window] : 0) + told.seconds);
  const missed = told.gaps.some((gap) => !gap.repaired && within(Date.parse(gap.time), time - reach, time + 1000 * told.seconds));
  return missed ? "derived: messages are missing" : "exact";
}

const within = (ms, from, to) => ms >= from && ms <= to;
