// The blocks themselves, painted on a canvas: all of them in sight, or only those that changed. Small cells are pixels of
// one picture, scaled; large ones are stamped one by one.

import { MapSheet } from "./map_sheet.js";
import { CellSprites, FILL_FROM } from "./map_sprites.js";

export class MapPainter {
  constructor(canvas) {
    this.context = canvas.getContext("2d", { alpha: true });
    this.sheet = null;
  }

  /** Everything, with the layout as it is now. */
  paintAll(table, layout, look, palette) {
    if (this.layout !== layout) this.sheet = new MapSheet(layout);
    Object.assign(this, { layout, look, palette });
    this.sheet.fill(table, look);
    this.#paintPart(table);
  }

  /** What changed; `changes`: arrays of block ids; `moved`: another part of them came in sight. */
  paint(table, changes, moved) {
    this.sheet.change(table, this.look, changes);
    if (moved) this.#paintPart(table);
    else if (this.cells) this.#stamp(table, changes);
    else this.#showSheet();
  }

  #paintPart(table) {
    const { width, height, grid } = this.layout;
    this.cells = grid.size >= FILL_FROM ? this.#cells(width, height) : null;
    if (!this.cells) return this.#showSheet();
    this.cells.pixels.fill(0);
    const { first, last, top, bottom } = this.layout.part;
    const box = { top: height, bottom: 0 };
    for (let row = top; row <= bottom; row++) {
      for (let column = first; column <= last; column++) {
        const cell = row * grid.columns + column;
        if (cell < this.layout.cells) this.#stampOne(table, this.layout.blockOf(cell), box);
      }
    }
    this.context.putImageData(this.cells.image, 0, 0);
  }

  #cells(width, height) {
    const { size } = this.layout.grid;
    const reuse = this.cells?.image.width === width && this.cells.image.height === height;
    const image = reuse ? this.cells.image : new ImageData(width, height);
    const kept = reuse && this.cells.sprites.size === size && this.cells.sprites.look === this.look;
    const sprites = kept ? this.cells.sprites : new CellSprites(this.palette, this.look, size);
    return { image, pixels: new Uint32Array(image.data.buffer), sprites };
  }

  #stamp(table, changes) {
    const box = { top: this.layout.height, bottom: 0 };
    for (const ids of changes)
      for (const block of ids)
        if (block < table.numBlocks && this.layout.isInSight(block)) this.#stampOne(table, block, box);
    if (box.bottom <= box.top) return;
    this.context.putImageData(this.cells.image, 0, 0, 0, box.top, this.layout.width, box.bottom - box.top);
  }

  // Cells at the edge are cut off there: nothing is drawn into the margin.
  #stampOne(table, block, box) {
    if (table.isNull(block)) return;
    const { layout } = this;
    const { xs, ys, gap, columns } = layout.grid;
    const cell = layout.cellOf(block);
    const row = (cell / columns) | 0;
    const [x, y] = [xs[cell - row * columns], ys[row]];
    const width = xs[cell - row * columns + 1] - x - gap;
    const height = ys[row + 1] - y - gap;
    const sprite = this.cells.sprites.of(table, block, width, height);
    const { pixels } = this.cells;
    const left = Math.max(0, layout.margin - x);
    const right = Math.min(width, layout.width - layout.margin - x);
    const bottom = Math.min(height, layout.height - layout.margin - y);
    for (let line = Math.max(0, layout.margin - y); line < bottom; line++) {
      const to = (y + line) * layout.width + x;
      const from = line * width;
      for (let at = left; at < right; at++) pixels[to + at] = sprite[from + at];
    }
    if (y < box.top) box.top = Math.max(0, y);
    if (y + height > box.bottom) box.bottom = Math.min(layout.height, y + height);
  }

  #showSheet() {
    const { context, layout, sheet } = this;
    const { size, gap, xs, ys } = layout.grid;
    sheet.flush();
    context.clearRect(0, 0, layout.width, layout.height);
    context.save();
    context.beginPath();
    context.rect(
      layout.margin,
      layout.margin,
      layout.width - 2 * layout.margin,
      layout.height - 2 * layout.margin,
    );
    context.clip();
    // More blocks than pixels are averaged; otherwise one cell is one crisp square.
    context.imageSmoothingEnabled = size < 1;
    const { first, last, top, bottom } = layout.part;
    const [across, down] = [last - first + 1, bottom - top + 1];
    const place = [xs[first], ys[top], xs[last + 1] - xs[first], ys[bottom + 1] - ys[top]];
    context.drawImage(sheet.canvas, first, top, across, down, ...place);
    if (gap) this.#cutGaps();
    context.restore();
  }

  // The lines between cells, over the picture of all.
  #cutGaps() {
    const { context, layout } = this;
    const { xs, ys, gap } = layout.grid;
    const { first, last, top, bottom } = layout.part;
    for (let column = first; column <= last; column++)
      context.clearRect(xs[column + 1] - gap, 0, gap, layout.height);
    for (let row = top; row <= bottom; row++) context.clearRect(0, ys[row + 1] - gap, layout.width, gap);
  }
}
