// Text into the clipboard. Browsers lend it to pages of https and of this machine only; elsewhere the old way, by a selection,
// still works.

import { setText } from "./elements.js";

const SAID_MS = 1200;

/** Copy, and say on the button for a moment whether it worked. */
export async function copyFrom(button, text) {
  const label = (button.kxLabel ??= button.textContent);
  const done = (await byClipboard(text)) || bySelection(text);
  setText(button, done ? "Copied" : "Cannot copy here");
  clearTimeout(button.kxSaying);
  button.kxSaying = setTimeout(() => setText(button, label), SAID_MS);
}

async function byClipboard(text) {
  if (!navigator.clipboard) return false;
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}

function bySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.style.cssText = "position: fixed; opacity: 0";
  const before = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  before?.focus?.({ preventScroll: true });
  return done;
}
