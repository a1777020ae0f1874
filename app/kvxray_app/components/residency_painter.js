// Paints the cells of a layout into a canvas, pixel by pixel: a hundred thousand of them in one frame.

import { pixel } from "./colours.js";
import { UNREACHABLE } from "./residency_frame.js";

const GAP_FROM = 4; // device pixels: smaller cells touch
const HATCH_FROM = 5;
const APART_FROM = 12; // high cells: trees stand a little apart, so that each is seen as one

export class ResidencyPainter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.image = null;
  }

  /** `frame`, `layout`; `view`: of residency_part.js; `classes`: u1 a cell; `pixels`: u4 a class; `palette`. */
  paint({ frame, layout, view, classes, pixels, palette, width, height }) {
    const ratio = devicePixelRatio;
    this.#resize(Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio)));
    const { data, image } = this;
    const size = { width: image.width, height: image.height };
    data.fill(pixel(palette["kx-panel"]));
    const hatch = pixel(palette["kx-leaked"]);
    const [w, h, left, top] = [view.w, view.h, view.x, view.y].map((size) => size * ratio);
    const apart = h >= APART_FROM && layout.endsTree ? Math.round(3 * ratio) : 0;
    const [gapX, gapY] = [w, h].map((size) => (size >= GAP_FROM ? Math.max(1, Math.round(ratio)) : 0));
    for (let at = 0; at < frame.count; at++) {
      const x0 = Math.round(layout.col[at] * w - left);
      const y0 = Math.round(layout.row[at] * h - top);
      if (x0 >= size.width || y0 >= size.height) continue;
      const x1 = Math.max(x0 + 1, Math.round((layout.col[at] + 1) * w - left) - gapX);
      const below = layout.row[at] + layout.span[at];
      const high = Math.round(below * h - top) - (apart && layout.endsTree[below] ? apart : 0);
      const y1 = Math.max(y0 + 1, high - (high - y0 >= GAP_FROM ? gapY : 0));
      if (x1 <= 0 || y1 <= 0) continue;
      const isHatched = frame.flags[at] & UNREACHABLE;
      fill(data, size, [x0, y0, x1, y1], pixels[classes[at]], isHatched ? hatch : 0);
    }
    this.context.putImageData(image, 0, 0);
  }

  #resize(width, height) {
    if (this.image?.width === width && this.image.height === height) return;
    Object.assign(this.canvas, { width, height });
    this.image = this.context.createImageData(width, height);
    this.data = new Uint32Array(this.image.data.buffer);
  }
}

// The part of a box that is on the canvas. hatch: a colour of stripes over it, 0: none.
function fill(data, { width, height }, [x0, y0, x1, y1], colour, hatch) {
  const [left, right] = [Math.max(0, x0), Math.min(width, x1)];
  const isHatched = hatch && Math.min(x1 - x0, y1 - y0) >= HATCH_FROM;
  const plain = hatch && !isHatched ? hatch : colour;
  for (let y = Math.max(0, y0); y < Math.min(height, y1); y++) {
    const line = y * width;
    if (isHatched) for (let x = left; x < right; x++) data[line + x] = (x + y) % 6 < 2 ? hatch : colour;
    else for (let x = left; x < right; x++) data[line + x] = plain;
  }
}
