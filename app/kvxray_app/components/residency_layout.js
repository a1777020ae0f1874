// Where each cached hash lies, in columns and rows of cells. Pure.
//
// "tree": a column a block of the chain, a band a branch: what many chains share is as high as all of them together.
// "rows": one cell after the other, chain by chain, all of one size.

import { NOT_HERE } from "./residency_frame.js";

const NONE = -1;

/**
 * The cells of a frame as a forest: {cols, rows, col, row, span: by cell, endsTree: by row, at(col, row): the cell there
 * or null}. A chain that goes in circles is cut where it is entered.
 */
export function treeLayout(frame) {
  const { order, parent } = inDepthOrder(frame);
  const n = frame.count;
  const col = new Uint32Array(n);
  const span = new Uint32Array(n);
  for (const at of order) col[at] = parent[at] === NONE ? frame.depth[at] : col[parent[at]] + 1;
  for (let place = n - 1; place >= 0; place--) {
    const at = order[place];
    span[at] ||= 1;
    if (parent[at] !== NONE) span[parent[at]] += span[at];
  }
  const row = new Uint32Array(n);
  const next = new Uint32Array(n); // of a cell: the row that its next child begins at
  const endsTree = new Uint8Array(n + 1); // by row: whether a tree ends above it
  let rows = 0;
  for (const at of order) {
    const above = parent[at];
    row[at] = next[at] = above === NONE ? rows : next[above];
    if (above === NONE) endsTree[(rows += span[at])] = 1;
    else next[above] += span[at];
  }
  const byColumn = columnsOf(col, order);
  const cols = byColumn.starts.length - 1;
  return { kind: "tree", cols, rows, col, row, span, parent, endsTree, at: finder(byColumn, row, span) };
}

/** The cells of a frame one after the other, `cols` a row. */
export function rowsLayout(frame, cols) {
  const n = frame.count;
  const { order, parent } = inDepthOrder(frame);
  const place = new Uint32Array(n);
  order.forEach((at, position) => (place[at] = position));
  return {
    kind: "rows",
    cols,
    rows: Math.ceil(n / cols),
    col: place.map((position) => position % cols),
    row: place.map((position) => Math.floor(position / cols)),
    span: new Uint32Array(n).fill(1),
    parent,
    at: (x, y) => (x >= 0 && x < cols && y >= 0 ? (order[y * cols + x] ?? null) : null),
  };
}

// Each cell once, every one after the cell it follows in its chain; the parent of each, NONE without one here.
function inDepthOrder(frame) {
  const n = frame.count;
  const parent = Int32Array.from(frame.parent, (index, at) => (index >= NOT_HERE || index >= n || index === at ? NONE : index));
  const { first, sibling } = childrenOf(parent);
  const seen = new Uint8Array(n);
  const order = new Uint32Array(n);
  const stack = [];
  let told = 0;
  const walk = (root) => {
    stack.push(root);
    while (stack.length) {
      const at = stack.pop();
      if (seen[at]) continue;
      seen[at] = 1;
      order[told++] = at;
      for (let child = first[at]; child !== NONE; child = sibling[child]) if (!seen[child]) stack.push(child);
    }
  };
  for (let at = 0; at < n; at++) if (parent[at] === NONE) walk(at);
  for (let at = 0; at < n; at++) {
    if (seen[at]) continue;
    parent[at] = NONE;
    walk(at);
  }
  return { order, parent };
}

// Lists of children, the last one first, as a stack wants them.
function childrenOf(parent) {
  const first = new Int32Array(parent.length).fill(NONE);
  const sibling = new Int32Array(parent.length).fill(NONE);
  for (let at = 0; at < parent.length; at++) {
    if (parent[at] === NONE) continue;
    sibling[at] = first[parent[at]];
    first[parent[at]] = at;
  }
  return { first, sibling };
}

// The cells of each column, from above: `cells` from `starts[column]` on.
function columnsOf(col, order) {
  const cols = col.reduce((most, column) => Math.max(most, column + 1), 0);
  const starts = new Uint32Array(cols + 1);
  for (const column of col) starts[column + 1]++;
  for (let column = 0; column < cols; column++) starts[column + 1] += starts[column];
  const next = starts.slice();
  const cells = new Uint32Array(col.length);
  for (const at of order) cells[next[col[at]]++] = at;
  return { starts, cells };
}

function finder({ starts, cells }, row, span) {
  return (x, y) => {
    if (x < 0 || x >= starts.length - 1) return null;
    let [low, high] = [starts[x], starts[x + 1]];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (row[cells[middle]] <= y) low = middle + 1;
      else high = middle;
    }
    const at = low > starts[x] ? cells[low - 1] : null;
    return at !== null && y < row[at] + span[at] ? at : null;
  };
}
