"""The session of a plan as JavaScript, for onnxruntime-node and onnxruntime-web."""

from __future__ import annotations

import json
from pathlib import Path

from lowtide.run.blocks import PORTABLE
from lowtide.run.session_texts import SessionSettings, probe_lines

_TEXT = """\
// Opens {name} as lowtide planned it, in onnxruntime-node or onnxruntime-web 1.24 or later.
//
//     const ort = require("onnxruntime-node");
//     const {{ lowtideOpen }} = require("./{file}");
//     const session = await lowtideOpen(ort, {path});
{web}//
// JavaScript has no settings for the order of nodes, the reuse of buffers and the arena, which the Python session sets:
// there onnxruntime goes its own way, and may take more memory than lowtide measured.

const options = {{
  graphOptimizationLevel: "{level}",
  enableMemPattern: false, // from the second run on it would take a block of its own
  executionMode: "sequential",
  extra: {{ session: {{ use_device_allocator_for_initializers: "1"{more} }} }},
}};
{block}
// A session of the model: its path or URL, or its bytes. `more`: further options of onnxruntime.
async function lowtideOpen(ort, model, more = {{}}) {{
{check}  return ort.InferenceSession.create(model, {{ ...options, ...more }});
}}

if (typeof module === "object") module.exports = {{ lowtideOpen }};
"""

_BLOCK = """\
const channelBlock = {block}; // of the file's convolutions; with another one they compute wrong numbers

// Asks onnxruntime for the block on this processor, by where it puts the one of a small tensor.
async function checkProcessor(ort) {{
  const encoded =
{probe};
  const probe = Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0));
  let block = 0; // there is no such layout
  try {{
    const chosen = {{ graphOptimizationLevel: "disabled", enableCpuMemArena: false, logSeverityLevel: 4 }};
    const session = await ort.InferenceSession.create(probe, chosen);
    block = (await session.run({{}})).y.data.indexOf(1);
    await session.release();
  }} catch {{
    // a build without it does not know the node
  }}
  if (block !== channelBlock) {{
    throw new Error(
      {name} + ` is for processors whose convolutions have blocks of ${{channelBlock}} channels, and this one has ` +
        `${{block || "none"}}: plan here, or for any processor: lowtide plan MODEL {portable} -o OUT`,
    );
  }}
}}
"""


def text(settings: SessionSettings, file: str) -> str:
    """The script's text; `file` is its name."""
    name = Path(settings.model).name
    path = json.dumps(settings.model)
    data = json.dumps(f"{name}.data")
    web = f"//     // in a browser: lowtideOpen(ort, URL, {{ externalData: [{{ path: {data}, data: URL }}] }})\n"
    block = check = ""
    if settings.block:
        probe = " +\n".join(f'    "{line}"' for line in probe_lines())
        block = _BLOCK.format(block=settings.block, probe=probe, name=json.dumps(name), portable=PORTABLE)
        check = "  await checkProcessor(ort);\n"
    return _TEXT.format(
        name=name,
        file=file,
        path=path,
        web=web if settings.mapped else "",
        level="all" if settings.chooses_layout else "disabled",
        more="" if settings.prepacked else ', disable_prepacking: "1"',
        block=block,
        check=check,
    )
