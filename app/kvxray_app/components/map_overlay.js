// What lies over the blocks: a glow on those that just changed, the ones lit up, the one pointed at and the one
// selected.

const GLOW_MS = 650;
const MAX_GLOWS = 3000;
const GLOW_FROM = 6; // device pixels: smaller cells would only flicker
const MARK_SIDE = 4;

export class MapOverlay {
  constructor(canvas, still) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.still = still;
    this.glows = new Map();
    this.hover = null;
    this.cursor = null;
    this.selected = null;
    this.lit = null;
  }

  setLayout(layout, palette) {
    this.layout = layout;
    this.palette = palette;
    this.glows.clear();
  }

  /** Let blocks glow: those that turned (state, references) brightly, those merely written to faintly. */
  glow(ids, turned, now) {
    if (this.still || this.layout.grid.size < GLOW_FROM) return;
    for (let row = 0; row < ids.length && this.glows.size < MAX_GLOWS; row++) {
      const strength = turned[row] ? 0.5 : 0.14;
      const before = this.glows.get(ids[row]);
      if (!before || before.strength <= strength || now - before.at > GLOW_MS / 2)
        this.glows.set(ids[row], { at: now, strength });
    }
  }

  /** True while something moves by itself. */
  isMoving() {
    return this.glows.size > 0;
  }

  draw(table, now) {
    const { context, layout } = this;
    context.clearRect(0, 0, layout.width, layout.height);
    this.#drawGlows(now);
    if (this.lit) this.#drawLit();
    if (layout.grid.size < GLOW_FROM) this.#drawLeaks(table);
    if (this.selected !== null)
      this.#outline(this.selected, this.palette["kx-panel"], this.palette["kx-text"], 2);
    if (this.cursor !== null)
      this.#outline(this.cursor, this.palette["kx-panel"], this.palette["kx-accent"], 2);
    if (this.hover !== null) this.#outline(this.hover, null, this.palette["kx-text"], 1.5);
  }

  #drawGlows(now) {
    const { context } = this;
    context.fillStyle = this.palette["kx-glow"];
    for (const [block, { at, strength }] of this.glows) {
      const left = 1 - (now - at) / GLOW_MS;
      if (left <= 0) {
        this.glows.delete(block);
        continue;
      }
      context.globalAlpha = strength * left * left;
      context.fillRect(...this.layout.box(block));
    }
    context.globalAlpha = 1;
  }

  // Everything else steps back behind a veil.
  #drawLit() {
    const { context, layout } = this;
    context.fillStyle = this.palette["kx-veil"];
    context.fillRect(0, 0, layout.width, layout.height);
    for (const block of this.lit) if (block < layout.numBlocks) context.clearRect(...layout.box(block));
  }

  // In a picture of pixels a leaked block would drown: mark each with a visible square, those that only ended
  // requests hold with a larger one.
  #drawLeaks(table) {
    if (!table.leaked) return;
    this.context.fillStyle = this.palette["kx-leaked"];
    for (let block = 0; block < table.numBlocks; block++) {
      if (!table.isLeaked(block)) continue;
      const [x, y] = this.layout.box(block);
      const side = table.isLeakedOnly(block) ? MARK_SIDE : MARK_SIDE / 2;
      this.context.fillRect(Math.round(x) - 1, Math.round(y) - 1, side, side);
    }
  }

  #outline(block, halo, colour, width) {
    if (block >= this.layout.numBlocks) return;
    const [x, y, boxWidth, boxHeight] = this.layout.box(block);
    const grow = Math.max(1, 3 - boxWidth / 2);
    const rect = [x - grow, y - grow, boxWidth + 2 * grow, boxHeight + 2 * grow];
    this.context.lineJoin = "round";
    for (const [stroke, thickness] of [
      [halo, width + 2.5],
      [colour, width],
    ]) {
      if (!stroke) continue;
      this.context.strokeStyle = stroke;
      this.context.lineWidth = thickness;
      this.context.strokeRect(...rect);
    }
  }
}
