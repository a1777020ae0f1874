// Cells large enough to show more than a colour: the filled part is the slots written, a number the references, hatching
// a leak, a corner one that living holders share. Each look of a cell is drawn once and stamped from then on: a map has
// thousands of cells and few dozen looks.

import { mix, rgb } from "./colours.js";
import { FULL, UNKNOWN } from "./frames.js";
import { FADED, LEAKED } from "./map_look.js";

export const FILL_FROM = 9; // device pixels from which cells are drawn one by one
const NUMBER_FROM = 15;
const CORNER = 0.42; // of a cell's side
const CACHED = 3;
const SHARED = 5;
const MOST_BYTES = 16 << 20;

export class CellSprites {
  constructor(palette, look, size) {
    Object.assign(this, { look, size });
    this.panel = palette["kx-panel"];
    this.dark = palette["kx-on-shared"];
    this.light = palette["kx-glow"];
    this.leaked = palette["kx-leaked"];
    this.soft = look.colours.map((colour) => mix(colour, this.panel, 0.3));
    this.radius = size >= 14 ? 3 : 2;
    this.font = `600 ${Math.round(Math.min(size * 0.52, 26))}px "Source Sans", system-ui, sans-serif`;
    this.made = new Map();
    this.most = Math.ceil(MOST_BYTES / (4 * (size + 2) ** 2));
    this.context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    this.hatch = hatching(this.context, this.leaked, size);
    this.hatchSoft = hatching(this.context, mix(this.leaked, this.panel, 0.25), size);
    this.haze = hatching(this.context, this.panel, size);
  }

  /** The pixels of a block's cell, `width` x `height`, as u4. */
  of(table, block, width, height) {
    const index = this.look.indexOf(table, block);
    const level = this.#level(table, block, height);
    const isHatched = this.look.mode === "state" && table.isLeakedOnly(block);
    const corner = table.isLeaked(block) && !isHatched ? 1 : 0;
    const number = this.#number(table, block);
    const key = ((((index * 4096 + level) * 2 + corner) * 256 + number) * 4096 + width) * 4096 + height;
    let sprite = this.made.get(key);
    if (sprite) return sprite;
    if (this.made.size >= this.most) this.made.clear();
    sprite = this.#draw({ index, level, corner, number, state: table.state[block] }, width, height);
    this.made.set(key, sprite);
    return sprite;
  }

  // How high the slots written stand, in pixels.
  #level(table, block, height) {
    const fill = table.fill[block];
    if (table.state[block] < CACHED || fill === UNKNOWN || fill >= FULL || table.isLeakedOnly(block))
      return height;
    return Math.min(height - 1, Math.max(fill ? 2 : 0, Math.round((height * fill) / FULL)));
  }

  #number(table, block) {
    return table.state[block] === SHARED && this.size >= NUMBER_FROM ? table.ref[block] : 0;
  }

  #draw({ index, level, corner, number, state }, width, height) {
    Object.assign(this.context.canvas, { width, height }); // which also clears it
    const isLeak = this.look.mode === "state" && index % FADED === LEAKED;
    if (isLeak) this.#leak(index, width, height);
    else this.#vessel(index, level, width, height);
    if (state === 0 && this.haze) this.#shape(this.haze, 0, 0, width, height, this.radius);
    if (corner) this.#corner(width, index >= FADED);
    if (number && number !== UNKNOWN && index < FADED) this.#references(number, index, isLeak, width, height);
    return new Uint32Array(this.context.getImageData(0, 0, width, height).data.buffer);
  }

  // A cell as a vessel: full colour up to the slots written, a soft one above.
  #vessel(index, level, width, height) {
    const solid = this.look.colours[index];
    if (level === height) return this.#shape(solid, 0, 0, width, height, this.radius);
    this.#shape(this.soft[index], 0, 0, width, height, this.radius);
    if (level) this.#shape(solid, 0, height - level, width, level, [0, 0, this.radius, this.radius]);
  }

  #leak(index, width, height) {
    const colour = this.look.colours[index];
    const hatch = index >= FADED ? this.hatchSoft : this.hatch;
    this.#shape(this.soft[index], 0, 0, width, height, this.radius);
    this.#shape(hatch, 0, 0, width, height, this.radius);
    this.context.strokeStyle = colour;
    this.context.lineWidth = 2;
    this.context.beginPath();
    this.context.roundRect(1, 1, width - 2, height - 2, this.radius);
    this.context.stroke();
  }

  // Living requests need the block as well: it keeps the look of its state, and a corner tells of the dead.
  #corner(width, faded) {
    const side = Math.max(3, Math.round(width * CORNER));
    const border = this.size >= NUMBER_FROM ? 2 : 1;
    for (const [colour, length] of [
      [this.panel, side + border],
      [faded ? mix(this.leaked, this.panel, 0.25) : this.leaked, side],
    ]) {
      this.context.fillStyle = colour;
      this.context.beginPath();
      this.context.moveTo(width - length, 0);
      this.context.lineTo(width, 0);
      this.context.lineTo(width, length);
      this.context.fill();
    }
  }

  #references(number, index, isLeak, width, height) {
    const { context } = this;
    const place = [number >= FULL ? "…" : String(number), width / 2, height / 2 + 1];
    context.font = this.font;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = isBright(this.look.colours[index]) ? this.dark : this.light;
    if (isLeak) this.#plate(place);
    context.fillText(...place);
  }

  // On hatching a number needs ground of its own.
  #plate([text, x, y]) {
    const [width, height] = [this.context.measureText(text).width + 5, this.size * 0.6];
    this.#shape(this.panel, x - width / 2, y - height / 2 - 1, width, height, 2);
    this.context.fillStyle = this.leaked;
  }

  #shape(colour, x, y, width, height, radius) {
    this.context.fillStyle = colour;
    this.context.beginPath();
    this.context.roundRect(x, y, width, height, radius);
    this.context.fill();
  }
}

function isBright(colour) {
  const [red, green, blue] = rgb(colour);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 120;
}

// Diagonal stripes as a pattern.
function hatching(context, colour, size) {
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
