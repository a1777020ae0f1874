// A histogram over time as a heat map: a column a bucket of time, a field a bucket of values, the darker the more fell
// into it. Values stand on a logarithmic scale, since the bounds of buckets do.

const WIDTH = 600;
const HEIGHT = 144;

/** `place(value)`: 0 at the foot, 1 at the top; `low` and `high`: what these are. */
export function heatScale(heat) {
  const bounds = heat.flatMap(({ lower, upper }) => [lower, upper]).filter((bound) => bound > 0);
  const low = (bounds.length ? Math.min(...bounds) : 1) / 2;
  const high = Math.max(bounds.length ? Math.max(...bounds) : 1, low * 4) * 1.25;
  const span = Math.log(high / low);
  const place = (value) => (value <= low ? 0 : Math.min(1, Math.log(value / low) / span));
  return { low, high, place };
}

/** `colour`: of what is fullest. */
export function drawHeat(canvas, line, scale, colour) {
  const num = line.values.length;
  const most = Math.max(...line.heat.flatMap(({ counts }) => counts), 1e-9);
  if (canvas.width !== WIDTH) Object.assign(canvas, { width: WIDTH, height: HEIGHT });
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, WIDTH, HEIGHT);
  context.fillStyle = colour;
  for (const { lower, upper, counts } of line.heat) {
    const top = Math.round(HEIGHT * (1 - (upper === null ? 1 : scale.place(upper))));
    const foot = Math.round(HEIGHT * (1 - scale.place(lower)));
    counts.forEach((count, at) => {
      if (!count) return;
      // Few among many are to be seen too.
      context.globalAlpha = 0.12 + 0.78 * Math.sqrt(count / most);
      const left = Math.floor((at / num) * WIDTH);
      context.fillRect(left, top, Math.ceil(((at + 1) / num) * WIDTH) - left, Math.max(1, foot - top));
    });
  }
  context.globalAlpha = 1;
}
