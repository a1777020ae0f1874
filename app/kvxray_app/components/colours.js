// Colour arithmetic for canvases. Colours come in from the palette as #rrggbb.

/** [r, g, b] of #rrggbb. */
export function rgb(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

/** `share` of one colour over another, as #rrggbb. */
export function mix(over, under, share) {
  const [a, b] = [rgb(over), rgb(under)];
  return `#${a
    .map((part, at) =>
      Math.round(part * share + b[at] * (1 - share))
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

/** A colour as the u4 of a canvas' ImageData (little endian: ABGR). */
export function pixel(hex) {
  const [red, green, blue] = rgb(hex);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
