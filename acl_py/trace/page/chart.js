// The chart: lanes on a canvas. Each frame draws only the lanes and the spans that are visible. Spans narrower than a
// pixel become columns of a pixel, whose strength says how much of it is filled; so a frame costs as much as the
// picture has pixels, however many spans there are.

const AXIS = 26; // heights in pixels
const RUN_ROW = 34;
const GROUP_ROW = 22;
const LANE_GAP = 4;
const LEAST_SPAN_NS = 2; // of the window
const NARROW = 3; // pixels: what is narrower goes to the strip
const MOST_PAPER = 8000; // pixels of height
const TICK = 96; // the least distance of two ticks

const OVERHANG = 0.02; // of the whole, on both sides

class Chart {
  constructor(canvas, scroller, room, runs) {
    this.canvas = canvas;
    this.scroller = scroller;
    this.room = room;
    this.context = canvas.getContext("2d");
    this.runs = runs;
    this.lanes = runs.flatMap(lanesOf);
    this.collapsed = new Set(runs.flatMap((run) => otherCores(run, this.lanes).map((group) => this.keyOf(run, group))));
    this.selected = null;
    this.hovered = null;
    this.finding = null;
    this.span = null; // the time that was chosen: its begin and its end
    this.showsCritical = false;
    this.isMatch = null; // (run, table, row) => whether a search found it
    this.strip = new Strip();
    this.scroll = 0; // pixels above the first that is visible
    this.whole = wholeOf(runs, this.lanes);
    [this.begin, this.end] = this.home();
    this.readLooks();
    this.arrange();
  }

  /** The window that is shown first: the work of all runs. */
  home() {
    const end = Math.max(1, ...this.runs.map((run) => run.until));
    return [-end * OVERHANG, end * (1 + OVERHANG)];
  }

  readLooks() {
    const style = getComputedStyle(document.documentElement);
    const cache = new Map();
    this.look = (name) => {
      if (!cache.has(name)) cache.set(name, style.getPropertyValue(`--${name}`).trim() || "#888");
      return cache.get(name);
    };
    this.fontFamily = style.getPropertyValue("--font");
    this.font = `11px ${this.fontFamily}`;
    this.bold = `600 12px ${this.fontFamily}`;
    this.widths = new Map();
    this.hatch = hatched(this.context, this.look("held"), this.look("held-line"));
  }

  // --- layout

  /** Put the rows one below the other: a heading for each run if there are several, one for each group, the lanes. */
  arrange() {
    this.rows = [];
    let top = AXIS;
    const add = (row, height) => {
      this.rows.push({ ...row, top, height });
      top += height;
    };
    for (const run of this.runs) {
      if (this.runs.length > 1) add({ kind: "run", key: run, run }, RUN_ROW);
      if (this.collapsed.has(run)) continue;
      let group = null;
      for (const lane of this.lanes.filter((each) => each.run === run)) {
        const key = this.keyOf(run, lane.group);
        if (lane.group !== group && !isAlone(lane)) add({ kind: "group", key, label: lane.group, run }, GROUP_ROW);
        group = lane.group;
        if (this.collapsed.has(key)) {
          lane.top = null;
          continue;
        }
        lane.levelHeight = levelHeight(lane.levels.length);
        lane.top = top + LANE_GAP / 2;
        lane.height = Math.max(1, lane.levels.length) * lane.levelHeight;
        add({ kind: "lane", lane, run }, lane.height + LANE_GAP);
      }
    }
    for (const lane of this.lanes) if (this.collapsed.has(lane.run)) lane.top = null;
    this.contentHeight = top + 8;
    this.room.style.height = `${this.contentHeight}px`;
  }

  keyOf(run, group) {
    return `${this.runs.indexOf(run)} ${group}`;
  }

  /** Fit the canvas to its place; text and lines are sharp on any screen. */
  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.scroller.clientWidth;
    this.height = this.scroller.clientHeight;
    this.setSize(ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    const widest = Math.max(40, ...this.lanes.map((lane) => this.widthOf(lane.label)));
    this.left = Math.round(Math.min(widest + 26, this.width * 0.3, 220));
  }

  setSize(ratio) {
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** Return a picture of *run* for paper, on a canvas of its own. The chart has to be resized afterwards. */
  pictureOf(run, width) {
    const rows = this.rows.filter((row) => row.run === run);
    if (!rows.length) return null;
    const bottom = rows.at(-1).top + rows.at(-1).height;
    this.width = width;
    this.height = Math.min(AXIS + bottom - rows[0].top, MOST_PAPER);
    this.scroll = rows[0].top - AXIS;
    this.setSize(2);
    this.draw();
    const picture = element("canvas", { width: this.canvas.width, height: this.canvas.height });
    picture.getContext("2d").drawImage(this.canvas, 0, 0);
    return picture;
  }

  // --- time and place

  xOf(time) {
    return this.left + ((time - this.begin) / (this.end - this.begin)) * (this.width - this.left);
  }

  timeAt(x) {
    return this.begin + ((x - this.left) / (this.width - this.left)) * (this.end - this.begin);
  }

  /** Show the time from *begin* to *end*, within bounds. */
  show(begin, end) {
    const span = Math.min(Math.max(end - begin, LEAST_SPAN_NS), (this.whole[1] - this.whole[0]) * (1 + 2 * OVERHANG));
    const middle = (begin + end) / 2;
    const margin = span * 0.5;
    const first = Math.min(Math.max(middle - span / 2, this.whole[0] - margin), this.whole[1] + margin - span);
    this.begin = first;
    this.end = first + span;
    this.redraw();
  }

  zoom(factor, at = (this.begin + this.end) / 2) {
    this.show(at - (at - this.begin) * factor, at + (this.end - at) * factor);
  }

  pan(share) {
    const step = (this.end - this.begin) * share;
    this.show(this.begin + step, this.end + step);
  }

  /** Show *begin* to *end* with some room on both sides, and scroll to *lane*. */
  reveal(begin, end, lane = null) {
    const room = Math.max((end - begin) * 0.3, 20);
    this.show(begin - room, end + room);
    this.scrollTo(lane);
  }

  scrollTo(lane) {
    if (!lane) return;
    this.open(lane);
    if (lane.top < this.scroll + AXIS || lane.top + lane.height > this.scroll + this.height) {
      this.scroller.scrollTop = lane.top - this.height / 2;
    }
  }

  /** Open the run and the group of *lane*. */
  open(lane) {
    if (lane.top !== null) return;
    this.collapsed.delete(lane.run);
    this.collapsed.delete(this.keyOf(lane.run, lane.group));
    this.arrange();
  }

  /** Return the box of a row on the canvas, or null if its lane is closed. */
  boxOf(run, table, row) {
    const lane = run.places[table]?.lane[row];
    if (!lane || lane.top === null) return null;
    const left = this.xOf(run[table].start[row]);
    const right = Math.max(this.xOf(run[table].end[row]), left + 2);
    return { left, right, top: lane.top + run.places[table].level[row] * lane.levelHeight, height: lane.levelHeight - 1 };
  }

  /** Return what is at a point of the canvas: a heading, something in a lane, or a gap; null if nothing is there. */
  hit(x, y) {
    const row = this.rowAt(y);
    if (!row || y < AXIS) return null;
    if (row.kind !== "lane") return row;
    if (x < this.left) return null;
    const { lane } = row;
    const level = Math.floor((y + this.scroll - lane.top) / lane.levelHeight);
    const near = (2 * (this.end - this.begin)) / (this.width - this.left);
    const at = this.timeAt(x);
    const item = (track, table, reach) => {
      const index = spanAt(track, at, reach);
      return index < 0 ? null : { kind: "item", run: lane.run, table, row: track.row[index], lane };
    };
    const found = (y + this.scroll < lane.top + PIN && pinAt(this, lane, x)) || item(lane.levels[level], lane.table, near) || pinAt(this, lane, x);
    if (found) return found;
    const gap = spanAt(lane.gaps, at, near);
    if (gap < 0) return null;
    return {
      kind: "gap", run: lane.run, lane, row: lane.gaps.row[gap], tone: lane.gaps.tones[gap],
      begin: lane.gaps.begin[gap], end: lane.gaps.end[gap],
    };
  }

  rowAt(y) {
    const at = y + this.scroll;
    return this.rows.find((row) => row.top <= at && at < row.top + row.height);
  }

  // --- drawing

  /** Draw in the next frame, once however often this is called. */
  redraw() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.draw();
    });
  }

  draw() {
    const { context, width, height } = this;
    if (!width || !height) return; // the page is hidden, and is drawn when it gets a size
    context.fillStyle = this.look("paper");
    context.fillRect(0, 0, width, height);
    const { scroll } = this;
    const visible = this.rows.filter((row) => row.top - scroll < height && row.top + row.height - scroll > AXIS);
    this.drawGrid();
    context.save();
    context.translate(0, -scroll);
    drawBand(this);
    for (const row of visible) if (row.kind === "lane") this.drawLane(row.lane);
    context.restore();
    if (this.span) this.inPlot(0, () => drawSpan(this));
    this.inPlot(-scroll, () => {
      if (this.showsCritical) outlineCritical(this);
      outlineFinding(this);
      outlineSelection(this);
    });
    context.save();
    context.translate(0, -scroll);
    for (const row of visible) this.drawRow(row);
    context.restore();
    this.drawAxis();
    this.onDraw?.();
  }

  /** Run *work* so that it draws right of the labels and below the axis only. */
  inPlot(offset, work) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(this.left, AXIS, this.width - this.left, this.height - AXIS);
    context.clip();
    context.translate(0, offset);
    work();
    context.restore();
  }

  drawGrid() {
    const { context } = this;
    context.fillStyle = this.look("grid");
    for (const { x } of this.ticks()) context.fillRect(Math.round(x), AXIS, 1, this.height - AXIS);
  }

  ticks() {
    const step = tickStep(((this.end - this.begin) * TICK) / (this.width - this.left));
    const ticks = [];
    for (let number = Math.ceil(this.begin / step); number * step <= this.end; number++) {
      ticks.push({ x: this.xOf(number * step), label: formatTick(number * step, step) });
    }
    return ticks;
  }

  drawAxis() {
    const { context } = this;
    context.fillStyle = this.look("paper");
    context.fillRect(0, 0, this.width, AXIS);
    context.fillStyle = this.look("line");
    context.fillRect(0, AXIS - 1, this.width, 1);
    context.font = this.font;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const { x, label } of this.ticks()) {
      if (x < this.left - 1) continue;
      context.fillStyle = this.look("line");
      context.fillRect(Math.round(x), AXIS - 8, 1, 8);
      context.fillStyle = this.look("muted");
      if (x + 5 + this.widthOf(label) < this.width) context.fillText(label, x + 5, AXIS / 2 - 1);
    }
    if (this.span) labelSpan(this);
  }

  /** Draw the label of a lane, or the heading of a run or a group. */
  drawRow(row) {
    const { context } = this;
    context.textBaseline = "middle";
    context.textAlign = "left";
    if (row.kind === "lane") {
      context.fillStyle = this.look("paper");
      context.fillRect(0, row.top, this.left, row.height);
      context.fillStyle = this.look("text");
      context.font = this.font;
      const middle = row.top + Math.min(row.height, 24) / 2;
      context.fillText(this.fitted(row.lane.label, this.left - 24), 18, middle + 0.5);
      context.fillStyle = this.look("line");
      context.fillRect(this.left - 1, row.top, 1, row.height);
      return;
    }
    this.drawHeading(row);
  }

  drawHeading(row) {
    const { context } = this;
    const isRun = row.kind === "run";
    context.fillStyle = this.look(isRun ? "panel" : "paper");
    context.fillRect(0, row.top, isRun ? this.width : this.left - 1, row.height);
    context.fillStyle = this.look("line");
    if (isRun) context.fillRect(0, row.top, this.width, 1);
    else context.fillRect(this.left - 1, row.top, 1, row.height);
    const middle = row.top + row.height / 2 + (isRun ? 0 : 2);
    drawTriangle(context, 9, middle, this.collapsed.has(row.key), this.look("muted"));
    context.fillStyle = this.look(isRun ? "text" : "muted");
    context.font = isRun ? this.bold : this.font;
    const label = isRun ? row.run.title : row.label;
    context.fillText(isRun ? label : this.fitted(label, this.left - 24), 18, middle + 0.5);
    if (!isRun) return;
    const after = 18 + context.measureText(label).width + 12;
    context.font = this.font;
    context.fillStyle = this.look("muted");
    context.fillText(comparison(this.runs[0], row.run), after, middle + 0.5);
  }

  drawLane(lane) {
    if (lane.top === null) return;
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(this.left, lane.top - LANE_GAP / 2, this.width - this.left, lane.height + LANE_GAP);
    context.clip();
    context.fillStyle = this.look("rule");
    context.fillRect(this.left, lane.top + lane.height + LANE_GAP / 2 - 1, this.width - this.left, 1);
    const strip = Math.min(6, lane.levelHeight);
    this.drawTrack(lane.gaps, lane.top + (lane.height - strip) / 2, strip, lane, false);
    lane.levels.forEach((track, level) => {
      this.drawTrack(track, lane.top + level * lane.levelHeight, lane.levelHeight - 1, lane, true);
    });
    drawPins(this, lane);
    context.restore();
  }

  /** Draw the spans of *track* that are visible; *isWork* tells work, which has names, from gaps. */
  drawTrack(track, top, height, lane, isWork) {
    const { begin, end } = track;
    this.strip.clear(this.width - this.left);
    let index = firstAbove(end, this.begin);
    if (index > 0 && end[index - 1] === this.begin) index -= 1;
    while (index < track.count && begin[index] < this.end) {
      const left = this.xOf(begin[index]);
      const right = this.xOf(end[index]);
      if (right - left >= NARROW) {
        this.drawBar(track, index, left, right, top, height, lane, isWork);
        index += 1;
      } else {
        index = this.addNarrow(track, index, left, right, lane, isWork);
      }
    }
    this.context.globalAlpha = 1;
    this.strip.draw(this.context, this.look, this.left, top, height, isWork ? 0.35 : 0.2);
  }

  /** Add the span at *index* to the strip, with all that end in the same column of pixels; return the next index. */
  addNarrow(track, index, left, right, lane, isWork) {
    const column = Math.floor(left);
    const tone = track.tones[index];
    if (right > column + 1) {
      const strength = this.strength(lane, track.row[index], isWork);
      for (let each = column; each < right; each++) {
        this.strip.add(each - this.left, Math.min(right, each + 1) - Math.max(left, each), tone, strength);
      }
      return index + 1;
    }
    const next = Math.max(index + 1, firstAbove(track.end, this.timeAt(column + 1), index));
    const pixel = (this.end - this.begin) / (this.width - this.left);
    let strength = this.strength(lane, track.row[index], isWork);
    for (let other = index + 1; this.isMatch && other < next && strength < 1; other++) {
      strength = Math.max(strength, this.strength(lane, track.row[other], isWork));
    }
    this.strip.add(column - this.left, (track.filled[next] - track.filled[index]) / pixel, tone, strength);
    return next;
  }

  drawBar(track, index, left, right, top, height, lane, isWork) {
    const { context } = this;
    const tone = track.tones[index];
    const from = Math.max(left, this.left - 8);
    const to = Math.min(right, this.width + 8);
    const width = to - from > 4 && isWork ? to - from - 1 : to - from; // a line of paper between neighbours
    context.globalAlpha = this.strength(lane, track.row[index], isWork);
    context.fillStyle = tone === "held" ? this.hatch : this.look(tone);
    if (width > 6 && isWork) {
      context.beginPath();
      context.roundRect(from, top, width, height, 2);
      context.fill();
    } else {
      context.fillRect(from, top, width, height);
    }
    if (isWork && width > 22 && height > 10) this.drawName(lane, track.row[index], tone, from, width, top + height / 2);
  }

  drawName(lane, row, tone, from, width, middle) {
    const { context } = this;
    const begin = Math.max(from, this.left) + 5;
    const text = this.fitted(nameOf(lane.run, lane.table, row), from + width - begin - 3);
    if (!text) return;
    context.font = this.font;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = this.look(["call", "held", "program"].includes(tone) || tone.startsWith("cause") ? "text" : "ink");
    context.fillText(text, begin, middle + 0.5);
  }

  strength(lane, row, isWork) {
    if (!this.isMatch) return 1;
    return isWork && this.isMatch(lane.run, lane.table, row) ? 1 : 0.15;
  }

  // --- text

  widthOf(text) {
    if (!this.widths.has(text)) {
      this.context.font = this.font;
      this.widths.set(text, this.context.measureText(text).width);
    }
    return this.widths.get(text);
  }

  /** Return *text*, cut to *width* pixels; nothing if not even three letters fit. */
  fitted(text, width) {
    const whole = this.widthOf(text);
    if (whole <= width) return text;
    const letters = Math.floor((text.length * (width - 8)) / whole);
    return letters >= 3 ? `${text.slice(0, letters)}…` : "";
  }
}

function wholeOf(runs, lanes) {
  let [begin, end] = [0, Math.max(1, ...runs.map((run) => run.until))];
  for (const track of lanes.flatMap((lane) => lane.levels)) {
    if (!track.count) continue;
    begin = Math.min(begin, track.begin[0]);
    end = Math.max(end, track.end[track.count - 1]);
  }
  return [begin, end];
}

/** Return the groups of all cores of *run* but the first: they are closed until somebody opens them. */
function otherCores(run, lanes) {
  const cores = lanes.filter((lane) => lane.run === run && lane.table === "instructions").map((lane) => lane.group);
  return [...new Set(cores)].slice(1);
}

/** Return whether *lane* needs no heading of its group, because it is alone in it. */
function isAlone(lane) {
  return [PATH, MARKS].includes(lane.group) || (lane.group === HOST && lane.run.hosts.length === 1);
}

function levelHeight(levels) {
  return levels <= 1 ? 20 : levels <= 3 ? 15 : levels <= 8 ? 9 : 5;
}

/** Return the index of the span of *track* at time *at*, or of one that is at most *near* away; -1 if there is none. */
function spanAt(track, at, near) {
  if (!track) return -1;
  const index = Math.max(0, firstAbove(track.end, at));
  let best = -1;
  let distance = near;
  for (const each of [index - 1, index]) {
    if (each < 0 || each >= track.count) continue;
    const away = Math.max(track.begin[each] - at, at - track.end[each], 0);
    if (away <= distance) [best, distance] = [each, away];
  }
  return best;
}

/** Return the least of 1, 2 and 5 times the powers of ten that is at least *least*. */
function tickStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}
