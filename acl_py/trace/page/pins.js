// Pins: what takes no time, at the top of its lane. Pins that would cover one another are one bundle, with their number.

const PIN = 8; // pixels, its height and its width
const BUNDLE = 18; // pixels in which all pins are one bundle; their borders move with time, so panning keeps bundles

/** Return the pins of *lane* that are in view, each with its place and the range of points that it stands for. */
function pinsOf(chart, { points }) {
  const cell = (BUNDLE * (chart.end - chart.begin)) / (chart.width - chart.left);
  const pins = [];
  let first = firstAbove(points.begin, (Math.floor(chart.begin / cell) - 1) * cell);
  while (first < points.count && points.begin[first] <= chart.end) {
    const number = Math.floor(points.begin[first] / cell);
    const next = firstAbove(points.begin, lastBefore((number + 1) * cell), first);
    const last = Math.max(next, first + 1) - 1;
    const x = Math.round(chart.xOf((points.begin[first] + points.begin[last]) / 2));
    pins.push({ first, last, x });
    first = last + 1;
  }
  return pins;
}

/** Return a time just before *time*: whatever is at it belongs to the next cell. */
function lastBefore(time) {
  return time - Math.max(1, Math.abs(time)) * Number.EPSILON;
}

function drawPins(chart, lane) {
  const { context } = chart;
  for (const { first, last, x } of pinsOf(chart, lane)) {
    const tones = lane.points.tones.slice(first, last + 1);
    context.fillStyle = chart.look(tones.includes("bad") ? "bad" : tones[0]);
    context.strokeStyle = chart.look("paper");
    context.lineWidth = 1;
    if (first === last) drawPin(context, x, lane.top - 2);
    else drawBundle(chart, x, lane.top - 2, last - first + 1);
  }
}

function drawPin(context, x, top) {
  context.beginPath();
  context.moveTo(x - PIN / 2, top);
  context.lineTo(x + PIN / 2, top);
  context.lineTo(x, top + PIN);
  context.closePath();
  context.stroke();
  context.fill();
}

/** Draw a flag with the number of pins for which it stands. */
function drawBundle(chart, x, top, count) {
  const { context } = chart;
  const text = count < 1000 ? String(count) : `${Math.floor(count / 1000)}k`;
  context.font = `600 8px ${chart.fontFamily}`;
  const width = Math.max(PIN, context.measureText(text).width + 4);
  context.beginPath();
  context.roundRect(x - width / 2, top, width, PIN + 2, 2);
  context.stroke();
  context.fill();
  context.fillStyle = chart.look("paper");
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, x, top + PIN / 2 + 1.5);
  context.textAlign = "left";
}

/** Return the pin of *lane* at the place *x* of the canvas, as an item, or as a bundle of rows; null if there is none. */
function pinAt(chart, lane, x) {
  const near = pinsOf(chart, lane).find((pin) => Math.abs(pin.x - x) <= (pin.first === pin.last ? PIN / 2 : BUNDLE / 2));
  if (!near) return null;
  const rows = [...lane.points.row.subarray(near.first, near.last + 1)];
  const { run, pointTable: table } = lane;
  return rows.length === 1 ? { kind: "item", run, table, row: rows[0], lane }
    : { kind: "bundle", run, table, row: rows[0], rows, lane };
}
