// All blocks as one picture of one pixel each, whatever part of it is looked at. The map draws it scaled where cells are
// small, the minimap always. Only rows that changed are handed to the canvas.

import { pixel } from "./colours.js";

export class MapSheet {
  constructor(layout) {
    const { columns, rows } = layout.fit;
    this.layout = layout;
    this.columns = columns;
    this.rows = rows;
    this.image = new ImageData(columns, rows);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.canvas = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
    this.context = this.canvas.getContext("2d");
    this.#rest();
  }

  fill(table, look) {
    const colours = asPixels(look);
    this.pixels.fill(0);
    for (let cell = 0; cell < this.layout.cells; cell++) {
      const block = this.layout.blockOf(cell);
      if (!table.isNull(block)) this.pixels[cell] = colours[look.indexOf(table, block)];
    }
    this.first = 0;
    this.last = this.rows - 1;
  }

  /** `changes`: arrays of block ids. */
  change(table, look, changes) {
    const colours = asPixels(look);
    for (const ids of changes) {
      for (const block of ids) {
        if (block >= table.numBlocks || table.isNull(block)) continue;
        const cell = this.layout.cellOf(block);
        this.pixels[cell] = colours[look.indexOf(table, block)];
        const row = (cell / this.columns) | 0;
        if (row < this.first) this.first = row;
        if (row > this.last) this.last = row;
      }
    }
  }

  /** Bring the canvas up to date. */
  flush() {
    if (this.last < this.first) return;
    this.context.putImageData(this.image, 0, 0, 0, this.first, this.columns, this.last - this.first + 1);
    this.#rest();
  }

  #rest() {
    this.first = this.rows;
    this.last = -1;
  }
}

const asPixels = (look) =>
  (look.pixels ??= Uint32Array.from(look.colours, (colour) => (colour ? pixel(colour) : 0)));
