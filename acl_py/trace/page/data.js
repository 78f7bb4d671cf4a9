"use strict";
// The data of the page: columns of numbers, decoded from what data.py wrote.

const TABLES = ["path", "marks", "calls", "sleeps", "launches", "steps", "ops", "instructions"];

/** Return the numbers of a column: differences, zigzag and base 128, as base64. */
function decodeColumn(text, rows) {
  const bytes = atob(text);
  const column = new Float64Array(rows);
  let value = 0;
  let place = 0;
  for (let row = 0; row < rows; row++) {
    let step = 0;
    let scale = 1;
    let byte;
    do {
      byte = bytes.charCodeAt(place++);
      step += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    value += step % 2 ? -(step + 1) / 2 : step / 2;
    column[row] = value;
  }
  return column;
}

/** Return a table as an object of columns; `rows` is their length. */
function decodeTable(coded) {
  const table = { rows: coded.rows };
  for (const [name, column] of Object.entries(coded)) {
    if (name !== "rows") table[name] = decodeColumn(column, coded.rows);
  }
  return table;
}

/** Put `start` and `end` of a table on the axis of the page, where the run's time 0 is *since*. */
function onAxis(table, since, perNs = 1) {
  table.end = new Float64Array(table.rows);
  for (let row = 0; row < table.rows; row++) {
    table.end[row] = (table.start[row] + (table.lasts?.[row] ?? 0)) / perNs - since;
    table.start[row] = table.start[row] / perNs - since;
  }
}

/** Return a run with its tables decoded. All times count from the run's time 0. */
function decodeRun(coded) {
  const { since } = coded;
  const source = new Map(Object.entries(coded.source));
  const run = { ...coded, source, until: coded.until - since, text: (number) => coded.texts[number] };
  for (const name of TABLES) run[name] = decodeTable(coded[name]);
  run.steps.isOver = Array.from(run.steps.start, (at) => at >= 0);
  for (const name of TABLES) onAxis(run[name], since, name === "instructions" ? 1000 : 1);
  for (const table of [run.ops, run.steps, run.launches]) table.queued = table.queued.map((at) => at - since);
  for (let row = 0; row < run.steps.rows; row++) {
    if (!run.steps.isOver[row]) run.steps.start[row] = run.steps.end[row] = run.until;
  }
  run.calls.held = new Float64Array(run.calls.rows);
  for (let row = 0; row < run.sleeps.rows; row++) {
    run.calls.held[run.sleeps.call[row]] += run.sleeps.end[row] - run.sleeps.start[row];
  }
  run.findings = coded.findings.map((each) => {
    const waits = decodeTable(each.waits);
    onAxis(waits, since);
    return { ...each, run, waits, begin: each.begin_ns - since, end: each.end_ns - since };
  });
  return run;
}

// --- what belongs together

/** Return the index that row *row* waited for, or -1. */
function waitedFor(table, row) {
  return table.back[row] ? row - table.back[row] : -1;
}

/** Return the rows that *targetOf* leads to *row*, for all rows of *table*; they are collected once. */
function leadingTo(table, name, targetOf, row) {
  const key = `leading ${name}`;
  if (!table[key]) {
    table[key] = new Map();
    for (let each = 0; each < table.rows; each++) {
      const target = targetOf(each);
      if (target < 0) continue;
      if (!table[key].has(target)) table[key].set(target, []);
      table[key].get(target).push(each);
    }
  }
  return table[key].get(row) ?? [];
}

/** Return what *row* of *table* is linked to, as { role, table, row, leadsHere }. An arrow goes from cause to effect. */
function linksOf(run, table, row) {
  const { ops, calls, steps, instructions } = run;
  const before = (role, name, index) => (index < 0 ? [] : [{ role, table: name, row: index, leadsHere: true }]);
  const after = (role, name, rows) => rows.map((each) => ({ role, table: name, row: each, leadsHere: false }));
  switch (table) {
    case "ops": return [
      ...before("waited for", "ops", waitedFor(ops, row)),
      ...before("queued by", "calls", ops.call[row]),
      ...after("then", "ops", leadingTo(ops, "back", (each) => waitedFor(ops, each), row)),
    ];
    case "calls": return [
      ...before("woken by", "ops", calls.after[row]),
      ...after("queued", "ops", leadingTo(ops, "call", (each) => ops.call[each], row)),
    ];
    case "launches": return [...before("queued by", "calls", run.launches.call[row])];
    case "steps": return [
      ...before("record", "steps", steps.record[row]),
      ...before("stands for", "ops", steps.after[row]),
      ...after("awaited by", "steps", leadingTo(steps, "record", (each) => steps.record[each], row)),
    ];
    case "instructions": return [
      ...before("waited for", "instructions", waitedFor(instructions, row)),
      ...after("then", "instructions", leadingTo(instructions, "back", (each) => waitedFor(instructions, each), row)),
    ];
    case "path": return [...before("operation", "ops", run.path.op[row]), ...before("call", "calls", run.path.call[row])];
    default: return [];
  }
}

// --- numbers for people

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];

/** Return *value* with thousands separated and at most *digits* decimals. */
function formatNumber(value, digits = 3) {
  return value.toLocaleString("en-US", { maximumFractionDigits: digits }).replace("-", "−");
}

/** Return "1 call" or "2 calls" for the *noun* "call". */
function counted(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Return *ns* nanoseconds as microseconds, the unit of the whole project. */
function formatTime(ns) {
  return `${formatNumber(ns / 1000)} µs`;
}

/** Return *ns* for the axis, in the unit that fits *step*. */
function formatTick(ns, step) {
  const [scale, unit] = UNITS.find(([size]) => step >= size) ?? UNITS.at(-1);
  return ns === 0 ? "0" : `${formatNumber(ns / scale, 6)} ${unit}`;
}

function formatBytes(bytes) {
  const [scale, unit] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([size]) => bytes >= size) ?? [1, "B"];
  return `${formatNumber(bytes / scale, 1)} ${unit}`;
}

function formatShare(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)} %` : "–";
}

// --- names

function nameOf(run, table, row) {
  return table === "path" ? partName(run, row) : run.text(run[table].name[row]);
}

/** Return the name of a part of the critical path: that of its work, or what it waited for. */
function partName(run, row) {
  const cause = run.text(run.path.cause[row]);
  if (cause === "work") return nameOf(run, "ops", run.path.op[row]);
  if (cause === "program") return "between two calls";
  if (run.path.call[row] >= 0 && ["call", "asleep"].includes(cause)) return nameOf(run, "calls", run.path.call[row]);
  return DOCUMENT.causes[cause] ?? cause;
}

/** Return how long *run* takes, and what that is beside the *first* run. */
function comparison(first, run) {
  const time = formatTime(run.until);
  if (run === first || !first.until) return time;
  const change = (100 * (run.until - first.until)) / first.until;
  const sign = change > 0 ? "+" : "−";
  return Math.abs(change) < 0.05 ? `${time}, the same` : `${time}, ${sign}${formatNumber(Math.abs(change), 1)} %`;
}
