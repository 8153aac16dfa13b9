// A model in onnxruntime-web, in this process alone: bytes of the WebAssembly heap, which grows and never shrinks.
//
//     node web.mjs REQUEST.json
//
// REQUEST: {"packages", "model", "data", "session", "options", "feeds": [{"name", "type", "dims", "file"}], "runs", "outputs"}:
// the folder of onnxruntime-web, the model, its external data and the script that lowtide wrote (or null), further options
// of the session, inputs as raw files, and the folder that the outputs are written into. It prints {"empty", "loaded", "ran", "outputs", "seconds"}:
// bytes of the heap before a model is there, with it, and after all runs.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";

const request = JSON.parse(readFileSync(process.argv[2], "utf8"));
const memories = [];
WebAssembly.Memory = new Proxy(WebAssembly.Memory, {
  construct(target, given) {
    memories.push(new target(...given));
    return memories.at(-1);
  },
});
const heap = () => memories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);

const require = createRequire(join(request.packages, "main.js"));
const ort = require("onnxruntime-web");
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";

const arrays = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array,
  int8: Int8Array, bool: Uint8Array, uint16: Uint16Array, int16: Int16Array, float16: Uint16Array,
};

function tensor({ type, dims, file }) {
  const bytes = readFileSync(file);
  return new ort.Tensor(type, new arrays[type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)), dims);
}

// Something to load, so that the runtime itself is there: a model of one node, as small as one can be.
const none = Uint8Array.from(atob("CAg6MwoMCgF4EgF5IgRSZWx1EgFnWg8KAXgSCgoICAESBAoCCAFiDwoBeRIKCggIARIECgIIAUIECgAQDQ=="), (c) => c.charCodeAt(0));
await (await ort.InferenceSession.create(none)).release();
const empty = heap();

const options = { ...request.options };
if (request.data) options.externalData = [{ path: basename(request.data), data: new Uint8Array(readFileSync(request.data)) }];
const bytes = new Uint8Array(readFileSync(request.model));
const session = request.session
  ? await require(request.session).lowtideOpen(ort, bytes, options)
  : await ort.InferenceSession.create(bytes, options);
const loaded = heap();

const feeds = Object.fromEntries(request.feeds.map((feed) => [feed.name, tensor(feed)]));
let made = {};
const seconds = [];
for (let k = 0; k < request.runs; k++) {
  const began = performance.now();
  made = await session.run(feeds);
  seconds.push((performance.now() - began) / 1000);
}
const outputs = session.outputNames.map((name, k) => {
  const { type, dims, data } = made[name];
  const file = join(request.outputs, `${k}.bin`);
  writeFileSync(file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return { name, type, dims, file };
});
console.log(JSON.stringify({ empty, loaded, ran: heap(), outputs, seconds }));
