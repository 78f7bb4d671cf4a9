// Outlines: what is pointed out in the chart: a selection with its arrows, a span of time, a finding, the critical path.

const ARROWS = 40; // the most that are drawn of one operation

function outline(chart, run, table, row, name, width) {
  const box = chart.boxOf(run, table, row);
  if (!box || box.right < chart.left || box.left > chart.width) return;
  const { context } = chart;
  context.strokeStyle = chart.look(name);
  context.lineWidth = width;
  const left = Math.max(box.left, chart.left - 20);
  const right = Math.min(box.right, chart.width + 20);
  context.strokeRect(left - 0.5, box.top - 0.5, right - left, box.height + 1);
}

/** Draw the chosen span over the lanes. */
function drawSpan(chart) {
  const { context } = chart;
  const [from, to] = chart.span.map((time) => chart.xOf(time));
  context.fillStyle = chart.look("accent");
  context.globalAlpha = 0.12;
  context.fillRect(from, AXIS, to - from, chart.height - AXIS);
  context.globalAlpha = 1;
  for (const x of [from, to]) context.fillRect(Math.round(x), AXIS, 1, chart.height - AXIS);
}

/** Draw how long the chosen span is on the axis, if it is in view. */
function labelSpan(chart) {
  const { context } = chart;
  const [from, to] = chart.span.map((time) => Math.min(Math.max(chart.xOf(time), chart.left), chart.width));
  if (from >= to) return;
  context.fillStyle = chart.look("accent");
  context.fillRect(from, AXIS - 4, to - from, 3);
  const label = formatTime(chart.span[1] - chart.span[0]);
  const width = chart.widthOf(label) + 10;
  const left = Math.min(Math.max((from + to - width) / 2, chart.left), chart.width - width);
  context.fillStyle = chart.look("paper");
  context.fillRect(left, 1, width, AXIS - 5);
  context.fillStyle = chart.look("accent");
  context.fillText(label, left + 5, AXIS / 2 - 1);
}

function drawBand(chart) {
  if (!chart.finding) return;
  const { context, finding } = chart;
  const left = Math.max(chart.xOf(finding.begin), chart.left);
  const right = Math.max(chart.xOf(finding.end), left + 1);
  const rows = chart.rows.filter((row) => row.run === finding.run);
  if (!rows.length) return;
  const bottom = rows.at(-1).top + rows.at(-1).height;
  context.fillStyle = chart.look("band");
  context.fillRect(left, rows[0].top, Math.min(right, chart.width) - left, bottom - rows[0].top);
}

function outlineFinding(chart) {
  if (!chart.finding) return;
  for (const op of chart.finding.ops) outline(chart, chart.finding.run, "ops", op, "accent", 2);
  for (const call of chart.finding.calls) outline(chart, chart.finding.run, "calls", call, "accent", 2);
}

function outlineCritical(chart) {
  for (const run of chart.runs) {
    for (const op of run.path.op) if (op >= 0) outline(chart, run, "ops", op, "critical", 2);
    for (const call of run.path.call) if (call >= 0) outline(chart, run, "calls", call, "critical", 2);
  }
}

function outlineSelection(chart) {
  const { hovered, selected } = chart;
  if (hovered?.kind === "item") outline(chart, hovered.run, hovered.table, hovered.row, "text", 1);
  if (!selected) return;
  const { run, table, row } = selected;
  outline(chart, run, table, row, "accent", 2);
  for (const link of linksOf(run, table, row).slice(0, ARROWS)) {
    const tone = link.role === "waited for" || link.role === "record" ? "accent" : link.leadsHere ? "arrow" : "muted";
    if (link.leadsHere) drawArrow(chart, run, link.table, link.row, table, row, tone);
    else drawArrow(chart, run, table, row, link.table, link.row, tone);
  }
}

/** Draw an arrow between two rows: from the end of work, or from the moment at which a call queued it. */
function drawArrow(chart, run, fromTable, from, toTable, to, tone) {
  const [source, target] = [chart.boxOf(run, fromTable, from), chart.boxOf(run, toTable, to)];
  if (!source || !target) return;
  const { context } = chart;
  if (target.right < chart.left && source.right < chart.left) return;
  if (source.left > chart.width && target.left > chart.width) return;
  const x = fromTable === "calls" && toTable === "ops" ? chart.xOf(Math.min(run.ops.queued[to], run.calls.end[from])) : source.right;
  // What wakes a call reaches it at its end; all else begins with what it waited for.
  const toX = toTable === "calls" ? target.right : target.left;
  const [y, toY] = [source.top + source.height / 2, target.top + target.height / 2];
  const bend = Math.min(Math.max(Math.abs(toX - x) / 2, 12), 80);
  context.strokeStyle = context.fillStyle = chart.look(tone);
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, y);
  context.bezierCurveTo(x + bend, y, toX - bend, toY, toX - 5, toY);
  context.stroke();
  context.beginPath();
  context.moveTo(toX, toY);
  context.lineTo(toX - 7, toY - 4);
  context.lineTo(toX - 7, toY + 4);
  context.fill();
}
