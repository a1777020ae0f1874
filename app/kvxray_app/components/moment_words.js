// How a moment is written: its local time, to the millisecond, and the event it follows, EPOCH.SEQ as in links and in
// the API.

import { NO_DATA, timeOfDay } from "./format.js";
import { isPoint } from "./moment.js";

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** Local date and time of an instant in ms since 1970 (or an ISO one), the date left out when it is today. */
export function whenWords(instant, milliseconds = true) {
  if (instant == null) return NO_DATA;
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return String(instant);
  const day = DAY.format(date);
  const time = timeOfDay(date.toISOString(), milliseconds);
  return day === DAY.format(new Date()) ? time : `${day}, ${time}`;
}

/** When the page is, in ms since 1970: a time that was asked for, else that of the event; null while not known. */
export function shownTime(feed) {
  if (!feed.isPast) return null;
  const told = feed.summary?.state?.time;
  return feed.moment.asked ?? (told ? Date.parse(told) : null);
}

/** The moment that a page of the past is at: `14:03:21.482 · 3.10482`; only what was asked for while that is on its way. */
export function momentWords(feed) {
  if (!feed.isPast) return "";
  const { at, asked } = feed.moment;
  const here = at === feed.past.shown;
  const time = here ? shownTime(feed) : asked;
  return (
    [time === null ? "" : whenWords(time), here || isPoint(at) ? at : ""].filter(Boolean).join("  ·  ") || at
  );
}
