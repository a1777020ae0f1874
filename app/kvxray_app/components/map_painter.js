// The blocks themselves, painted on a canvas: all of them, or only those that changed. Large cells show more
// than a state: the filled part is the slots written, a number the references, hatching a leak, a corner one
// that living holders share. Small ones are pixels of one image.

import { mix, pixel } from "./colours.js";
import { FULL, STATES, UNKNOWN } from "./frames.js";

const CELLS_FROM = 6; // device pixels from which a cell is drawn by itself
const FILL_FROM = 9;
const NUMBER_FROM = 15;
const CORNER = 0.42; // of a cell's side
const CACHED = STATES.indexOf("cached");
const SHARED = STATES.indexOf("shared");

/** The right painter for a layout. Both have paintAll(table) and paint(table, changes), changes
 * being arrays of block ids. */
export function painterFor(canvas, layout, palette) {
  const context = canvas.getContext("2d", { alpha: true });
  return layout.grid.size >= CELLS_FROM
    ? new CellPainter(context, layout, palette)
    : new PixelPainter(context, layout, palette);
}

class CellPainter {
  constructor(context, layout, palette) {
    this.context = context;
    this.layout = layout;
    this.solid = STATES.map((state) => palette[`kx-${state}`]);
    this.soft = this.solid.map((colour, state) =>
      state >= CACHED ? mix(colour, palette["kx-panel"], 0.3) : colour,
    );
    this.number = palette["kx-on-shared"];
    this.panel = palette["kx-panel"];
    this.leaked = palette["kx-leaked"];
    this.leakedSoft = mix(this.leaked, palette["kx-panel"], 0.22);
    this.hatch = hatching(context, this.leaked, layout.grid.size);
    this.haze = hatching(context, palette["kx-panel"], layout.grid.size);
    const { size } = layout.grid;
    this.radius = size >= 14 ? 3 : size >= 9 ? 2 : 0;
    this.font = `600 ${Math.round(Math.min(size * 0.52, 26))}px "Source Sans", system-ui, sans-serif`;
  }

  paintAll(table) {
    this.context.clearRect(0, 0, this.layout.width, this.layout.height);
    for (let block = 0; block < table.numBlocks; block++) this.#cell(table, block);
  }

  paint(table, changes) {
    for (const ids of changes) for (const block of ids) this.#cell(table, block);
  }

  #cell(table, block) {
    if (block >= table.numBlocks || table.isNull(block)) return;
    const [x, y, width, height] = this.layout.box(block);
    this.context.clearRect(x, y, width, height);
    if (table.isLeakedOnly(block)) this.#leak(x, y, width, height);
    else this.#vessel(table, block, x, y, width, height);
    if (table.isLeaked(block) && !table.isLeakedOnly(block)) this.#corner(x, y, width);
    if (table.state[block] === SHARED && this.layout.grid.size >= NUMBER_FROM)
      this.#references(table, block, x, y, width, height);
  }

  // A cell as a vessel: full colour up to the slots written, a soft one above.
  #vessel(table, block, x, y, width, height) {
    const state = table.state[block];
    const fill = table.fill[block];
    const level = state < CACHED || fill === UNKNOWN || this.layout.grid.size < FILL_FROM ? FULL : fill;
    if (level < FULL) {
      this.#shape(this.soft[state], x, y, width, height, this.radius);
      const filled = Math.max(level ? 2 : 0, Math.round((height * level) / FULL));
      if (filled)
        this.#shape(this.solid[state], x, y + height - filled, width, filled, [0, 0, this.radius, this.radius]);
    } else {
      this.#shape(this.solid[state], x, y, width, height, this.radius);
    }
    if (state === 0 && this.haze) this.#shape(this.haze, x, y, width, height, this.radius);
  }

  #leak(x, y, width, height) {
    this.#shape(this.leakedSoft, x, y, width, height, this.radius);
    if (!this.hatch) return this.#shape(this.leaked, x, y, width, height, this.radius);
    this.#shape(this.hatch, x, y, width, height, this.radius);
    this.context.strokeStyle = this.leaked;
    this.context.lineWidth = 2;
    this.context.beginPath();
    this.context.roundRect(x + 1, y + 1, width - 2, height - 2, this.radius);
    this.context.stroke();
  }

  // Living requests need the block as well: it keeps the look of its state, and a corner tells of the dead.
  #corner(x, y, width) {
    const side = Math.max(3, Math.round(width * CORNER));
    const border = this.layout.grid.size >= NUMBER_FROM ? 2 : 1;
    for (const [colour, length] of [
      [this.panel, side + border],
      [this.leaked, side],
    ]) {
      this.context.fillStyle = colour;
      this.context.beginPath();
      this.context.moveTo(x + width - length, y);
      this.context.lineTo(x + width, y);
      this.context.lineTo(x + width, y + length);
      this.context.fill();
    }
  }

  #references(table, block, x, y, width, height) {
    const ref = table.ref[block];
    if (ref === UNKNOWN) return;
    const { context } = this;
    const place = [ref >= FULL ? "…" : String(ref), x + width / 2, y + height / 2 + 1];
    context.font = this.font;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = this.number;
    if (table.isLeakedOnly(block)) this.#plate(place);
    context.fillText(...place);
  }

  // On hatching a number needs ground of its own.
  #plate([text, x, y]) {
    const { size } = this.layout.grid;
    const [width, height] = [this.context.measureText(text).width + 5, size * 0.6];
    this.#shape(this.panel, x - width / 2, y - height / 2 - 1, width, height, 2);
    this.context.fillStyle = this.leaked;
  }

  #shape(colour, x, y, width, height, radius) {
    this.context.fillStyle = colour;
    if (!radius) {
      this.context.fillRect(x, y, width, height);
      return;
    }
    this.context.beginPath();
    this.context.roundRect(x, y, width, height, radius);
    this.context.fill();
  }
}

class PixelPainter {
  constructor(context, layout, palette) {
    this.context = context;
    this.layout = layout;
    const { columns, rows } = layout.grid;
    this.image = new ImageData(columns, rows);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.colours = Uint32Array.from(STATES, (state) => pixel(palette[`kx-${state}`]));
    this.leaked = pixel(palette["kx-leaked"]);
    this.sheet = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
    this.sheetContext = this.sheet.getContext("2d");
  }

  paintAll(table) {
    this.pixels.fill(0);
    for (let block = 0; block < table.numBlocks; block++) this.#dot(table, block);
    this.#show(0, this.layout.grid.rows - 1);
  }

  paint(table, changes) {
    const { columns, rows } = this.layout.grid;
    let first = rows;
    let last = -1;
    for (const ids of changes) {
      for (const block of ids) {
        if (block >= table.numBlocks) continue;
        const row = (this.layout.cellOf(block) / columns) | 0;
        if (row < first) first = row;
        if (row > last) last = row;
        this.#dot(table, block);
      }
    }
    if (last >= 0) this.#show(first, last);
  }

  #dot(table, block) {
    if (table.isNull(block)) return;
    this.pixels[this.layout.cellOf(block)] = table.isLeakedOnly(block)
      ? this.leaked
      : this.colours[table.state[block]];
  }

  #show(first, last) {
    const { columns, rows, xs, ys } = this.layout.grid;
    this.sheetContext.putImageData(this.image, 0, 0, 0, first, columns, last - first + 1);
    const [width, height] = [xs[columns] - xs[0], ys[rows] - ys[0]];
    // Squeezed pictures are averaged; otherwise one cell is one crisp square.
    this.context.imageSmoothingEnabled = this.layout.grid.size < 1;
    this.context.clearRect(0, 0, this.layout.width, this.layout.height);
    this.context.drawImage(this.sheet, xs[0], ys[0], width, height);
  }
}

// Diagonal stripes as a pattern; null for cells too small to carry them.
function hatching(context, colour, size) {
  if (size < 8) return null;
  const step = size >= 14 ? 6 : 4;
  const tile = Object.assign(document.createElement("canvas"), { width: step, height: step });
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = step / 3.2;
  pen.beginPath();
  for (const shift of [-step, 0, step]) {
    pen.moveTo(shift, step);
    pen.lineTo(shift + step, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}
