// Opens @name@ as lowtide planned it, in onnxruntime-node or onnxruntime-web 1.24 or later.
//
//     const ort = require("onnxruntime-node");
//     const { lowtideOpen } = require("./@file@");
//     const session = await lowtideOpen(ort, @path@);
@web@//
// JavaScript has no settings for the order of nodes, the reuse of buffers and the arena, which the Python session sets:
// there onnxruntime goes its own way, and may take more memory than lowtide measured.

const options = {
  graphOptimizationLevel: "@level@",
  enableMemPattern: false, // from the second run on it would take a block of its own
  executionMode: "sequential",
  extra: { session: { use_device_allocator_for_initializers: "1"@more@ } },
};
@block@
// A session of the model: its path or URL, or its bytes. `more`: further options of onnxruntime.
async function lowtideOpen(ort, model, more = {}) {
@check@  return ort.InferenceSession.create(model, { ...options, ...more });
}

if (typeof module === "object") module.exports = { lowtideOpen };
