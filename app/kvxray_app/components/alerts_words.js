// How alerts are said: times, numbers, who was told, and where links lead.

import { apiUrl } from "./address.js";
import { el } from "./elements.js";
import { NO_DATA, age, count, duration, plural } from "./format.js";
import { whenWords } from "./moment_words.js";
import { pageUrl } from "./overview_links.js";

/** When something was, and how long ago: `14:03:21, 2 min ago`. `now`: ms. */
export const agoWords = (iso, now) => `${whenWords(iso, false)}, ${age((now - Date.parse(iso)) / 1000)} ago`;

/** How long something lasted, or lasts: `2 min 4 s`. */
export function lastedWords(from, to, now) {
  return duration(((to ? Date.parse(to) : now) - Date.parse(from)) / 1000);
}

/** A number that a condition compares: unknown is a dash, never 0. */
export function numberWords(value) {
  if (value == null) return NO_DATA;
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return count(value);
  return String(Number(value.toPrecision(3)));
}

/** A duration of a rule: `at once`, `5 min`, `1 h`. */
export function forWords(seconds) {
  if (!seconds) return "at once";
  const [size, unit] = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => seconds % size === 0);
  return `${seconds / size} ${unit}`;
}

/** What one target was told, in words. */
export function toldWords({ target, kind, delivered, attempts, error }) {
  const what = kind === "over" ? "that it is over" : "";
  if (delivered) return joined(target, "was told", what, `at ${whenWords(delivered, false)}`);
  if (error) return `${joined(target, "is not told yet", what)}: ${stopless(error)}, after ${plural(attempts, "try", "tries")}.`;
  return joined(target, "is being told", what);
}

const joined = (...parts) => parts.filter(Boolean).join(" ");
const stopless = (sentence) => sentence.replace(/\.$/, "");

/** A text of rules as nodes: `code` stands between backticks, names of **panels** between double asterisks. */
export function withCode(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => {
    if (/^`.+`$/.test(part)) return el("code", {}, part.slice(1, -1));
    return /^\*\*.+\*\*$/.test(part) ? el("strong", {}, part.slice(2, -2)) : part;
  });
}

/** The address that a link of the API means, which is relative to the app's root; the live page is the root itself. */
export function linkUrl(link) {
  return new URL(link.replace(/^\.?\/?(live(?=\?|$))?/, ""), new URL("../", apiUrl(""))).href;
}

/** Where the engine of an alert is shown: its live page, or the fleet for what is about several. */
export function engineUrl({ moment }) {
  return moment?.source ? pageUrl("live", moment.source) : new URL("../fleet", apiUrl("")).href;
}
