// The overview: all of the time in small, with a row for each run and a frame around what is in view.

const RUN_HEIGHT = 12; // pixels of a row
const SINGLE_HEIGHT = 24; // of the row of a run that is alone
const MOST_OVERVIEW = 96;

const overview = byId("overview");

function drawOverview() {
  const context = overview.getContext("2d");
  overview.style.height = `${overviewHeight()}px`;
  overview.style.marginLeft = `${chart.left}px`; // the same time is at the same place as in the chart
  overview.style.width = `calc(100% - ${chart.left}px)`;
  const [ratio, width, height] = [window.devicePixelRatio || 1, overview.clientWidth, overview.clientHeight];
  if (!width || !height) return; // the page is hidden
  if (overview.width !== Math.round(width * ratio) || overview.height !== Math.round(height * ratio)) {
    overview.width = Math.round(width * ratio);
    overview.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  drawRuns(context, width, height);
  const [left, right] = [chart.begin, chart.end].map((time) => overviewX(time, width));
  context.fillStyle = chart.look("veil");
  context.fillRect(0, 0, left, height);
  context.fillRect(right, 0, width - right, height);
  context.fillStyle = context.strokeStyle = chart.look("accent");
  if (chart.span) {
    const [from, to] = chart.span.map((time) => overviewX(time, width));
    context.globalAlpha = 0.25;
    context.fillRect(from, 0, Math.max(to - from, 1), height);
    context.globalAlpha = 1;
  }
  context.strokeRect(left + 0.5, 0.5, Math.max(right - left - 1, 2), height - 1);
}

function overviewHeight() {
  return Math.min(chart.runs.length > 1 ? chart.runs.length * RUN_HEIGHT + 6 : SINGLE_HEIGHT + 6, MOST_OVERVIEW);
}

function overviewX(time, width) {
  const [begin, end] = chart.home();
  return ((time - begin) / (end - begin)) * width;
}

/** Draw the rows of the runs; they are made once for each width and theme. */
function drawRuns(context, width, height) {
  const key = `${width} ${chart.look("paper")}`;
  if (drawRuns.key !== key) {
    drawRuns.key = key;
    drawRuns.picture = runsPicture(width, height);
  }
  context.drawImage(drawRuns.picture, 0, 0, width, height);
}

function runsPicture(width, height) {
  const picture = element("canvas", { width, height });
  const pen = picture.getContext("2d");
  const each = (height - 6) / chart.runs.length;
  chart.runs.forEach((run, place) => {
    const busy = new Strip();
    busy.clear(width);
    for (const lane of chart.lanes) if (lane.run === run && lane.group === ENGINES) addLane(busy, lane, width);
    busy.draw(pen, chart.look, 0, 3 + place * each, Math.max(each - 2, 1), 0.25);
  });
  return picture;
}

/** Add to each column of *strip* how much of it *lane* worked. */
function addLane(strip, lane, width) {
  const [begin, end] = chart.home();
  const pixel = (end - begin) / width;
  for (const track of lane.levels) {
    for (let x = 0; x < width; x++) {
      const share = track.filledIn(begin + x * pixel, begin + (x + 1) * pixel) / pixel;
      if (share > 0) strip.add(x, share, track.tones[firstAbove(track.end, begin + x * pixel)], 1);
    }
  }
}

/** Move what is in view to the place of the pointer. */
function onOverview(event) {
  if (!event.buttons) return;
  const box = overview.getBoundingClientRect();
  const [begin, end] = chart.home();
  const at = begin + ((event.clientX - box.left) / box.width) * (end - begin);
  const half = (chart.end - chart.begin) / 2;
  chart.show(at - half, at + half);
}
