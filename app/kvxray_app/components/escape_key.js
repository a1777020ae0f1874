// Escape lets go of what is selected, wherever on the page the keyboard is; not while somebody types, and not
// when something nearer (a menu, a dialog) has used the key already.

const TYPING = "input, textarea, select, [contenteditable]";

/** Call `letGo` on Escape. Returns the way out. */
export function onEscape(letGo) {
  const onKey = (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    const [target] = event.composedPath();
    if (!(target instanceof Element && target.matches(TYPING))) letGo();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
