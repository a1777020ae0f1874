// Where the overview leads: other pages of the app, of the same engine and moment.

import { apiUrl } from "./address.js";

/** Address of a page ("live" is the app's root) for a source; `at` is left out for the present. */
export function pageUrl(page, source, at, query = {}) {
  const url = new URL(page === "live" ? "../" : `../${page}`, apiUrl(""));
  url.searchParams.set("source", source);
  if (at && at !== "live") url.searchParams.set("at", at);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url.href;
}
