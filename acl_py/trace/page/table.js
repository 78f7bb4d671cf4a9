// The table: what ran in a span of time, added up by line, name, stream and engine, for the screen and for spreadsheets.
// What is only partly in the span counts with the part that is in it.

const ADDED = {
  ops: { title: "operations", by: { line: "site", name: "name", stream: "stream", engine: "engine" } },
  calls: { title: "host calls", by: { line: "site", name: "name", task: "caller" } },
  instructions: { title: "instructions", by: { line: "site", name: "name", core: "core", pipe: "pipe" } },
};
const FIGURES = ["count", "sum", "mean", "longest", "share"];
const MOST_ROWS = 200; // on the screen
const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet computes what begins with one of these

// What the table shows: rows of *table*, one for each value of *by*, in the order of the column *sort*.
const asked = { table: "ops", by: ["line", "name"], sort: "sum", descends: true };

/** Return the rows of the asked table that are in *span*, added up: texts of their columns, and figures in nanoseconds. */
function addedUp(runs, span) {
  const groups = new Map();
  for (const run of runs) {
    const columns = columnsOf(run);
    const { rows, start, end } = run[asked.table];
    for (let row = 0; row < rows; row++) {
      if (!isIn(span, start[row], end[row])) continue;
      const texts = columns.map((textOf) => textOf(row));
      const key = texts.join("\0");
      if (!groups.has(key)) groups.set(key, { texts, run, row, count: 0, sum: 0, longest: -1 });
      addTo(groups.get(key), row, Math.min(end[row], span[1]) - Math.max(start[row], span[0]));
    }
  }
  for (const group of groups.values()) {
    group.mean = group.sum / group.count;
    group.share = group.sum / (span[1] - span[0]);
  }
  return sorted([...groups.values()]);
}

/** Return whether what lasts from *begin* to *end* is in *span*; what takes no time is if it happens before its end. */
function isIn(span, begin, end) {
  return begin < span[1] && (end > span[0] || (begin === end && begin >= span[0]));
}

function addTo(group, row, lasts) {
  group.count += 1;
  group.sum += lasts;
  if (lasts > group.longest) [group.longest, group.row] = [lasts, row];
}

/** Return the names of the text columns: the run if there are several, and what is asked for. */
function namesOf(runs) {
  return [...(runs.length > 1 ? ["run"] : []), ...asked.by];
}

/** Return a function for each text column, from a row of *run* to its text. */
function columnsOf(run) {
  const table = run[asked.table];
  return namesOf(runs).map((name) => {
    if (name === "run") return () => run.title;
    const column = table[ADDED[asked.table].by[name]];
    const isOfDevice = devicesOf(run).length > 1 && ["stream", "engine"].includes(name);
    return isOfDevice ? (row) => `${table.device[row]}: ${run.text(column[row])}` : (row) => run.text(column[row]);
  });
}

function sorted(groups) {
  const place = namesOf(runs).indexOf(asked.sort);
  const compare = place < 0 ? (one, other) => one[asked.sort] - other[asked.sort]
    : (one, other) => one.texts[place].localeCompare(other.texts[place], "en", { numeric: true });
  return groups.sort((one, other) => (asked.descends ? -1 : 1) * compare(one, other));
}

// --- on the screen

/** Show what ran in the span of *chart*, or hide the table if there is none. */
function showTable(chart, select) {
  const { span } = chart;
  byId("span").hidden = !span;
  if (!span) return;
  showAsked(chart, select);
  const groups = addedUp(chart.runs, span);
  const { title } = ADDED[asked.table];
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const more = groups.length > MOST_ROWS ? `; the first ${MOST_ROWS} of ${formatNumber(groups.length)} rows, and the CSV has all` : "";
  say(count ? `${formatNumber(count)} ${title} in ${formatTime(span[1] - span[0])}${more}`
    : `No ${title} between ${formatTime(span[0])} and ${formatTime(span[1])}.`);
  byId("span-rows").hidden = !count;
  byId("span-rows").querySelector("table").replaceChildren(
    element("thead", {}, element("tr", {}, ...[...namesOf(chart.runs), ...FIGURES].map((name) => headOf(name, chart, select)))),
    element("tbody", {}, ...groups.slice(0, MOST_ROWS).map((group) => rowOf(group, select))),
  );
}

/** Show the buttons for what is added up, and for the columns that make a row. */
function showAsked(chart, select) {
  const tables = Object.keys(ADDED).filter((name) => chart.runs.some((run) => run[name].rows));
  const again = (change) => () => {
    change();
    showTable(chart, select);
    chart.redraw();
  };
  showToggles(byId("span-of"), (tables.length > 1 ? tables : []).map((name) => [ADDED[name].title, asked.table === name, again(() => {
    asked.by = Object.keys(ADDED[name].by).filter((each) => asked.by.includes(each));
    asked.table = name;
    if (![...namesOf(chart.runs), ...FIGURES].includes(asked.sort)) asked.sort = "sum";
  })]));
  showToggles(byId("span-by"), Object.keys(ADDED[asked.table].by).map((name) => [name, asked.by.includes(name), again(() => {
    const chosen = asked.by.includes(name) ? asked.by.filter((each) => each !== name) : [...asked.by, name];
    asked.by = Object.keys(ADDED[asked.table].by).filter((each) => chosen.includes(each));
    if (asked.sort === name) Object.assign(asked, { sort: "sum", descends: true });
  })]));
}

/** Show a button for each [text, isPressed, onclick]. Those that are there already stay, and so does the focus. */
function showToggles(place, toggles) {
  if ([...place.children].map((button) => button.textContent).join() !== toggles.map(([text]) => text).join()) {
    place.replaceChildren(...toggles.map(([text]) => element("button", { type: "button" }, text)));
  }
  toggles.forEach(([, isPressed, onclick], index) => {
    place.children[index].onclick = onclick;
    place.children[index].setAttribute("aria-pressed", String(isPressed));
  });
}

function headOf(name, chart, select) {
  const isText = !FIGURES.includes(name);
  const head = element("th", { scope: "col", className: isText ? "text" : "" });
  if (asked.sort === name) head.setAttribute("aria-sort", asked.descends ? "descending" : "ascending");
  const arrow = asked.sort === name ? (asked.descends ? " ↓" : " ↑") : "";
  head.append(element("button", { type: "button", onclick: () => {
    asked.descends = asked.sort === name ? !asked.descends : !isText;
    asked.sort = name;
    showTable(chart, select);
    const heads = [...byId("span-rows").querySelectorAll("th button")];
    heads[[...namesOf(chart.runs), ...FIGURES].indexOf(name)].focus();
    chart.redraw();
  } }, name + arrow));
  return head;
}

/** Return a row of the table; its first cell leads to the longest of what it adds up. */
function rowOf(group, select) {
  const { run, row } = group;
  const texts = group.texts.length ? group.texts : ["all"];
  const item = { kind: "item", run, table: asked.table, row };
  const source = asked.by.includes("line") ? run.source.get(texts[namesOf(runs).indexOf("line")]) : undefined;
  const [first, ...others] = texts.map((text) => element("td", { className: "text", title: text }, text));
  first.replaceChildren(element("button", { type: "button", className: "link", title: `${texts[0]}: go to the longest`, onclick: () => select(item, true) }, texts[0]));
  if (source) [first, ...others][namesOf(runs).indexOf("line")].append(element("code", { className: "source", title: source }, source));
  return element("tr", {}, first, ...others, ...figuresOf(group).map((figure) => element("td", {}, figure)));
}

function figuresOf({ count, sum, mean, longest, share }) {
  return [formatNumber(count), formatTime(sum), formatTime(mean), formatTime(longest), `${formatNumber(100 * share, 1)} %`];
}

function say(text, isWrong = false) {
  byId("span-says").textContent = text;
  byId("span-says").classList.toggle("wrong", isWrong);
}

// --- for spreadsheets

/** Return the table as CSV; times are nanoseconds. */
function csvOf(runs, span) {
  const heads = [...namesOf(runs), "count", "sum_ns", "mean_ns", "longest_ns", "share"];
  const rows = addedUp(runs, span).map(({ texts, count, sum, mean, longest, share }) =>
    [...texts, count, ...[sum, mean, longest].map((ns) => Number(ns.toFixed(3))), Number(share.toFixed(6))]);
  return [heads, ...rows].map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

function csvCell(value) {
  const text = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

async function copyCsv(chart) {
  try {
    await navigator.clipboard.writeText(csvOf(chart.runs, chart.span));
    say("The table is in the clipboard.");
  } catch (error) {
    say(`The browser does not let the page copy (${error.message}). Save the table instead.`, true);
  }
}

function saveCsv(chart) {
  const place = URL.createObjectURL(new Blob([csvOf(chart.runs, chart.span)], { type: "text/csv" }));
  element("a", { href: place, download: "table.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(place), 60_000); // the browser has read it by then
}
