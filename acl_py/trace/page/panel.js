// What is beside the canvas: the runs, the selection, the findings, the engines, the legend and the tip at the pointer.

const TONES = {
  call: "host calls", held: "host waits", h2d: "copy to the device", kernel: "kernel", d2h: "copy to the host",
  d2d: "copy inside the device", h2h: "copy on the host", p2p: "copy between devices", collective: "collective", fill: "fill", host_function: "host function",
  prefetch_h2d: "prefetch to the device", prefetch_d2h: "prefetch to the host",
  graph: "launch of a graph", mark: "mark", step: "event, notify or wait", bad: "a wait that never ended",
};
const SPENT = { work: "work", call: "a call of the host", program: "the program between two calls", asleep: "a wait of the host" };
const LISTED = 8; // rows that a list in the selection shows
const WORST = 4; // causes of idle time that are listed for an engine

/** Return an element with *children*: elements and texts. */
function element(tag, properties = {}, ...children) {
  const { dataset, ...plain } = properties;
  const made = Object.assign(document.createElement(tag), plain);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

/** Return a small square in the colour *tone*. */
function swatch(tone, isGap = false) {
  const made = element("i", { className: isGap ? "swatch gap" : `swatch ${tone}` });
  made.style.setProperty("--tone", `var(--${tone})`);
  return made;
}

// --- the selection

/** Show *item* in the panel: a row of a table, with links to what it waited for and what waited for it. */
function showSelection(item, select) {
  const place = byId("selection").querySelector("div");
  if (!item) {
    place.replaceChildren(element("p", { className: "hint" }, "Click something in the timeline to see what it waited for."));
    return;
  }
  const { run, table, row } = item;
  const { tone, facts } = DESCRIBE[table](run, row);
  facts.push(...linkFacts(run, linksOf(run, table, row), select));
  place.replaceChildren(
    element("h3", {}, swatch(tone), nameOf(run, table, row)),
    element("dl", {}, ...facts.filter(Boolean).map(([name, ...value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, ...value)))),
  );
}

/** List the rows of a *bundle* of pins, with a button that zooms to them. */
function showBundle(bundle, select, zoom) {
  const { run, table, rows } = bundle;
  const items = rows.slice(0, LISTED).map((row) => element("li", {}, linkTo(run, table, row, select)));
  if (rows.length > LISTED) items.push(element("li", {}, `and ${formatNumber(rows.length - LISTED)} more`));
  byId("selection").querySelector("div").replaceChildren(
    element("h3", {}, swatch(table === "marks" ? "mark" : "step"), bundleName(bundle)),
    element("ul", { className: "rows" }, ...items),
    element("button", { type: "button", className: "link", onclick: () => zoom(bundle) }, "Zoom to them"),
  );
}

/** Return "12: 8 records, 4 waits" for a bundle of steps, or "12 marks". */
function bundleName({ run, table, rows }) {
  if (table === "marks") return counted(rows.length, "mark");
  const kinds = new Map();
  for (const row of rows) {
    const kind = run.text(run.steps.kind[row]).replaceAll("_", " ");
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return [...kinds].map(([kind, count]) => counted(count, kind)).join(", ");
}

/** Return the line *site*, with its text below if the recording has it. */
function lineOf(run, site) {
  const text = run.source.get(site);
  return [element("code", {}, site), ...(text ? [element("code", { className: "source" }, text)] : [])];
}

/** Return a button that selects a row; it says its name, and its stream or task. */
function linkTo(run, table, row, select) {
  const owner = { ops: "stream", calls: "caller", steps: "stream", marks: "caller", launches: "stream", instructions: "core" }[table];
  const text = `${nameOf(run, table, row)}, ${run.text(run[table][owner][row])}`;
  return element("button", {
    type: "button", className: "link", onclick: () => select({ kind: "item", run, table, row }, true),
  }, text);
}

/** Return a fact for each role that *links* have. */
function linkFacts(run, links, select) {
  const roles = [...new Set(links.map((link) => link.role))];
  return roles.map((role) => {
    const ofRole = links.filter((link) => link.role === role);
    const items = ofRole.slice(0, LISTED).map(({ table, row }) => element("li", {}, linkTo(run, table, row, select)));
    if (ofRole.length > LISTED) items.push(element("li", {}, `and ${formatNumber(ofRole.length - LISTED)} more`));
    return [role, element("ul", {}, ...items)];
  });
}

const DESCRIBE = {
  ops: describeOperation, calls: describeCall, steps: describeStep, marks: describeMark, path: describePart,
  launches: describeLaunch, instructions: describeInstruction,
};

function describeOperation(run, row) {
  const { ops } = run;
  const kind = run.text(ops.kind[row]);
  const lasts = ops.end[row] - ops.start[row];
  const bytes = ops.bytes[row];
  const rate = lasts > 0 ? `, ${formatNumber(bytes / lasts, 1)} GB/s` : "";
  return {
    tone: kind,
    facts: [
      ["kind", TONES[kind] ?? kind],
      ["lasts", formatTime(lasts)],
      ["starts", formatTime(ops.start[row])],
      ["queued", formatTime(ops.queued[row]), element("small", {}, ` ${formatTime(ops.start[row] - ops.queued[row])} before`)],
      ["start", `held up by ${CAUSES[ops.why[row]]}`],
      bytes ? ["bytes", formatBytes(bytes) + rate] : null,
      ["stream", run.text(ops.stream[row])],
      ["engine", `${run.text(ops.engine[row])} of device ${ops.device[row]}`],
      ["line", ...lineOf(run, run.text(ops.site[row]))],
      ...coreFacts(run.cores[row]),
    ],
  };
}

/** Return how busy the pipes of a core kernel were. */
function coreFacts(cores) {
  if (!cores) return [];
  const busy = Object.entries(cores.busy).map(([name, us]) => element("li", {}, `${name} ${formatNumber(us)} µs`));
  const left = cores.left_out ? [["not shown", `${formatNumber(cores.left_out)} instructions`]] : [];
  return [["blocks", formatNumber(cores.blocks)], ["pipes", element("ul", {}, ...busy)], ...left];
}

function describeCall(run, row) {
  const { calls } = run;
  return {
    tone: "call",
    facts: [
      ["lasts", formatTime(calls.end[row] - calls.start[row])],
      calls.held[row] ? ["of it, waits", formatTime(calls.held[row])] : null,
      ["begins", formatTime(calls.start[row])],
      ["caller", run.text(calls.caller[row])],
      ["line", ...lineOf(run, run.text(calls.site[row]))],
    ],
  };
}

function describeStep(run, row) {
  const { steps } = run;
  return {
    tone: steps.isOver[row] ? "step" : "bad",
    facts: [
      ["kind", run.text(steps.kind[row]).replace("_", " ")],
      ["stream", run.text(steps.stream[row])],
      ["queued", formatTime(steps.queued[row])],
      ["over", steps.isOver[row] ? formatTime(steps.start[row]) : "never"],
      ["caller", run.text(steps.caller[row])],
      ["line", ...lineOf(run, run.text(steps.site[row]))],
    ],
  };
}

function describePart(run, row) {
  const { path } = run;
  const cause = run.text(path.cause[row]);
  return {
    tone: pathTone(run, row),
    facts: [
      ["", "part of the critical path"],
      ["begins", formatTime(path.start[row])],
      ["lasts", formatTime(path.end[row] - path.start[row])],
      ["spent on", SPENT[cause] ?? DOCUMENT.causes[cause]],
    ],
  };
}

function describeLaunch(run, row) {
  const { launches } = run;
  return {
    tone: "graph",
    facts: [
      ["kind", TONES.graph],
      ["lasts", formatTime(launches.end[row] - launches.start[row])],
      ["starts", formatTime(launches.start[row])],
      ["queued", formatTime(launches.queued[row])],
      launches.bodies[row] ? ["bodies that ran", formatNumber(launches.bodies[row])] : null,
      ["stream", run.text(launches.stream[row])],
      ["line", ...lineOf(run, run.text(launches.site[row]))],
    ],
  };
}

function describeMark(run, row) {
  const { marks } = run;
  return {
    tone: "mark",
    facts: [
      ["begins", formatTime(marks.start[row])],
      ["lasts", formatTime(marks.end[row] - marks.start[row])],
      ["caller", run.text(marks.caller[row])],
      ["line", ...lineOf(run, run.text(marks.site[row]))],
    ],
  };
}

function describeInstruction(run, row) {
  const table = run.instructions;
  const kind = run.text(table.kind[row]);
  return {
    tone: kind === "work" ? `pipe-${run.text(table.pipe[row])}` : "held",
    facts: [
      ["lasts", formatTime(table.end[row] - table.start[row])],
      ["starts", formatTime(table.start[row])],
      ["core", `${run.text(table.core[row])}, pipe ${run.text(table.pipe[row])}, block ${table.block[row]}`],
      kind === "work" ? null : ["kind", kind],
      table.bytes[row] ? ["bytes", formatBytes(table.bytes[row])] : null,
      ["line", ...lineOf(run, run.text(table.site[row]))],
      ["launch", nameOf(run, "ops", table.operation[row])],
    ],
  };
}

// --- lists

/** List the findings of all runs, or those that are in *span*; each leads to its place. */
function showFindings(runs, choose, span) {
  const all = runs.flatMap((run) => run.findings);
  const shown = all.filter((finding) => !span || timesIn(finding, span) > 0);
  byId("findings").hidden = !all.length;
  byId("findings").querySelector("h2").textContent = span
    ? `Findings in the span (${formatNumber(shown.length)} of ${formatNumber(all.length)})`
    : `Findings (${formatNumber(all.length)})`;
  byId("findings").querySelector("div").replaceChildren(...runs.filter((run) => shown.some((each) => each.run === run)).flatMap((run) => [
    ...(runs.length > 1 ? [element("h3", {}, run.title)] : []),
    element("ol", {}, ...shown.filter((each) => each.run === run).map((finding) => element("li", {}, findingButton(finding, choose, span)))),
  ]), ...(span && !shown.length ? [element("p", { className: "hint" }, "None of them is in the span.")] : []));
}

/** Return how many calls or operations of *finding* are in *span*; if it has none, whether its time is. */
function timesIn(finding, span) {
  const { ops, calls, run } = finding;
  if (!ops.length && !calls.length) return Number(isIn(span, finding.begin, finding.end));
  const count = (rows, { start, end }) => rows.filter((row) => isIn(span, start[row], end[row])).length;
  return Math.max(count(ops, run.ops), count(calls, run.calls));
}

/** Return for how long *finding* held something in *span*, as the end of a sentence; "" if nobody knows. */
function heldIn({ waits }, [from, to]) {
  if (!waits.rows) return "";
  const held = waits.start.reduce((sum, begin, row) => sum + Math.max(0, Math.min(waits.end[row], to) - Math.max(begin, from)), 0);
  return `, held ${formatTime(held)} there`;
}

function findingButton(finding, choose, span) {
  const [headline, ...rest] = finding.text.split("\n");
  const times = Math.max(finding.ops.length, finding.calls.length);
  const often = span && times > 1 ? [`${formatNumber(timesIn(finding, span))} of ${formatNumber(times)} times in the span${heldIn(finding, span)}`] : [];
  const button = element("button", { type: "button" },
    element("code", {}, finding.site),
    element("span", { className: "price" }, ...priceOf(finding)),
    ...lineOf(finding.run, finding.site).slice(1),
    element("span", { className: "headline" }, headline),
    ...[...rest, ...often].length ? [element("span", { className: "more" }, ...linesOf([...rest, ...often]))] : []);
  if (finding === chart.finding) button.setAttribute("aria-current", "true");
  button.onclick = () => choose(finding);
  return button;
}

/** Return *lines* as elements; those of a diff, such as "- demo.py:97: await Memcpy(...)", as code. */
function linesOf(lines) {
  return lines.map((line) => element(/^[-+] (behind |before )?\S+:\d+: /.test(line) ? "code" : "span", {}, line));
}

/** Return what the change of *finding* is worth, or that nobody has asked, and how long it held something. */
function priceOf({ worth_ns: worth, held_ns: held }) {
  const said = (word, ns) => [`${word} `, element("b", {}, formatTime(ns))];
  if (worth !== null) return said("worth", worth);
  return held === null ? ["no price"] : [...said("held", held), ", no price"];
}

/** List what the sanitizer has found. */
function showMistakes(mistakes) {
  byId("mistakes").hidden = !mistakes.length;
  byId("mistakes").querySelector("h2").textContent = `Mistakes (${formatNumber(mistakes.length)})`;
  byId("mistakes").querySelector("ol").replaceChildren(...mistakes.map((text) => {
    const [headline, ...rest] = text.split("\n");
    return element("li", {}, element("span", { className: "headline" }, headline),
      ...rest.length ? [element("span", { className: "more" }, rest.join("\n"))] : []);
  }));
}

/** List what the program of each run does not have. */
function showNotes(runs) {
  const noted = runs.filter((run) => run.notes.length);
  byId("notes").hidden = !noted.length;
  byId("notes").querySelector("div").replaceChildren(...noted.flatMap((run) => [
    ...(runs.length > 1 ? [element("h3", {}, run.title)] : []),
    element("ul", {}, ...run.notes.map((note) => element("li", {}, note))),
  ]));
}

/** List the runs with their times, if there are several. */
function showRuns(runs, reveal) {
  byId("runs").hidden = runs.length < 2;
  const longest = Math.max(1, ...runs.map((run) => run.until));
  byId("runs").querySelector("table").replaceChildren(...runs.map((run) => {
    const bar = element("i", { className: "bar" });
    bar.style.width = `${(100 * run.until) / longest}%`;
    const name = element("button", { type: "button", className: "link", onclick: () => reveal(run) }, run.title);
    const [time, change = ""] = comparison(runs[0], run).split(", ");
    return element("tr", {}, element("th", { scope: "row" }, name, bar), element("td", {}, time),
      element("td", {}, change));
  }));
}

/** Show for each engine how much of its run, or of *span*, it worked, and why it did not in the rest. */
function showUse(chart, span) {
  const engines = chart.lanes.filter((lane) => lane.group === ENGINES && lane.run.until > 0);
  byId("use").hidden = !engines.length;
  byId("use").querySelector("h2").textContent = span ? "Engines in the span" : "Engines";
  byId("use").querySelector("div").replaceChildren(...chart.runs.flatMap((run) => {
    const lanes = engines.filter((lane) => lane.run === run);
    const heading = chart.runs.length > 1 && lanes.length ? [element("h3", {}, run.title)] : [];
    return [...heading, ...lanes.map((lane) => useOf(lane, span ?? [0, run.until]))];
  }));
}

function useOf(lane, [from, to]) {
  const whole = to - from;
  const idle = new Map();
  for (let index = 0; index < lane.gaps.count; index++) {
    const length = Math.min(lane.gaps.end[index], to) - Math.max(lane.gaps.begin[index], from);
    if (length > 0) idle.set(lane.gaps.tones[index], (idle.get(lane.gaps.tones[index]) ?? 0) + length);
  }
  const gaps = [...idle.values()].reduce((sum, each) => sum + each, 0);
  const busy = busyOf(lane, from, to);
  const causes = [...idle].filter(([, length]) => length > whole / 200).sort((one, other) => other[1] - one[1]);
  const parts = [["work", busy], ...causes];
  const bar = element("div", { className: "use" }, ...parts.map(([tone, length]) => {
    const part = element("i");
    part.style.width = `${(100 * length) / whole}%`;
    part.style.background = tone === "work" ? "var(--work)" : `var(--${tone})`;
    return part;
  }));
  const list = causes.slice(0, WORST).map(([tone, length]) => element("li", {}, swatch(tone, true),
    `${formatShare(length, whole)} ${CAUSES[tone.split("-")[1]]}`));
  const rest = whole - busy - gaps;
  if (rest > whole / 200) list.push(element("li", {}, element("i", { className: "swatch none" }), `${formatShare(rest, whole)} before or after its work`));
  return element("section", {}, element("p", {}, element("span", {}, lane.label), element("b", {}, `${formatShare(busy, whole)} busy`)),
    bar, element("ul", {}, ...list));
}

/** Return for how long at least one span of *lane* lasts between *from* and *to*. */
function busyOf(lane, from, to) {
  if (lane.levels.length === 1) return lane.levels[0].filledIn(from, to);
  const spans = lane.levels.flatMap((track) => [...track.begin].map((begin, index) => [begin, track.end[index]]));
  spans.sort((one, other) => one[0] - other[0]);
  let [busy, reached] = [0, from];
  for (const [begin, end] of spans) {
    const first = Math.max(begin, reached);
    const last = Math.min(end, to);
    if (first < last) busy += last - first;
    reached = Math.max(reached, last);
  }
  return busy;
}

/** Name the colours that the lanes use. */
function showLegend(lanes) {
  const work = new Set(lanes.flatMap((lane) => [...lane.levels, lane.points].flatMap((track) => track.tones)));
  const gaps = new Set(lanes.flatMap((lane) => lane.gaps.tones));
  const known = Object.keys(TONES).filter((tone) => work.has(tone));
  const causes = CAUSES.map((name, number) => [`cause-${number}`, name]).filter(([tone]) => gaps.has(tone));
  const title = (text) => element("b", {}, text);
  byId("legend").replaceChildren(
    ...known.map((tone) => element("span", {}, swatch(tone), TONES[tone])),
    ...(causes.length ? [title("idle because of")] : []),
    ...causes.map(([tone, name]) => element("span", {}, swatch(tone, true), name)),
  );
}

// --- the tip at the pointer

/** Show what *hit* is beside the pointer; nothing if it is no row and no gap. */
function showTip(hit, x, y) {
  const tip = byId("tip");
  const made = { gap: gapTip, item: itemTip, bundle: (bundle) => [element("b", {}, bundleName(bundle))] }[hit?.kind];
  tip.hidden = !made;
  if (!made) return;
  tip.replaceChildren(...made(hit));
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - width - 6))}px`;
  tip.style.top = `${y + 18 + height > window.innerHeight ? y - height - 10 : y + 18}px`;
}

function itemTip({ run, table, row }) {
  const lasts = table === "steps" ? run.text(run.steps.kind[row]).replace("_", " ") : formatTime(run[table].end[row] - run[table].start[row]);
  const cause = table === "ops" ? [element("p", {}, `start held up by ${CAUSES[run.ops.why[row]]}`)] : [];
  const held = table === "calls" && run.calls.held[row] ? [element("p", {}, `waits ${formatTime(run.calls.held[row])} of it`)] : [];
  return [element("b", {}, nameOf(run, table, row)), ` ${lasts}`, ...cause, ...held,
    ...(run[table].site ? lineOf(run, run.text(run[table].site[row])) : [])];
}

function gapTip({ run, row, tone, begin, end }) {
  const before = waitedFor(run.ops, row);
  const after = before < 0 || tone === "cause-0" ? [] : [element("p", {},
    `${nameOf(run, "ops", row)} waited for ${nameOf(run, "ops", before)}, ${run.text(run.ops.stream[before])}`)];
  return [element("b", {}, "idle"), ` ${formatTime(end - begin)}`, element("p", {}, `because of ${CAUSES[tone.split("-")[1]]}`), ...after];
}
