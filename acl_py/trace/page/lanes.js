// Lanes: the rows of the picture. A lane has levels, because things on one engine may overlap; the spans of one level
// never overlap, so each is found by binary search.

const PATH = "Critical path";
const MARKS = "Marks";
const HOST = "Host";
const STREAMS = "Streams";
const ENGINES = "Engines";

/** Spans that do not overlap, in order of time, with sums that tell how much of any stretch is filled. */
class Track {
  constructor(spans) {
    const count = spans.length;
    this.count = count;
    this.begin = Float64Array.from(spans, (span) => span.begin);
    this.end = Float64Array.from(spans, (span) => span.end);
    this.row = Int32Array.from(spans, (span) => span.row);
    this.tones = spans.map((span) => span.tone);
    this.filled = new Float64Array(count + 1);
    for (let index = 0; index < count; index++) {
      this.filled[index + 1] = this.filled[index] + this.end[index] - this.begin[index];
    }
  }

  /** Return how many nanoseconds from *begin* to *end* are filled. */
  filledIn(begin, end) {
    let first = firstAbove(this.end, begin);
    const last = firstAbove(this.begin, end, first);
    if (first >= last) return 0;
    const cut = Math.max(0, begin - this.begin[first]) + Math.max(0, this.end[last - 1] - end);
    return this.filled[last] - this.filled[first] - cut;
  }
}

/** Return the first index from *from* on whose value is above *limit*. Values ascend. It looks near *from* first. */
function firstAbove(values, limit, from = 0) {
  let low = from;
  let step = 1;
  while (low + step < values.length && values[low + step] <= limit) {
    low += step;
    step *= 2;
  }
  let high = Math.min(low + step, values.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Distribute *spans* to levels, each to the first that is free. */
function stacked(spans) {
  spans.sort((one, other) => one.begin - other.begin || one.end - other.end);
  const levels = [];
  for (const span of spans) {
    let level = levels.find((each) => each.at(-1).end <= span.begin);
    if (!level) levels.push((level = []));
    level.push(span);
  }
  return levels;
}

/** Return the gaps of a lane of operations: each ends with an operation, and has the cause why that was not earlier.
 *
 * Until the operation is queued, or its call begins to stage it, nothing but the host is the cause.
 */
function gapsOf(run, rows) {
  const { ops } = run;
  const ordered = [...rows].sort((one, other) => ops.start[one] - ops.start[other]);
  const gaps = [];
  let reached = ordered.length ? ops.start[ordered[0]] : 0;
  for (const row of ordered) {
    let begin = reached;
    if (WHYS[ops.why[row]] !== "host") {
      const given = Math.min(givenAt(run, row), ops.start[row]);
      if (begin < given) gaps.push({ begin, end: given, row, tone: "cause-0" });
      begin = Math.max(begin, given);
    }
    if (begin < ops.start[row]) gaps.push({ begin, end: ops.start[row], row, tone: `cause-${ops.why[row]}` });
    reached = Math.max(reached, ops.end[row]);
  }
  return gaps;
}

/** Return when the host gave the operation of *row* to the device: when it was queued, or its call began to stage it. */
function givenAt({ ops, calls }, row) {
  const isStaged = WHYS[ops.why[row]] === "staging" && ops.call[row] >= 0;
  return isStaged ? calls.start[ops.call[row]] : ops.queued[row];
}

/** Return the lanes of *run*, in the order in which they are drawn. */
function lanesOf(run) {
  const lanes = [...pathLanes(run), ...markLanes(run), ...hostLanes(run), ...graphLanes(run), ...streamLanes(run), ...engineLanes(run), ...pipeLanes(run)];
  for (const lane of lanes) {
    lane.run = run;
    lane.levels = stacked(lane.spans).map((spans) => new Track(spans.flatMap((span) => span.parts ?? [span])));
    lane.gaps = new Track(lane.gaps ?? []);
    lane.points = new Track((lane.points ?? []).sort((one, other) => one.begin - other.begin));
    delete lane.spans;
  }
  run.places = placesOf(run, lanes);
  return lanes;
}

/** Return the lane of the critical path, if there is one. */
function pathLanes(run) {
  const { path } = run;
  const spans = Array.from(path.start, (begin, row) => ({ begin, end: path.end[row], row, tone: pathTone(run, row) }));
  return spans.length ? [{ group: PATH, label: "critical path", table: "path", spans }] : [];
}

/** Return the colour of a part of the critical path: that of the work, of the host, or of what was waited for. */
function pathTone(run, row) {
  const cause = run.text(run.path.cause[row]);
  if (cause === "work") return run.text(run.ops.kind[run.path.op[row]]);
  return { call: "call", program: "program", asleep: "held" }[cause] ?? `cause-${WHYS.indexOf(cause)}`;
}

/** Return the lane of what the program has marked, if it has marked anything. */
function markLanes(run) {
  const { marks } = run;
  const all = Array.from(marks.start, (begin, row) => ({ begin, end: marks.end[row], row, tone: "mark" }));
  const spans = all.filter(({ begin, end }) => begin < end);
  const points = all.filter(({ begin, end }) => begin === end);
  return all.length ? [{ group: MARKS, label: "marks", table: "marks", pointTable: "marks", spans, points }] : [];
}

function hostLanes(run) {
  const { calls, sleeps } = run;
  const lanes = run.hosts.map((label) => ({ group: HOST, label, table: "calls", spans: [] }));
  let sleep = 0;
  for (let row = 0; row < calls.rows; row++) {
    const [begin, end] = [calls.start[row], calls.end[row]];
    const parts = [];
    let reached = begin;
    for (; sleeps.call[sleep] === row; sleep++) {
      if (reached < sleeps.start[sleep]) parts.push({ begin: reached, end: sleeps.start[sleep], row, tone: "call" });
      parts.push({ begin: sleeps.start[sleep], end: (reached = sleeps.end[sleep]), row, tone: "held" });
    }
    if (reached < end || !parts.length) parts.push({ begin: reached, end, row, tone: "call" });
    lanes[calls.host[row]].spans.push({ begin, end, row, parts });
  }
  if (lanes.length === 1) lanes[0].label = "host";
  return lanes;
}

/** Return a lane for each key of *keyOf*, with the operations that have it. */
function operationLanes(run, group, keys, keyOf, ofStream) {
  const rows = new Map(keys.map(({ key }) => [key, []]));
  for (let row = 0; row < run.ops.rows; row++) rows.get(keyOf(row)).push(row);
  return keys.filter(({ key }) => ofStream || rows.get(key).length).map(({ key, label, device }) => ({
    group, label, device, table: "ops",
    spans: rows.get(key).map((row) => ({
      begin: run.ops.start[row], end: run.ops.end[row], row, tone: run.text(run.ops.kind[row]),
    })),
    gaps: gapsOf(run, rows.get(key)),
  }));
}

/** Return a lane of launches of graphs for each device that has any. */
function graphLanes(run) {
  const { launches } = run;
  const many = devicesOf(run).length > 1;
  const lanes = new Map();
  for (let row = 0; row < launches.rows; row++) {
    const device = launches.device[row];
    const label = many ? `${device}: graphs` : "graphs";
    if (!lanes.has(device)) lanes.set(device, { group: STREAMS, label, device, table: "launches", spans: [] });
    lanes.get(device).spans.push({ begin: launches.start[row], end: launches.end[row], row, tone: "graph" });
  }
  return [...lanes.values()];
}

function streamLanes(run) {
  const many = devicesOf(run).length > 1;
  const keys = run.streams.map(([device, name]) => ({
    key: `${device} ${name}`, device, label: many ? `${device}: ${run.text(name)}` : run.text(name),
  }));
  const keyOf = (table) => (row) => `${table.device[row]} ${table.stream[row]}`;
  const lanes = operationLanes(run, STREAMS, keys, keyOf(run.ops), true);
  const byKey = new Map(keys.map(({ key }, place) => [key, lanes[place]]));
  for (const lane of lanes) Object.assign(lane, { points: [], pointTable: "steps" });
  for (let row = 0; row < run.steps.rows; row++) {
    const begin = run.steps.start[row];
    const tone = run.steps.isOver[row] ? "step" : "bad";
    byKey.get(keyOf(run.steps)(row)).points.push({ begin, end: begin, row, tone });
  }
  return lanes;
}

function engineLanes(run) {
  const devices = devicesOf(run);
  const keys = devices.flatMap((device) => run.engines.map((name) => ({
    key: `${device} ${name}`, device, label: devices.length > 1 ? `${device}: ${run.text(name)}` : run.text(name),
  })));
  return operationLanes(run, ENGINES, keys, (row) => `${run.ops.device[row]} ${run.ops.engine[row]}`, false);
}

function devicesOf(run) {
  return [...new Set(run.streams.map(([device]) => device))];
}

/** Return a lane for each pipe; the pipes of a core are a group. */
function pipeLanes(run) {
  const { instructions: table, ops } = run;
  const lanes = new Map();
  for (let row = 0; row < table.rows; row++) {
    const [core, pipe] = [run.text(table.core[row]), run.text(table.pipe[row])];
    const device = ops.device[table.operation[row]];
    const key = `${device} ${core} ${pipe}`;
    if (!lanes.has(key)) {
      const [type, number] = core.split(" ");
      const order = [device, type, Number(number), PIPES.indexOf(pipe)];
      const group = devicesOf(run).length > 1 ? `${device}: ${core}` : core;
      lanes.set(key, { group, label: pipe, device, order, table: "instructions", spans: [] });
    }
    const tone = run.text(table.kind[row]) === "work" ? `pipe-${pipe}` : "held";
    lanes.get(key).spans.push({ begin: table.start[row], end: table.end[row], row, tone });
  }
  return [...lanes.values()].sort((one, other) => compare(one.order, other.order));
}

function compare(one, other) {
  for (let place = 0; place < one.length; place++) {
    if (one[place] !== other[place]) return one[place] < other[place] ? -1 : 1;
  }
  return 0;
}

/** Return for each table the lane and the level of each row; an operation is found in its stream. */
function placesOf(run, lanes) {
  const places = {};
  for (const name of TABLES) places[name] = { lane: new Array(run[name].rows), level: new Int32Array(run[name].rows) };
  const put = (track, { lane: laneOf, level: levelOf }, lane, level) => {
    for (const row of track.row) {
      laneOf[row] = lane;
      levelOf[row] = level;
    }
  };
  for (const lane of lanes) {
    if (lane.group === ENGINES) continue;
    lane.levels.forEach((track, level) => put(track, places[lane.table], lane, level));
    if (lane.points.count) put(lane.points, places[lane.pointTable], lane, 0);
  }
  return places;
}
