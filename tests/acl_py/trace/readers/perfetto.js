// Runs Perfetto's trace processor, in the WebAssembly that its web page uses, on one file:
//
//     node perfetto.js FOLDER TRACE SQL...
//
// FOLDER has the page's engine_bundle.js and its .wasm files. Prints a JSON list with the rows of each query. The engine
// is written for a worker of a browser, so this file gives it what it needs of one. Requests and answers are messages
// of trace_processor.proto.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, trace, ...queries] = process.argv.slice(2);

// --- protobuf

function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) | 128);
  return [...bytes, number];
}

function delimited(field, bytes) {
  return Buffer.concat([Buffer.from(varint(field * 8 + 2)), Buffer.from(varint(bytes.length)), bytes]);
}

function number(field, value) {
  return Buffer.from([...varint(field * 8), ...varint(value)]);
}

function* fields(bytes) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(next());
    const field = key >> 3;
    if ((key & 7) === 0) yield [field, next()];
    else if ((key & 7) === 1) yield [field, bytes.subarray(at, (at += 8))];
    else if ((key & 7) === 2) {
      const length = Number(next());
      yield [field, bytes.subarray(at, (at += length))];
    } else throw new Error(`wire type ${key & 7} is unknown`);
  }
}

function* varints(bytes) {
  for (let at = 0; at < bytes.length; ) {
    const begin = at;
    while (bytes[at++] > 127);
    yield fields(Buffer.concat([Buffer.from([8]), bytes.subarray(begin, at)])).next().value[1];
  }
}

// --- messages

const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorRpc.TraceProcessorMethod
const CELLS = { 1: "null", 2: "varint", 3: "float64", 4: "string", 5: "blob" };

function request(sequence, method, ...rest) {
  return delimited(1, Buffer.concat([number(1, sequence), number(2, method), ...rest]));
}

class Rows {
  constructor() {
    this.columns = [];
    this.rows = [];
    this.error = "";
  }

  add(result) {
    for (const [field, value] of fields(result)) {
      if (field === 1) this.columns.push(Buffer.from(value).toString());
      else if (field === 2) this.error = Buffer.from(value).toString();
      else if (field === 3) this.batch(value);
    }
  }

  batch(bytes) {
    const parts = { 1: [], 2: [], 3: [], 5: [] };
    for (const [field, value] of fields(bytes)) if (field in parts) parts[field].push(Buffer.from(value));
    const cells = [...varints(Buffer.concat(parts[1]))].map(Number);
    const integers = varints(Buffer.concat(parts[2]));
    const floats = Buffer.concat(parts[3]);
    const strings = Buffer.concat(parts[5]).toString().split("\0");
    let float = 0, string = 0, row = [];
    for (const cell of cells) {
      const type = CELLS[cell];
      if (type === "null") row.push(null);
      else if (type === "varint") row.push(Number(BigInt.asIntN(64, integers.next().value)));
      else if (type === "float64") row.push(floats.readDoubleLE(8 * float++));
      else if (type === "string") row.push(strings[string++]);
      else throw new Error(`a cell of type ${cell}`);
      if (row.length === this.columns.length) {
        this.rows.push(row);
        row = [];
      }
    }
  }
}

// --- the worker

const port = { postMessage: receive };
const worker = {
  WorkerGlobalScope: Object,
  console: { log() {}, warn() {}, error() {} },
  crypto, performance, setTimeout, clearTimeout, TextDecoder, TextEncoder, URL,
  location: { href: "http://perfetto/" },
  XMLHttpRequest: class {
    open(method, url) {
      this.file = path.join(folder, path.basename(url));
    }
    send() {
      this.response = Uint8Array.from(fs.readFileSync(this.file)).buffer;
    }
  },
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker);
worker.onmessage({ data: port });

let results = queries.map(() => new Rows());
let answered = 0;

function receive(bytes) {
  for (const [, message] of fields(bytes)) {
    for (const [field, value] of fields(message)) {
      if (field === 5) throw new Error(Buffer.from(value).toString()); // fatal_error
      if (field === 201 || field === 210) check(value);
      if (field === 203) {
        results[answered].add(value);
        if (isLast(value)) answered++;
      }
    }
  }
}

function check(result) {
  for (const [field, value] of fields(result))
    if (field === 2 && value instanceof Uint8Array) throw new Error(Buffer.from(value).toString());
}

function isLast(result) {
  let last = true;
  for (const [field, value] of fields(result))
    if (field === 3) last = [...fields(value)].some(([name, flag]) => name === 6 && flag === 1n);
  return last;
}

function send(bytes) {
  port.onmessage({ data: vm.runInContext("(bytes) => Uint8Array.from(bytes)", worker)(bytes) });
}

async function main() {
  await new Promise((ready) => setImmediate(ready)); // the engine is ready after its promises
  send(request(0, APPEND, delimited(101, fs.readFileSync(trace))));
  send(request(1, FINALIZE));
  queries.forEach((query, index) => send(request(2 + index, QUERY, delimited(103, delimited(1, Buffer.from(query))))));
  for (const { error } of results) if (error) throw new Error(error);
  process.stdout.write(JSON.stringify(results.map(({ rows }) => rows)) + "\n");
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
