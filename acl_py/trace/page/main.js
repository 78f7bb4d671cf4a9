// The page: its parts put together, and what keys and pointers do.

const DOCUMENT = JSON.parse(byId("data").textContent);
const [WHYS, CAUSES] = [Object.keys(DOCUMENT.causes), Object.values(DOCUMENT.causes)];
const PIPES = DOCUMENT.pipes;
const DARK = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = DARK.matches ? "dark" : "light";
const runs = DOCUMENT.runs.map(decodeRun);
const chart = new Chart(byId("lanes"), byId("scroller"), byId("room"), runs);
const PAPER_WIDTH = 1000; // pixels
const search = { rows: [], at: -1 };

// --- selection, findings, search

function select(item, reveals = false) {
  chart.selected = item;
  showSelection(item, select);
  if (item && reveals) {
    const table = item.run[item.table];
    const lane = item.run.places[item.table].lane[item.row];
    const [begin, end] = [table.start[item.row], table.end[item.row]];
    if (end < chart.begin || begin > chart.end) chart.reveal(begin, end, lane);
    else chart.scrollTo(lane);
  }
  chart.redraw();
}

function chooseFinding(finding) {
  chart.finding = finding;
  showFindings(runs, chooseFinding, chart.span);
  byId("findings").querySelector("[aria-current]").focus({ preventScroll: true });
  const [table, row] = finding.ops.length ? ["ops", finding.ops[0]] : ["calls", finding.calls[0]];
  if (row !== undefined) select({ kind: "item", run: finding.run, table, row });
  chart.reveal(finding.begin, finding.end, finding.run.places[table].lane[row]);
}

/** Choose a span of time, as [begin, end], or none: the table, the findings and the use of engines are about it. */
function chooseSpan(span) {
  tell("");
  chart.span = span;
  if (span) [byId("span-from").value, byId("span-to").value] = span.map((ns) => formatNumber(ns / 1000));
  for (const input of [byId("span-from"), byId("span-to")]) input.setAttribute("aria-invalid", "false");
  showTable(chart, select);
  showFindings(runs, chooseFinding, span);
  showUse(chart, span);
  chart.redraw();
}

/** Choose what is in view: the runs from their begin to their end if all of that is, else no more than there is. */
function chooseView() {
  const [first, last] = chart.home();
  const isHome = chart.begin <= 0 && chart.begin >= first && chart.end >= last / (1 + OVERHANG);
  const [begin, end] = isHome ? [0, last / (1 + OVERHANG)] : chart.whole;
  const span = [Math.max(chart.begin, begin), Math.min(chart.end, end)];
  if (span[0] < span[1]) chooseSpan(span);
  else tell("Nothing that was recorded is in view, so there is nothing to add up.");
}

/** Choose the span that the two boxes name, or say what is wrong with them. */
function readSpan() {
  const inputs = [byId("span-from"), byId("span-to")];
  const wrong = inputs.find((input) => !Number.isFinite(readTime(input.value)));
  for (const input of inputs) input.setAttribute("aria-invalid", String(input === wrong));
  if (wrong) return say(`"${wrong.value}" is not a time: write microseconds, as 12.5.`, true);
  const [from, to] = inputs.map((input) => readTime(input.value));
  if (from >= to) return say("The span is empty: its end has to be behind its begin.", true);
  chooseSpan([from, to]);
}

/** Return the nanoseconds of *text*, which is a number of microseconds, as 1,234.5; NaN if it is none. */
function readTime(text) {
  const isNumber = /^[-−]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$/.test(text.trim());
  return isNumber ? Number(text.trim().replaceAll(",", "").replace("−", "-")) * 1000 : NaN;
}

/** Say *text* at the top of the page; "" takes it away. */
function tell(text) {
  byId("notice").hidden = !text;
  byId("notice").textContent = text;
}

function fit() {
  chart.show(...chart.home());
}

function zoomToSelection() {
  if (!chart.selected) return chart.span ? chart.reveal(...chart.span) : fit();
  const { run, table, row } = chart.selected;
  chart.reveal(run[table].start[row], run[table].end[row], run.places[table].lane[row]);
}

function zoomToBundle({ run, table, rows, lane }) {
  chart.reveal(run[table].start[rows[0]], run[table].start[rows.at(-1)], lane);
}

/** Select the neighbour of the selection in its lane, *step* further. */
function selectNeighbour(step) {
  const lane = chart.selected?.run.places[chart.selected.table].lane[chart.selected.row]
    ?? chart.lanes.find((each) => each.table === "ops") ?? chart.lanes[0];
  if (!lane) return;
  const { start } = lane.run[lane.table];
  const tracks = lane.pointTable === lane.table ? [...lane.levels, lane.points] : lane.levels;
  const rows = [...new Set(tracks.flatMap((track) => [...track.row]))].sort((one, other) => start[one] - start[other]);
  const at = chart.selected ? rows.indexOf(chart.selected.row) + step : 0;
  if (rows[at] !== undefined) select({ kind: "item", run: lane.run, table: lane.table, row: rows[at] }, true);
}

/** Point out all rows whose name, stream, task or line has the text of the search box. */
function find() {
  const wanted = byId("query").value.trim().toLowerCase();
  search.at = -1;
  search.rows = wanted ? runs.flatMap((run) => matchesOf(run, wanted)) : [];
  const found = new Map();
  for (const { run, table, row } of search.rows) {
    const key = `${runs.indexOf(run)} ${table}`;
    if (!found.has(key)) found.set(key, new Set());
    found.get(key).add(row);
  }
  chart.isMatch = wanted ? (run, table, row) => found.get(`${runs.indexOf(run)} ${table}`)?.has(row) ?? false : null;
  tellMatches();
  chart.redraw();
}

function matchesOf(run, wanted) {
  const hits = run.texts.map((text) => text.toLowerCase().includes(wanted));
  return TABLES.flatMap((name) => {
    const table = run[name];
    const columns = ["name", "site", "stream", "caller", "core", "cause"].filter((column) => table[column]);
    const rows = [];
    for (let row = 0; row < table.rows; row++) {
      if (columns.some((column) => hits[table[column][row]])) rows.push({ kind: "item", run, table: name, row });
    }
    return rows;
  }).sort((one, other) => run[one.table].start[one.row] - run[other.table].start[other.row]);
}

function tellMatches() {
  const wanted = byId("query").value.trim();
  const count = search.rows.length;
  const text = search.at < 0 ? `${formatNumber(count)} found` : `${formatNumber(search.at + 1)} of ${formatNumber(count)}`;
  byId("matches").textContent = wanted ? text : "";
}

function nextMatch(step) {
  if (!search.rows.length) return;
  search.at = (search.at + step + search.rows.length) % search.rows.length;
  tellMatches();
  select(search.rows[search.at], true);
}

// --- looks

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  refresh();
}

function toggleTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

function toggleCritical() {
  chart.showsCritical = !chart.showsCritical;
  byId("critical").setAttribute("aria-pressed", String(chart.showsCritical));
  chart.redraw();
}

function refresh() {
  chart.scroll = chart.scroller.scrollTop;
  chart.resize();
  chart.readLooks();
  chart.draw();
}

// --- pointers

const pointers = new Map(); // those that are down, by id
let drag = null;

function pointOf(event) {
  const box = chart.scroller.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function onDown(event) {
  if (event.button > 0) return;
  const [x] = pointOf(event);
  pointers.set(event.pointerId, event.clientX);
  if (pointers.size === 2) drag = { pinch: spreadOf(), window: [chart.begin, chart.end] };
  else drag = { x: event.clientX, window: [chart.begin, chart.end], moved: false, range: event.shiftKey, from: chart.timeAt(x) };
}

function spreadOf() {
  const [one, other] = [...pointers.values()];
  return Math.max(20, Math.abs(one - other));
}

function onMove(event) {
  if (!drag || !pointers.has(event.pointerId)) return hover(event);
  pointers.set(event.pointerId, event.clientX);
  const [begin, end] = drag.window;
  if (drag.pinch) {
    const span = ((end - begin) * drag.pinch) / spreadOf();
    chart.show((begin + end - span) / 2, (begin + end + span) / 2);
    return;
  }
  const moved = event.clientX - drag.x;
  if (!drag.moved && Math.abs(moved) < 4) return;
  if (!drag.moved) chart.scroller.setPointerCapture(event.pointerId);
  drag.moved = true;
  showTip(null);
  if (drag.range) {
    const [begin, end] = chart.whole;
    const times = [drag.from, chart.timeAt(pointOf(event)[0])];
    chart.span = times.map((time) => Math.min(Math.max(time, begin), end)).sort((one, other) => one - other);
    chart.redraw();
  } else {
    const shift = (moved / (chart.width - chart.left)) * (end - begin);
    chart.show(begin - shift, end - shift);
  }
}

function onUp(event) {
  pointers.delete(event.pointerId);
  const done = drag;
  drag = null;
  if (!done || done.pinch) return;
  if (done.range && done.moved) {
    chooseSpan(chart.span[0] < chart.span[1] ? chart.span : null);
  } else if (!done.moved && event.type === "pointerup") {
    click(event);
  }
}

function click(event) {
  const hit = chart.hit(...pointOf(event));
  if (hit?.kind === "run" || hit?.kind === "group") {
    if (!chart.collapsed.delete(hit.key)) chart.collapsed.add(hit.key);
    chart.arrange();
    chart.redraw();
  } else if (hit?.kind === "gap") {
    select({ kind: "item", run: hit.run, table: "ops", row: hit.row });
  } else if (hit?.kind === "bundle") {
    chart.selected = null;
    showBundle(hit, select, zoomToBundle);
    chart.redraw();
  } else {
    select(hit?.kind === "item" ? hit : null);
  }
}

function hover(event) {
  const hit = event.target === chart.canvas ? chart.hit(...pointOf(event)) : null;
  const changed = hit?.row !== chart.hovered?.row || hit?.table !== chart.hovered?.table || hit?.run !== chart.hovered?.run;
  chart.hovered = hit;
  chart.scroller.style.cursor = hit ? "pointer" : "";
  showTip(event.pointerType === "touch" ? null : hit, event.clientX, event.clientY);
  if (changed) chart.redraw();
}

function onWheel(event) {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    chart.zoom(Math.exp(event.deltaY * 0.002), chart.timeAt(pointOf(event)[0]));
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    chart.pan(((event.deltaX || event.deltaY) / chart.width) * 0.9);
  }
}

// --- keys

const KEYS = {
  ArrowLeft: () => chart.pan(-0.15),
  ArrowRight: () => chart.pan(0.15),
  a: () => chart.pan(-0.15),
  d: () => chart.pan(0.15),
  w: () => chart.zoom(0.7),
  s: () => chart.zoom(1 / 0.7),
  "+": () => chart.zoom(0.7),
  "=": () => chart.zoom(0.7),
  "-": () => chart.zoom(1 / 0.7),
  0: fit,
  f: zoomToSelection,
  r: chooseView,
  ",": () => selectNeighbour(-1),
  ".": () => selectNeighbour(1),
  "/": () => byId("query").focus(),
  n: () => nextMatch(1),
  N: () => nextMatch(-1),
  c: () => !byId("critical").hidden && toggleCritical(),
  t: toggleTheme,
  "?": () => byId("help").showModal(),
  Escape: clear,
};

function clear() {
  chart.finding = null;
  select(null);
  chooseSpan(null);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.target === byId("query")) {
    if (event.key === "Escape") {
      byId("query").value = "";
      byId("query").blur();
      find();
    }
    return;
  }
  if (event.target.tagName === "INPUT" && event.key !== "Escape") return;
  if (event.target === byId("span-rows") && event.key.startsWith("Arrow")) return; // they scroll the table
  const action = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}

// --- the page as a whole

function showHeading() {
  const [first] = runs;
  byId("title").textContent = DOCUMENT.title;
  const counts = `${counted(first.ops.rows, "operation")}, ${counted(first.calls.rows, "call")}`;
  const time = runs.length > 1 ? `${runs.length} runs` : `${formatTime(first.until)}, ${counts}`;
  byId("subtitle").textContent = [first.device, `rules ${first.rules}`, time].filter(Boolean).join(" · ");
  const failed = runs.find((run) => run.error);
  byId("error").hidden = !failed;
  if (failed) byId("error").querySelector("pre").textContent = failed.error;
  byId("critical").hidden = !runs.some((run) => run.path.rows);
  byId("empty").hidden = runs.some((run) => run.ops.rows || run.calls.rows);
}

function listen() {
  const { scroller } = chart;
  scroller.addEventListener("pointerdown", onDown);
  scroller.addEventListener("pointermove", onMove);
  scroller.addEventListener("pointerup", onUp);
  scroller.addEventListener("pointercancel", onUp);
  scroller.addEventListener("pointerleave", () => showTip(null));
  scroller.addEventListener("dblclick", zoomToSelection);
  scroller.addEventListener("wheel", onWheel, { passive: false });
  scroller.addEventListener("scroll", () => {
    chart.scroll = scroller.scrollTop;
    chart.redraw();
  });
  overview.addEventListener("pointerdown", onOverview);
  overview.addEventListener("pointermove", onOverview);
  document.addEventListener("keydown", onKey);
  byId("query").addEventListener("input", find);
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    nextMatch(1);
  });
  byId("zoom-in").onclick = () => chart.zoom(0.5);
  byId("zoom-out").onclick = () => chart.zoom(2);
  byId("fit").onclick = fit;
  byId("table").onclick = chooseView;
  byId("span-form").addEventListener("change", readSpan);
  byId("span-zoom").onclick = () => chart.reveal(...chart.span);
  byId("span-copy").onclick = () => copyCsv(chart);
  byId("span-save").onclick = () => saveCsv(chart);
  byId("span-close").onclick = closeTable;
  byId("theme").onclick = toggleTheme;
  byId("critical").onclick = toggleCritical;
  byId("keys").onclick = () => byId("help").showModal();
  DARK.addEventListener("change", () => setTheme(DARK.matches ? "dark" : "light"));
  window.addEventListener("hashchange", readLink);
  window.addEventListener("beforeprint", beginPrint);
  window.addEventListener("afterprint", () => byId("paper").replaceChildren());
  new ResizeObserver(refresh).observe(scroller);
}

function closeTable() {
  chooseSpan(null);
  byId("table").focus();
}

/** Put a picture of each run on paper, in the colours for paper. */
function beginPrint() {
  const { theme } = document.documentElement.dataset;
  document.documentElement.dataset.theme = "light";
  chart.readLooks();
  chart.resize();
  byId("paper").replaceChildren(...runs.map((run) => chart.pictureOf(run, PAPER_WIDTH)).filter(Boolean));
  document.documentElement.dataset.theme = theme;
  refresh();
}

showHeading();
showRuns(runs, (run) => chart.scrollTo(chart.lanes.find((lane) => lane.run === run)));
showMistakes(DOCUMENT.mistakes);
showFindings(runs, chooseFinding, null);
showNotes(runs);
showUse(chart, null);
showLegend(chart.lanes);
showSelection(null, select);
chart.onDraw = () => {
  drawOverview();
  writeLink();
};
listen();
refresh();
readLink();
