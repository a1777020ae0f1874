// Keys that move through time, wherever on the page the keyboard is; not while somebody types, and none that the block
// map or Streamlit uses.

const TYPING = "input, textarea, select, [contenteditable]";

/** Call `actions[event.key]` for keys that have one. Returns the way out. */
export function onTimeKeys(actions) {
  const onKey = (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const [target] = event.composedPath();
    const action = actions[event.key];
    if (!action || (target instanceof Element && target.matches(TYPING))) return;
    event.preventDefault();
    action();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
