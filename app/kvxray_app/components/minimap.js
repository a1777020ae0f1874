// The whole map in a corner of an enlarged one, with a frame around the part in sight; drag the frame to go elsewhere.

import { el, setAttribute } from "./elements.js";

const WIDEST = 168; // CSS pixels
const HIGHEST = 112;
const PAUSE_MS = 250; // between pictures that only blocks have changed in

export class Minimap {
  /** `go(x, y)`: look at this part, in shares of the whole. */
  constructor(go) {
    this.go = go;
    this.canvas = el("canvas");
    this.frame = el("div", { class: "minimap-frame" });
    this.node = el("div", { class: "minimap", hidden: true, "aria-hidden": "true" }, this.canvas, this.frame);
    this.context = this.canvas.getContext("2d");
    this.drawnAt = 0;
    const onMove = (event) => event.buttons && this.#goTo(event);
    this.node.addEventListener("pointerdown", (event) => {
      this.node.setPointerCapture(event.pointerId);
      this.#goTo(event);
    });
    this.node.addEventListener("pointermove", onMove);
  }

  /** `changed`: whether blocks changed since. Returns whether the picture is behind and should be drawn again. */
  draw(layout, sheet, changed) {
    const isOn = layout.view.zoom > 1;
    setAttribute(this.node, "hidden", !isOn);
    if (!isOn) return false;
    this.#fit(layout);
    this.#drawFrame(layout);
    this.isBehind ||= changed;
    if (!this.isBehind || performance.now() - this.drawnAt < PAUSE_MS) return this.isBehind;
    sheet.flush();
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.context.imageSmoothingEnabled = sheet.columns > this.canvas.width;
    this.context.imageSmoothingQuality = "medium";
    this.context.drawImage(sheet.canvas, 0, 0, this.canvas.width, this.canvas.height);
    this.drawnAt = performance.now();
    this.isBehind = false;
    return false;
  }

  // As wide and high as the grid's shape allows.
  #fit(layout) {
    const { columns, rows, xs, ys } = layout.fit;
    const ratio = (xs[columns] - xs[0]) / (ys[rows] - ys[0]);
    const width = Math.round(Math.min(WIDEST, HIGHEST * ratio));
    const height = Math.max(8, Math.round(width / ratio));
    if (this.width === width && this.height === height) return;
    Object.assign(this, { width, height, isBehind: true, drawnAt: 0 });
    const scale = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
    Object.assign(this.node.style, { width: `${width}px`, height: `${height}px` });
  }

  #drawFrame(layout) {
    const [left, top] = layout.shareAt(layout.margin, layout.margin);
    const [right, bottom] = layout.shareAt(layout.width - layout.margin, layout.height - layout.margin);
    const px = (share, length) => `${Math.min(1, Math.max(0, share)) * length}px`;
    const { style } = this.frame;
    [style.left, style.top] = [px(left, this.width), px(top, this.height)];
    style.width = px(Math.min(1, right) - Math.max(0, left), this.width);
    style.height = px(Math.min(1, bottom) - Math.max(0, top), this.height);
  }

  #goTo(event) {
    const place = this.node.getBoundingClientRect();
    this.go((event.clientX - place.left) / place.width, (event.clientY - place.top) / place.height);
    event.preventDefault();
  }
}
