// Where each block is drawn: block ids from left to right, then down, the null block left out. All lengths are
// device pixels.

const STRETCH_FROM = 9; // cells this large may differ by one pixel to fill the area; smaller ones stay squares of equal size

/** A grid of `count` cells that fills an area of `width` x `height` as well as it can. */
export function fitGrid(count, width, height) {
  const square = largestSquare(count, width, height);
  if (square < 1) return squeezedGrid(count, width, height);
  return square < STRETCH_FROM
    ? squareGrid(count, width, height, square)
    : stretchedGrid(count, width, height, square);
}

/** The places of blocks in a grid. `nullBlock` is -1 when there is none; `margin` stays free around it, for outlines. */
export class MapLayout {
  constructor(numBlocks, nullBlock, width, height, margin = 0) {
    this.numBlocks = numBlocks;
    this.nullBlock = nullBlock >= 0 && nullBlock < numBlocks ? nullBlock : -1;
    this.cells = numBlocks - (this.nullBlock >= 0 ? 1 : 0);
    this.width = width;
    this.height = height;
    this.grid = fitGrid(Math.max(1, this.cells), width - 2 * margin, height - 2 * margin);
    for (const edges of [this.grid.xs, this.grid.ys])
      for (let at = 0; at < edges.length; at++) edges[at] += margin;
  }

  cellOf(block) {
    return this.nullBlock >= 0 && block > this.nullBlock ? block - 1 : block;
  }

  blockOf(cell) {
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

  /** The block drawn at a point, or null beside the grid. */
  blockAt(x, y) {
    const { columns, rows, xs, ys } = this.grid;
    const column = Math.floor(((x - xs[0]) / (xs[columns] - xs[0])) * columns);
    const row = Math.floor(((y - ys[0]) / (ys[rows] - ys[0])) * rows);
    if (column < 0 || column >= columns || row < 0 || row >= rows) return null;
    const cell = row * columns + column;
    return cell < this.cells ? this.blockOf(cell) : null;
  }

  /** The block that a step of `dx`, `dy` cells leads to, staying inside. */
  neighbour(block, dx, dy) {
    const cell = this.cellOf(block) + dx + dy * this.grid.columns;
    return cell < 0 || cell >= this.cells ? block : this.blockOf(cell);
  }
}

function largestSquare(count, width, height) {
  let size = Math.ceil(Math.sqrt((width * height) / count));
  while (size > 0 && Math.floor(width / size) * Math.floor(height / size) < count) size -= 1;
  return size;
}

function gapOf(size) {
  if (size >= 12) return 2;
  return size >= 6 ? 1 : 0;
}

function squareGrid(count, width, height, size) {
  const columns = Math.floor(width / size);
  const rows = Math.ceil(count / columns);
  const left = (width - columns * size) >> 1;
  const top = (height - rows * size) >> 1;
  return { columns, rows, size, gap: gapOf(size), xs: steps(left, size, columns), ys: steps(top, size, rows) };
}

// The number of columns whose cells come nearest to squares when stretched to the whole area.
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
