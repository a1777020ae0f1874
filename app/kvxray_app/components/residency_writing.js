// Writes into the tree of prefixes where there is room: "shared by 7" across what seven prompts share, and behind each
// chain how long it is. Above it stands how deep in a prompt one is.

import { blankCanvas } from "./blank_canvas.js";
import { rgb } from "./colours.js";
import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { count } from "./format.js";
import { captionsOf, depthMarks, lengthWords, numPrompts } from "./residency_captions.js";

const FONT = "11.5px";
const LEAST_HIGH = 14; // CSS pixels, below which there is no room for words
const LEAST_WIDE = 70;
const MOST_CELLS = 20_000; // of larger trees no part has room for words unless it is much enlarged
const BESIDE = 8;
const DEPTHS_APART = 74;
const FIRST_APART = 96; // "prompt begins" takes more room than a number

export class ResidencyWriting {
  constructor() {
    this.canvas = el("canvas", { class: "writing" });
    this.context = this.canvas.getContext("2d");
    this.axis = el("div", { class: "axis", "aria-hidden": "true" });
    this.layout = null;
  }

  /** `scene`: {frame, layout, view, look, palette, width, height, blockSize}. */
  draw(scene) {
    this.#drawAxis(scene);
    blankCanvas(this.canvas, this.context, scene);
    const { layout, view } = scene;
    if (layout.kind !== "tree" || layout.col.length > MOST_CELLS) return;
    if (this.layout !== layout) Object.assign(this, { layout, captions: captionsOf(layout, scene.frame.ordinal) });
    this.context.font = `${FONT} ${getComputedStyle(this.canvas).fontFamily}`;
    this.context.textBaseline = "middle";
    const { shared, ends } = this.captions;
    for (const band of shared) if (band.span * view.h >= LEAST_HIGH) this.#writeShared(scene, band);
    if (view.h >= LEAST_HIGH) for (const end of ends) this.#writeEnd(scene, end);
  }

  // In the middle of what of the band is in sight, if it fits there.
  #writeShared({ layout, view, look, palette, width, height }, band) {
    const { col, row, wide, span } = band;
    const [left, right] = seen(col * view.w - view.x, wide * view.w, width);
    const [top, bottom] = seen(row * view.h - view.y, span * view.h, height);
    if (right - left < LEAST_WIDE || bottom - top < LEAST_HIGH) return;
    const number = numPrompts(band, this.captions.ends);
    const words = `shared by ${count(number)}`;
    const room = this.context.measureText(words).width + 2 * BESIDE;
    if (right - left < room || number < 2) return;
    const at = layout.at(Math.floor(((left + right) / 2 + view.x) / view.w), row);
    if (at === null) return;
    const under = rgbOfPixel(look.pixels[look.classes[at]]);
    const [x, y] = [(left + right) / 2 - room / 2, (top + bottom) / 2];
    this.context.fillStyle = cssOf(under); // lines between blocks must not cross the words
    this.context.fillRect(x, y - 9, room, 18);
    this.context.fillStyle = readableOn(under, [palette["kx-text"], palette["kx-canvas"]]);
    this.context.fillText(words, x + BESIDE, y);
  }

  #writeEnd({ layout, view, palette, width, height, blockSize }, { col, row }) {
    const x = (col + 1) * view.w - view.x + BESIDE;
    const y = (row + 0.5) * view.h - view.y;
    if (x < 0 || y < 0 || y > height) return;
    const words = lengthWords(col + 1, blockSize);
    if (x + this.context.measureText(words).width > width || layout.at(col + 1, row) !== null) return;
    this.context.fillStyle = palette["kx-text-muted"];
    this.context.fillText(words, x, y);
  }

  #drawAxis({ layout, view, width, blockSize }) {
    setAttribute(this.axis, "hidden", layout.kind !== "tree");
    if (layout.kind !== "tree") return;
    const marks = depthMarks(layout.cols, view.w, DEPTHS_APART)
      .map((col) => ({ col, x: col * view.w - view.x }))
      .filter(({ col, x }) => x >= 0 && x + DEPTHS_APART <= width && (col === 0 || x >= FIRST_APART || view.x > 0));
    reconcile(this.axis, marks, ({ col }) => col, () => el("span"), (node, { col, x }) => {
      setStyle(node, "left", `${x.toFixed(1)}px`);
      setText(node, col ? lengthWords(col, blockSize) : "prompts begin");
    }); // prettier-ignore
  }
}

// The part of a stretch that is on the stage.
const seen = (from, size, most) => [Math.max(0, from), Math.min(most, from + size)];

const rgbOfPixel = (value) => [value & 255, (value >> 8) & 255, (value >> 16) & 255];
const cssOf = (parts) => `rgb(${parts.join()})`;
const luminance = ([red, green, blue]) => (0.299 * red + 0.587 * green + 0.114 * blue) / 255;

// That colour of the palette which stands out most: of text and canvas one is light and one dark in every theme.
function readableOn(under, colours) {
  const apart = (colour) => Math.abs(luminance(rgb(colour)) - luminance(under));
  return colours.reduce((best, colour) => (apart(colour) > apart(best) ? colour : best));
}
