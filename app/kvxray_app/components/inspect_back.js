// The browser's back and forward go through what was inspected, and through nothing else: where the page is in time and
// how the map looks stay, so they are written into the address that was come back to.

import { mapViewFor } from "./map_view.js";

/** Follow the browser. Returns the way out. */
export function onBack(source, selection, moment) {
  const sourceOf = () => new URLSearchParams(location.search).get("source");
  const begun = sourceOf();
  const onPop = () => {
    if (sourceOf() !== begun) return; // an entry of another source's page
    selection.readAddress();
    moment.writeAddress();
    mapViewFor(source).writeAddressSoon();
  };
  window.addEventListener("popstate", onPop);
  return () => window.removeEventListener("popstate", onPop);
}
