// A canvas made blank, as large as its stage and as fine as the screen: what is drawn then is in CSS pixels.

export function blankCanvas(canvas, context, { width, height }) {
  const ratio = devicePixelRatio;
  const [wide, high] = [width, height].map((size) => Math.max(1, Math.round(size * ratio)));
  // Setting a size empties the canvas and costs a layout, also where it is the same.
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
}
