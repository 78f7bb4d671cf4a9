// The page: the list of notebooks, the notebook that is open, and the worker that runs its cells.

const byId = (id) => document.getElementById(id);
const BUILD_AGAIN = "Build the page again: make browser.";
const opened = new Map(); // the notebooks that were shown, by name: { element, cells }
let shown = null; // the one of them that is visible
let worker = null; // runs the cells of `shown`
let queue = []; // the cells that are to run; the first one runs

// --- the worker

function whyNot() {
  if (location.protocol === "file:") {
    return (
      "Cells cannot run in a page that was opened as a file. Run `python -m http.server` in its folder, and open " +
      "http://localhost:8000."
    );
  }
  if (!window.Worker || !window.WebAssembly) {
    return "Cells cannot run: this browser has no workers or no WebAssembly. Use a newer one.";
  }
  return "";
}

function startWorker() {
  worker = new Worker("worker.js");
  worker.isReady = false;
  worker.onmessage = ({ data }) => receive(data);
  worker.onerror = (event) => {
    event.preventDefault();
    fail(`The worker has stopped: ${event.message || `its file worker.js is missing. ${BUILD_AGAIN}`}`);
  };
  say("Loading ...");
}

function stopWorker() {
  worker?.terminate();
  worker = null;
  for (const cell of queue) cell.end();
  queue = [];
  say("");
}

function receive({ kind, text, number }) {
  if (kind === "status") say(text);
  else if (kind === "failed") fail(text);
  else if (kind === "ready") {
    worker.isReady = true;
    runFirst();
  } else if (kind === "done") {
    queue.shift().end(number);
    runFirst();
  } else {
    queue[0].show(kind, text);
    if (kind === "error") for (const cell of queue.splice(1)) cell.end();
  }
}

function fail(text) {
  stopWorker();
  say(text, true);
}

// --- what the reader does

function run(...cells) {
  const why = whyNot();
  if (why) return say(why, true);
  if (!worker) startWorker();
  const added = cells.filter((cell) => !queue.includes(cell));
  for (const cell of added) cell.wait();
  queue.push(...added);
  if (worker.isReady && queue.length === added.length) runFirst();
}

function runFirst() {
  if (queue.length === 0) return say("Ready");
  say(queue.length === 1 ? "Running ..." : `Running; ${queue.length - 1} more cells wait`);
  queue[0].begin();
  worker.postMessage(queue[0].code.value);
}

function restart() {
  stopWorker();
  for (const cell of shown.cells) cell.end();
  say("Stopped: all names are forgotten. Run the cells from the top.");
}

function say(text, isBad = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("bad", isBad);
}

// --- the views

function open() {
  const notebook = NOTEBOOKS.find(({ name }) => `#${name}` === location.hash);
  if (worker && shown !== opened.get(notebook?.name)) stopWorker();
  const name = notebook?.name ?? "";
  if (!opened.has(name)) opened.set(name, notebook ? notebookOf(notebook) : listOf(NOTEBOOKS));
  shown = opened.get(name);
  byId("tools").hidden = shown.cells.length === 0;
  byId("main").replaceChildren(shown.element);
  document.title = `acl_py: ${shown.title}`;
  say(whyNot(), true);
  scrollTo(0, 0);
}

function titleOf({ cells }) {
  return element("div", { innerHTML: cells[0].html }).querySelector("h1").textContent;
}

function listOf(notebooks) {
  const links = notebooks.map((each) => element("a", { href: `#${each.name}`, textContent: titleOf(each) }));
  const list = element(
    "div",
    {},
    element("h1", { textContent: "Notebooks about streams" }),
    element("p", { textContent: INTRODUCTION }),
    element("ul", {}, ...links.map((link) => element("li", {}, link))),
    element("p", { textContent: KEYS }),
  );
  return { element: list, cells: [], title: "notebooks" };
}

function notebookOf(notebook) {
  const cells = [];
  const article = element("article");
  for (const { html, source } of notebook.cells) {
    if (source === undefined) {
      article.append(element("div", { className: "text", innerHTML: html }));
    } else {
      cells.push(new CodeCell(source, `cell ${cells.length + 1}`, runAndGoOn));
      article.append(cells.at(-1).section);
    }
  }
  return { element: article, cells, title: titleOf(notebook) };
}

/** Run *cell*; whoever is in its code goes on to the next one. */
function runAndGoOn(cell) {
  run(cell);
  const next = shown.cells[shown.cells.indexOf(cell) + 1];
  if (document.activeElement === cell.code) next?.code.focus();
}

const INTRODUCTION =
  "Each notebook asks a question, takes your prediction, runs a program on a simulated device, and shows what " +
  "happened. All of it runs here, in the browser. The first cell that you run loads Python, which takes some seconds.";
const KEYS =
  "Change any code. Shift+Enter runs the cell and goes on to the next one; Tab leaves the code. The notebooks " +
  "that are not here need more than Python in a browser has: use Jupyter for them.";

byId("run-all").onclick = () => run(...shown.cells);
byId("restart").onclick = restart;
addEventListener("hashchange", open);
open();
