// How numbers are written, alike in `formats.py`. Unknown is an em dash, never 0.

export const NO_DATA = "—";

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const count = (value) => (value == null ? NO_DATA : WHOLE.format(value));

/** To one decimal: what there is a little of is no 0.0%, and what lacks a little no 100.0%. */
export function percent(ratio) {
  if (ratio == null) return NO_DATA;
  if (ratio > 0 && ratio < 0.0005) return "<0.1%";
  return ratio >= 0.9995 && ratio < 1 ? ">99.9%" : `${(ratio * 100).toFixed(1)}%`;
}

export function rate(perSecond) {
  if (perSecond == null) return NO_DATA;
  return perSecond < 100 ? perSecond.toFixed(1) : count(perSecond);
}

export function seconds(value) {
  if (value == null) return NO_DATA;
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 0.01) return `${(value * 1e3).toFixed(1)} ms`;
  if (value < 1) return `${(value * 1e3).toFixed(0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
}

/** The same as [number, unit]; of "1 min 48 s" all but the last unit is the number. */
export function secondsParts(value) {
  const words = seconds(value);
  const end = words.lastIndexOf(" ");
  return end < 0 ? [words, ""] : [words.slice(0, end), words.slice(end + 1)];
}

export function size(bytes) {
  if (bytes == null) return NO_DATA;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  while (value >= 1024 && units.length > 1) {
    value /= 1024;
    units.shift();
  }
  if (units[0] === "B") return `${value.toFixed(0)} B`;
  return `${value.toFixed(value < 10 ? 2 : 1)} ${units[0]}`;
}

/** A coarse duration for ages that tick: 3 s, 2 min, 1 h. */
export function age(value) {
  if (value == null) return NO_DATA;
  const whole = Math.max(0, Math.floor(value));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h`;
  return `${Math.floor(whole / 86400)} d`;
}

/** Local time of day of an ISO instant, with milliseconds when asked: 14:03:21.482. */
export function timeOfDay(iso, milliseconds = false) {
  if (!iso) return NO_DATA;
  const time = new Date(iso);
  const text = [time.getHours(), time.getMinutes(), time.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
  return milliseconds ? `${text}.${String(time.getMilliseconds()).padStart(3, "0")}` : text;
}

/** A duration in whole seconds: 12 s, 1 min 12 s, 2 h 14 min. */
export function duration(value) {
  if (value == null || Number.isNaN(value)) return NO_DATA;
  const whole = Math.max(0, Math.floor(value));
  return whole < 60 ? `${whole} s` : seconds(whole);
}

/** The place of an event, EPOCH.EVENT without grouping, as links and the API write it: 1.5659. */
export const eventNumber = (epoch, seq) => `${epoch}.${Math.floor(seq)}`;

/** The offset of the zone in which this browser writes times of day: UTC, UTC+2, UTC-3:30. */
export function zoneOffset(date = new Date()) {
  const minutes = -date.getTimezoneOffset();
  if (!minutes) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "-" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

/** Its name: Europe/Berlin. */
export const zoneName = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** A hash short enough to read, long enough to compare. */
export const shortHash = (hex) =>
  hex == null ? NO_DATA : hex.length <= 14 ? hex : `${hex.slice(0, 8)}…${hex.slice(-4)}`;

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
