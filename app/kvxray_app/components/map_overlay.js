// What lies over the blocks: a glow on those that just changed, the ones lit up where they would drown, rings around those
// that an alert marks, the range that is chosen, the one pointed at and the one selected.

const GLOW_MS = 650;
const MAX_GLOWS = 3000;
const GLOW_FROM = 6; // device pixels: smaller cells would only flicker
const MARK_SIDE = 4;
const MARK_BELOW = 3; // device pixels: lit blocks of smaller cells are marked
const RING_FROM = 6; // device pixels: smaller cells get a square instead of a ring
const MARKED_SIDE = 6;
const MAX_MARKS = 20_000;

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
    this.marked = null; // blocks that an alert is about
    this.numMarked = 0; // of these, how many were drawn
    this.range = null; // ChosenBlocks
    this.differing = null; // blocks that differ from another moment
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
      if (!this.layout.isInSight(ids[row])) continue;
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
    this.#within(() => this.#drawGlows(now));
    this.#within(() => this.#drawSets(table));
    this.#drawMarked();
    if (this.range) this.#drawRange();
    if (this.selected !== null)
      this.#outline(this.selected, this.palette["kx-panel"], this.palette["kx-text"], 2);
    if (this.cursor !== null)
      this.#outline(this.cursor, this.palette["kx-panel"], this.palette["kx-accent"], 2);
    if (this.hover !== null) this.#outline(this.hover, null, this.palette["kx-text"], 1.5);
  }

  // Nothing is drawn into the margin, which belongs to outlines.
  #within(paint) {
    const { context, layout } = this;
    const { margin, width, height } = layout;
    context.save();
    context.beginPath();
    context.rect(margin, margin, width - 2 * margin, height - 2 * margin);
    context.clip();
    paint();
    context.restore();
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

  #drawSets(table) {
    const { size } = this.layout.grid;
    if (this.lit && size < MARK_BELOW) this.#mark(this.lit, this.palette["kx-text"], 3);
    else if (this.differing && size >= GLOW_FROM) this.#outlineDiffering();
    if (size < GLOW_FROM) this.#drawLeaks(table);
  }

  // Each wears a ring, which does not depend on what its colour tells.
  #drawMarked() {
    const { layout } = this;
    const { numBlocks } = layout;
    const drawn = (this.marked ?? []).filter((block) => block < numBlocks && layout.isInSight(block));
    this.numMarked = drawn.length;
    const colour = this.palette["kx-critical"];
    if (layout.grid.size < RING_FROM) return this.#mark(drawn, colour, MARKED_SIDE);
    for (const block of drawn) this.#outline(block, this.palette["kx-panel"], colour, 2.5);
  }

  // What stayed the same has stepped back; what did not is outlined where a cell has room for it.
  #outlineDiffering() {
    const { context, layout } = this;
    context.strokeStyle = this.palette["kx-past"];
    context.lineWidth = layout.grid.size >= 14 ? 2 : 1;
    const inset = context.lineWidth / 2;
    for (const block of this.differing) {
      if (block >= layout.numBlocks || !layout.isInSight(block)) continue;
      const [x, y, width, height] = layout.box(block);
      context.strokeRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset);
    }
  }

  // In a picture of pixels a leaked block would drown: mark each with a visible square, those that only ended
  // requests hold with a larger one.
  #drawLeaks(table) {
    const leaked = table.leakedBlocks();
    const isOnly = (block) => table.isLeakedOnly(block);
    const colour = this.palette["kx-leaked"];
    this.#mark(leaked, colour, (block) => (isOnly(block) ? MARK_SIDE : MARK_SIDE / 2));
  }

  // A square on each block, `side` (a number, or told block by block) device pixels wide.
  #mark(blocks, colour, side) {
    this.context.fillStyle = colour;
    const sideOf = typeof side === "function" ? side : () => side;
    for (const block of blocks.length > MAX_MARKS ? blocks.slice(0, MAX_MARKS) : blocks) {
      if (block >= this.layout.numBlocks || !this.layout.isInSight(block)) continue;
      const [x, y, width] = this.layout.box(block);
      const length = Math.max(width, sideOf(block));
      const shift = (length - width) / 2;
      this.context.fillRect(Math.round(x - shift), Math.round(y - shift), length, length);
    }
  }

  // Like marked text: from the first cell to the end of its row, the rows between, and up to the last cell.
  #drawRange() {
    const { context, layout } = this;
    const span = this.#spanOfRange();
    if (!span) return;
    const path = spanPath(layout.grid, ...span);
    for (const [colour, width] of [
      [this.palette["kx-panel"], 4.5],
      [this.palette["kx-accent"], 2],
    ]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.lineJoin = "round";
      context.stroke(path);
    }
  }

  // Found anew only when the range or the order changed: it may be of a million blocks.
  #spanOfRange() {
    const { range, layout, found } = this;
    const { order } = layout;
    if (found?.range !== range || found.layout !== layout || found.order !== order)
      this.found = { range, layout, order, span: range.span(layout) };
    return this.found.span;
  }

  #outline(block, halo, colour, width) {
    if (block >= this.layout.numBlocks || !this.layout.isInSight(block)) return;
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

// Around the cells from `begin` to `end`.
function spanPath({ columns, xs, ys, gap }, begin, end) {
  const [top, bottom] = [begin, end].map((cell) => Math.floor(cell / columns));
  const [left, right] = [xs[begin % columns], xs[(end % columns) + 1] - gap];
  const [low, high] = [xs[0], xs[columns] - gap];
  const corners =
    top === bottom
      ? [
          [left, ys[top]],
          [right, ys[top]],
          [right, ys[top + 1] - gap],
          [left, ys[top + 1] - gap],
        ]
      : [
          [left, ys[top]],
          [high, ys[top]],
          [high, ys[bottom] - gap],
          [right, ys[bottom] - gap],
          [right, ys[bottom + 1] - gap],
          [low, ys[bottom + 1] - gap],
          [low, ys[top + 1]],
          [left, ys[top + 1]],
        ];
  const path = new Path2D();
  for (const [x, y] of corners) path.lineTo(x, y);
  path.closePath();
  return path;
}
