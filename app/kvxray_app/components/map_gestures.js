// What hands do on a map: the wheel and two fingers zoom, dragging moves a map that is larger than its stage, and
// with Shift, or where there is nothing to move, marks blocks. A press that goes nowhere selects. The page keeps its
// own scrolling: the wheel is the map's only while the map has the focus or is zoomed, or with Ctrl.

const DRAG_FROM_PX = 4;
const WHEEL_HALF_PX = 320; // of wheel travel that doubles
const KEEP_WHEEL_MS = 500; // zoomed out by the wheel, the rest of its turn must not scroll the page

/**
 * Listen on a canvas. `on`: {zoom(factor, event), pan(dx, dy) in CSS pixels, canPan(), point(event or null),
 * select(event), mark(fromEvent, event)}. Returns the way out.
 */
export function listenForGestures(canvas, on) {
  const gestures = new Gestures(canvas, on);
  const kinds = ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave", "wheel"];
  const handler = (event) => gestures[event.type](event);
  for (const kind of kinds) canvas.addEventListener(kind, handler, { passive: false });
  return () => kinds.forEach((kind) => canvas.removeEventListener(kind, handler));
}

class Gestures {
  constructor(canvas, on) {
    Object.assign(this, { canvas, on });
    this.fingers = new Map(); // pointers that are down: their last event
    this.began = null; // the event that a drag began with
    this.does = ""; // "", "pan", "mark" or "pinch"
    this.wheelUntil = 0;
  }

  pointerdown(event) {
    if (event.button !== 0) return;
    this.fingers.set(event.pointerId, event);
    this.canvas.setPointerCapture(event.pointerId);
    this.began = event;
    this.does = this.fingers.size > 1 ? "pinch" : "";
  }

  pointermove(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return this.on.point(event);
    if (this.does === "pinch") this.#pinch(event);
    else this.#drag(before, event);
    this.fingers.set(event.pointerId, event);
  }

  pointerup(event) {
    if (!this.fingers.delete(event.pointerId)) return;
    if (this.does === "") this.on.select(event);
    if (this.fingers.size === 0) this.does = "";
    this.canvas.removeAttribute("data-moving");
  }

  pointercancel(event) {
    this.fingers.delete(event.pointerId);
    this.does = "";
    this.canvas.removeAttribute("data-moving");
  }

  pointerleave() {
    if (!this.fingers.size) this.on.point(null);
  }

  wheel(event) {
    const now = performance.now();
    const isZoom = event.ctrlKey || event.metaKey || this.on.canPan() || this.canvas.matches(":focus");
    if (!isZoom && now > this.wheelUntil) return;
    const lines = event.deltaMode === 1 ? 16 : 1;
    const factor = 2 ** ((-event.deltaY * lines * (event.ctrlKey ? 4 : 1)) / WHEEL_HALF_PX);
    const zoomed = isZoom && this.on.zoom(Math.min(4, Math.max(0.25, factor)), event);
    if (zoomed) this.wheelUntil = now + KEEP_WHEEL_MS;
    if (zoomed || event.ctrlKey || now < this.wheelUntil) event.preventDefault();
  }

  #drag(before, event) {
    if (this.does === "" && distance(this.began, event) < DRAG_FROM_PX) return;
    if (this.does === "") this.#begin(event);
    if (this.does === "pan") this.on.pan(event.clientX - before.clientX, event.clientY - before.clientY);
    else if (this.does === "mark") this.on.mark(this.began, event);
  }

  #begin(event) {
    const marks = this.began.shiftKey || !this.on.canPan();
    this.does = !marks ? "pan" : event.pointerType === "touch" ? "none" : "mark";
    this.on.point(null);
    if (this.does === "pan") this.canvas.setAttribute("data-moving", "");
  }

  // Two fingers: the map follows their middle and spreads as they do.
  #pinch(event) {
    const other = [...this.fingers.values()].find(({ pointerId }) => pointerId !== event.pointerId);
    const before = this.fingers.get(event.pointerId);
    if (!other) return;
    const middle = {
      clientX: (event.clientX + other.clientX) / 2,
      clientY: (event.clientY + other.clientY) / 2,
    };
    this.on.pan((event.clientX - before.clientX) / 2, (event.clientY - before.clientY) / 2);
    this.on.zoom(distance(event, other) / Math.max(1, distance(before, other)), middle);
  }
}

const distance = (one, other) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
