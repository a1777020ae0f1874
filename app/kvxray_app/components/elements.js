// Building and patching DOM without a framework. Text only ever goes through textContent: names of requests and
// generated text come from outside and are never markup.

/** Make an element: `el("button", {class: "x", onclick: f, "aria-label": "y"}, child, "text")`. Null children are left out. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Set text only when it differs: an unchanged page costs no layout. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Set running text in which `names` may stand, given by others: one that is written from right to left, or turns the
 * direction of text, does so to itself alone.
 */
export function setWords(node, text, names) {
  if (node.textContent !== text) node.replaceChildren(...isolated(text, names));
}

const TURNS = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Bidi_Control}]/u;

function isolated(text, names) {
  const turning = names.filter((name) => TURNS.test(name)).sort((a, b) => b.length - a.length);
  const around = (part, name) =>
    typeof part === "string"
      ? part.split(name).flatMap((piece, at) => (at ? [el("bdi", {}, name), piece] : [piece]))
      : [part];
  return turning.reduce((parts, name) => parts.flatMap((part) => around(part, name)), [text]);
}

/** Set or remove (null, false) an attribute only when it differs. */
export function setAttribute(node, name, value) {
  if (value == null || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

export function setStyle(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) node.style.setProperty(name, value);
}

/**
 * Bring the children of `parent` in line with `items`, keeping nodes by key. `make(item)` builds a node, `patch(node, item)`
 * updates it. Nodes are moved only when their order changed.
 */
export function reconcile(parent, items, key, make, patch) {
  const known = (parent.kxNodes ??= new Map());
  const wanted = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    wanted.add(name);
    let node = known.get(name);
    if (!node) {
      node = make(item);
      known.set(name, node);
    }
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
    patch(node, item);
  }
  for (const [name, node] of known) {
    if (wanted.has(name)) continue;
    node.remove();
    known.delete(name);
  }
}
