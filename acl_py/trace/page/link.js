// The link: the address of the page restores what is in view, the chosen span and its table, and the selection.

const PAUSE_MS = 300; // between the last change and the new address
const isFramed = location.protocol === "about:"; // in a notebook, the address belongs to the notebook
const READERS = { view: readView, table: readTable, span: readSpanOf, selected: readSelected };

/** Return the address of what is shown: only what differs from the page as it opens. Times are microseconds. */
function linkOf() {
  const parts = [];
  const written = (times) => times.map((ns) => Number((ns / 1000).toFixed(6))).join(",");
  const view = written([chart.begin, chart.end]);
  if (view !== written(chart.home())) parts.push(`view=${view}`);
  if (chart.span) {
    parts.push(`table=${[asked.table, asked.sort, asked.descends ? "down" : "up", ...asked.by].join(",")}`);
    parts.push(`span=${written(chart.span)}`);
  }
  if (chart.selected) {
    const { run, table, row } = chart.selected;
    parts.push(`selected=${runs.indexOf(run)},${table},${row}`);
  }
  return parts.join("&");
}

/** Put the link into the address, when nothing has changed for a moment. */
function writeLink() {
  if (isFramed) return;
  clearTimeout(writeLink.timer);
  writeLink.timer = setTimeout(() => {
    const link = linkOf();
    if (link !== location.hash.slice(1)) history.replaceState(null, "", link ? `#${link}` : location.pathname + location.search);
  }, PAUSE_MS);
}

/** Show what the address names; say which of its parts this page does not have. */
function readLink() {
  const parts = location.hash.slice(1).split("&").filter(Boolean).map(decoded);
  if (!parts.length) return;
  const wrong = parts.filter((part) => {
    const [name, value = ""] = part.split("=");
    return !Object.hasOwn(READERS, name) || !READERS[name](value.split(","));
  });
  if (wrong.length) tell(`The link has "${wrong.join('", "')}", which this page does not have. It is left out.`);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text; // a single "%": no reader knows it, and the message shows it
    throw error;
  }
}

/** Return the two times of a link in nanoseconds, or null if they are none. */
function timesOf(values) {
  const times = values.map(readTime);
  return times.length === 2 && times.every(Number.isFinite) && times[0] < times[1] ? times : null;
}

function readView(values) {
  const times = timesOf(values);
  if (times) chart.show(...times);
  return times !== null;
}

function readSpanOf(values) {
  const times = timesOf(values);
  if (times) chooseSpan(times);
  return times !== null;
}

function readTable([table, sort, direction, ...by]) {
  if (!Object.hasOwn(ADDED, table) || !by.every((name) => Object.hasOwn(ADDED[table].by, name))) return false;
  if (![...FIGURES, ...by, "run"].includes(sort) || !["up", "down"].includes(direction)) return false;
  Object.assign(asked, { table, sort, descends: direction === "down", by });
  showTable(chart, select);
  return true;
}

function readSelected([place, table, row]) {
  const run = runs[Number(place)];
  if (!run || !Object.hasOwn(DESCRIBE, table) || !(Number(row) in run[table].start)) return false;
  select({ kind: "item", run, table, row: Number(row) });
  return true;
}
