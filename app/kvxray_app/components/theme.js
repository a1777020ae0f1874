// Colours on this side: the palettes come from kvxray_app/theme.py as data, here they become CSS variables of a
// component's host element. Which one follows Streamlit's own theme, told by how bright its page background is.

/** "light" or "dark", as Streamlit shows this component. */
export function themeName(parentElement) {
  const value = getComputedStyle(hostOf(parentElement)).getPropertyValue("--st-background-color").trim();
  return brightness(value) > 0.5 ? "light" : "dark";
}

/** Set the variables of the theme now in force; returns its palette, keyed like "kx-text-muted". */
export function applyTheme(parentElement, palettes) {
  const host = hostOf(parentElement);
  const name = themeName(parentElement);
  const palette = palettes[name];
  for (const [variable, colour] of Object.entries(palette)) host.style.setProperty(`--${variable}`, colour);
  host.style.colorScheme = name;
  return palette;
}

export const prefersStillness = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const hostOf = (parentElement) => parentElement.host ?? parentElement;

// Relative brightness 0..1 of #rgb, #rrggbb or rgb(...).
function brightness(colour) {
  const hex = /^#([0-9a-f]{3,8})$/i.exec(colour)?.[1];
  let parts;
  if (hex) {
    const wide = hex.length < 6 ? [...hex].map((digit) => digit + digit).join("") : hex;
    parts = [0, 2, 4].map((start) => parseInt(wide.slice(start, start + 2), 16));
  } else {
    parts = (colour.match(/[\d.]+/g) ?? [255, 255, 255]).slice(0, 3).map(Number);
  }
  const [red, green, blue] = parts;
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}
