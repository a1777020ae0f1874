// Which part of the map is looked at: as a whole it fits its stage; enlarged, each axis grows up to a size that is easy
// to point at. Offsets are CSS pixels of the enlarged map that lie left of and above the stage.

const LARGEST = { tree: [170, 64], rows: [26, 26] }; // CSS pixels of a cell, as a whole
const ENLARGED = 84;
const ALMOST_WHOLE = 1.001; // enlarged and made smaller as often is the whole again, whatever was rounded
export const WHOLE = { zoom: 1, x: 0, y: 0 };

/** Sizes and offsets for a layout in a stage of width x height: {w, h, x, y, zoom}. */
export function fitted(part, layout, width, height) {
  const [widest, highest] = LARGEST[layout.kind];
  const whole = [Math.min(widest, width / layout.cols), Math.min(highest, height / layout.rows)];
  const [w, h] = whole.map((size) => Math.max(size, Math.min(size * part.zoom, ENLARGED)));
  const most = [layout.cols * w - width, layout.rows * h - height];
  const [x, y] = [part.x, part.y].map((offset, axis) => Math.max(0, Math.min(offset, most[axis])));
  return { w, h, x, y, zoom: part.zoom, canGrow: w < ENLARGED || h < ENLARGED };
}

/** Enlarged by a factor around a point of the stage; null where that changes nothing. */
export function zoomed(view, factor, px, py, refit) {
  const wanted = view.zoom * factor;
  const zoom = wanted < ALMOST_WHOLE ? 1 : wanted;
  if (zoom === view.zoom || (factor > 1 && !view.canGrow)) return null;
  const { w, h } = refit({ ...view, zoom });
  return { zoom, x: ((view.x + px) / view.w) * w - px, y: ((view.y + py) / view.h) * h - py };
}

/** Moved so that a cell is in sight. */
export function revealed(view, layout, at, width, height) {
  const [left, top] = [layout.col[at] * view.w, layout.row[at] * view.h];
  const [right, bottom] = [left + view.w, top + Math.min(height, layout.span[at] * view.h)];
  return {
    zoom: view.zoom,
    x: Math.min(Math.max(view.x, right - width), left),
    y: Math.min(Math.max(view.y, bottom - height), top),
  };
}
