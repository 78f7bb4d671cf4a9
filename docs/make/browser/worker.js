// The worker: Pyodide with acl_py, and the kernel of one notebook. It receives the source of a cell, and sends messages
// { kind, ... }: "status", "ready", the outputs of the cell, "done" with its number, or "failed".

const HERE = new URL(".", self.location).href;
const BUILD_AGAIN = "Build the page again: make browser.";
let kernel = null;

/** Load Pyodide and the packages, and make the kernel. */
async function start() {
  try {
    importScripts(`${HERE}pyodide/pyodide.js`);
  } catch {
    throw new Error(`The folder pyodide beside this page is missing or incomplete. ${BUILD_AGAIN}`);
  }
  say("Loading Python ...");
  const python = await loadPyodide({ indexURL: `${HERE}pyodide/` });
  say("Loading NumPy and matplotlib ...");
  await python.loadPackage(["numpy", "matplotlib"], { messageCallback() {} });
  say("Loading acl_py ...");
  python.unpackArchive(await bytesOf("packages.zip"), "zip", { extractDir: "/lib/acl_py" });
  python.runPython("import sys; sys.path.insert(0, '/lib/acl_py')");
  kernel = python.pyimport("kernel").Kernel((kind, text) => postMessage({ kind, text }));
  postMessage({ kind: "ready" });
}

async function bytesOf(name) {
  const answer = await fetch(HERE + name);
  if (!answer.ok) throw new Error(`The file ${name} beside this page is missing. ${BUILD_AGAIN}`);
  return answer.arrayBuffer();
}

function say(text) {
  postMessage({ kind: "status", text });
}

self.onmessage = ({ data }) => {
  try {
    postMessage({ kind: "done", number: kernel.run(data) });
  } catch (error) {
    postMessage({ kind: "failed", text: `Python has stopped: ${error.message}` });
  }
};

start().catch((error) => postMessage({ kind: "failed", text: error.message }));
