// Where each block is drawn: from left to right, then down, by id or in the order of prefixes, the null block left out.
// All lengths are device pixels.

import { ChosenBlocks } from "./map_chosen.js";

/** A grid of `count` cells that fills an area of `width` x `height` as well as it can. */
export function fitGrid(count, width, height) {
  const square = largestSquare(count, width, height);
  return square < 1 ? squeezedGrid(count, width, height) : stretchedGrid(count, width, height, square);
}

/** The view of the whole grid; `x`, `y`: what is in the middle, as shares of the grid. */
export const WHOLE = Object.freeze({ zoom: 1, x: 0.5, y: 0.5 });

/**
 * The places of blocks in a grid. `nullBlock` is -1 when there is none; `margin` stays free around it, for outlines.
 * `view`: how many times larger than fitting, and what is in the middle; a larger grid covers the area and reaches
 * beyond it.
 */
export class MapLayout {
  constructor(numBlocks, nullBlock, width, height, margin = 0, view = WHOLE) {
    this.numBlocks = numBlocks;
    this.nullBlock = nullBlock >= 0 && nullBlock < numBlocks ? nullBlock : -1;
    this.cells = numBlocks - (this.nullBlock >= 0 ? 1 : 0);
    this.order = null;
    this.width = width;
    this.height = height;
    this.margin = margin;
    this.fit = fitGrid(Math.max(1, this.cells), width - 2 * margin, height - 2 * margin);
    for (const edges of [this.fit.xs, this.fit.ys])
      for (let at = 0; at < edges.length; at++) edges[at] += margin;
    this.look(view);
  }

  /** Lay the blocks out in an order, as MapOrder gives it, or by id (null). Cells stay where they are. */
  arrange(order) {
    this.order = order;
  }

  /** Show another part; the grid keeps its columns and rows. */
  look(view) {
    this.view = view;
    this.grid = view.zoom <= 1 ? this.fit : enlarged(this.fit, view, this.width, this.height, this.margin);
    const { columns, rows, xs, ys } = this.grid;
    const [first, last] = seen(xs, columns, this.margin, this.width - this.margin);
    const [top, bottom] = seen(ys, rows, this.margin, this.height - this.margin);
    this.part = { first, last, top, bottom }; // columns and rows in sight
  }

  /** The nearest view that makes sense: not smaller than fitting, nothing beside the grid while it covers the area. */
  clamped({ zoom, x, y }, mostSize) {
    const most = Math.max(2, mostSize / this.fit.size);
    const scale = Math.min(Math.max(1, zoom), most);
    if (scale < 1.02) return WHOLE;
    const grid = enlarged(this.fit, { zoom: scale, x, y }, this.width, this.height, this.margin);
    const share = (edges, number, length) =>
      (length / 2 - edges[0]) / Math.max(1e-9, edges[number] - edges[0]);
    return {
      zoom: scale,
      x: share(grid.xs, grid.columns, this.width),
      y: share(grid.ys, grid.rows, this.height),
    };
  }

  /** A point of the canvas as shares of the whole grid. */
  shareAt(px, py) {
    const { columns, rows, xs, ys } = this.grid;
    return [(px - xs[0]) / (xs[columns] - xs[0]), (py - ys[0]) / (ys[rows] - ys[0])];
  }

  /** The null block has no cell: what is told of it must not be drawn. */
  cellOf(block) {
    if (this.order) return this.order.places[block];
    return this.nullBlock >= 0 && block > this.nullBlock ? block - 1 : block;
  }

  blockOf(cell) {
    if (this.order) return this.order.blocks[cell];
    return this.nullBlock >= 0 && cell >= this.nullBlock ? cell + 1 : cell;
  }

  /** Left, top, width and height of a block's cell, the gap to its neighbours excluded. */
  box(block) {
    const { columns, xs, ys, gap } = this.grid;
    const cell = this.cellOf(block);
    const column = cell % columns;
    const row = (cell / columns) | 0;
    return [
      xs[column],
      ys[row],
      Math.max(1, xs[column + 1] - xs[column] - gap),
      Math.max(1, ys[row + 1] - ys[row] - gap),
    ];
  }

  /** All blocks from one to another as they lie. */
  between(one, other) {
    if (this.order) return ChosenBlocks.between(this.order, one, other);
    const ends = [Math.min(one, other), Math.max(one, other)];
    return new ChosenBlocks("id", ends);
  }

  /** Whether any of a block's cell is in sight. */
  isInSight(block) {
    const cell = this.cellOf(block);
    if (cell < 0) return false;
    const row = (cell / this.grid.columns) | 0;
    const column = cell - row * this.grid.columns;
    const { first, last, top, bottom } = this.part;
    return column >= first && column <= last && row >= top && row <= bottom;
  }

  /** The block drawn at a point, or null beside the grid. */
  blockAt(x, y) {
    const { columns, rows } = this.grid;
    const [across, down] = this.shareAt(x, y);
    const column = Math.floor(across * columns);
    const row = Math.floor(down * rows);
    if (column < 0 || column >= columns || row < 0 || row >= rows) return null;
    const cell = row * columns + column;
    return cell < this.cells ? this.blockOf(cell) : null;
  }

  /** The block nearest to a point, wherever that is. */
  nearestBlock(x, y) {
    const { columns, rows } = this.grid;
    const [across, down] = this.shareAt(x, y);
    const column = within(Math.floor(across * columns), 0, columns - 1);
    const row = within(Math.floor(down * rows), 0, rows - 1);
    return this.blockOf(Math.min(row * columns + column, this.cells - 1));
  }

  /** The block that a step of `dx`, `dy` cells leads to, staying inside. */
  neighbour(block, dx, dy) {
    const cell = this.cellOf(block) + dx + dy * this.grid.columns;
    return cell < 0 || cell >= this.cells ? block : this.blockOf(cell);
  }
}

const within = (value, least, most) => Math.min(Math.max(value, least), most);

// The fitting grid, `zoom` times as large, moved so that `x`, `y` is in the middle as far as the area stays covered.
function enlarged(fit, { zoom, x, y }, width, height, margin) {
  const size = fit.size * zoom;
  const edges = (old, number, share, length) => {
    const step = ((old[number] - old[0]) * zoom) / number;
    const whole = step * number;
    const spare = length - 2 * margin - whole;
    const start =
      spare >= 0 ? margin + spare / 2 : within(length / 2 - share * whole, margin + spare, margin);
    return steps(start, step, number);
  };
  const xs = edges(fit.xs, fit.columns, x, width);
  const ys = edges(fit.ys, fit.rows, y, height);
  return { columns: fit.columns, rows: fit.rows, size, gap: gapOf(size), xs, ys };
}

// The first and the last of a grid's columns (or rows) that reach into from..to.
function seen(edges, number, from, to) {
  const step = (edges[number] - edges[0]) / number;
  const first = within(Math.floor((from - edges[0]) / step), 0, number - 1);
  const last = within(Math.ceil((to - edges[0]) / step) - 1, 0, number - 1);
  return [first, last];
}

function largestSquare(count, width, height) {
  let size = Math.ceil(Math.sqrt((width * height) / count));
  while (size > 0 && Math.floor(width / size) * Math.floor(height / size) < count) size -= 1;
  return size;
}

function gapOf(size) {
  if (size >= 36) return 3;
  if (size >= 12) return 2;
  return size >= 6 ? 1 : 0;
}

// The number of columns whose cells come nearest to squares when stretched to the whole area: they may differ by one
// pixel.
function stretchedGrid(count, width, height, square) {
  let best = null;
  const first = Math.max(1, Math.floor(width / (square * 1.3)));
  const last = Math.ceil(width / (square * 0.8));
  for (let columns = first; columns <= last; columns++) {
    const rows = Math.ceil(count / columns);
    const skew = Math.abs(Math.log(width / columns / (height / rows)));
    const spare = (columns * rows - count) / count;
    const cost = skew + spare * 0.5;
    if (!best || cost < best.cost) best = { columns, rows, cost };
  }
  const { columns, rows } = best;
  const size = Math.min(width / columns, height / rows);
  const gap = gapOf(size);
  return {
    columns,
    rows,
    size,
    gap,
    xs: steps(0, (width + gap) / columns, columns),
    ys: steps(0, (height + gap) / rows, rows),
  };
}

// More blocks than pixels: a picture of one pixel a block, scaled down.
function squeezedGrid(count, width, height) {
  const columns = Math.max(1, Math.ceil(Math.sqrt((count * width) / height)));
  const rows = Math.ceil(count / columns);
  return {
    columns,
    rows,
    size: width / columns,
    gap: 0,
    xs: steps(0, width / columns, columns),
    ys: steps(0, height / rows, rows),
  };
}

function steps(start, step, number) {
  return Float64Array.from({ length: number + 1 }, (_, at) =>
    step >= 1 ? Math.round(start + at * step) : start + at * step,
  );
}
