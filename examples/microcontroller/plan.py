"""From a .tflite file to what firmware compiles: the planned model as a C array, the arena's size as a header, and the
list of operators; main.cc beside this file includes all three. The plan holds under TFLM's reference kernels,
CMSIS-NN and ESP-NN alike.
"""

import argparse
from pathlib import Path

import lowtide

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", type=Path, help="a quantised .tflite file")
parser.add_argument("folder", type=Path, nargs="?", default=".", help="for what is written; this one if none is given")
options = parser.parse_args()
model, folder = options.model, options.folder
target = "tflm,pointer=32,interpreter=plain"  # a 32-bit MCU and the plain MicroInterpreter
plan = lowtide.research.plan(model, target=target)
assert plan.runtime_parts is not None
before = lowtide.check(model, "1GiB", target=target, as_is=True)
print(f"arena of the model as it stands {before.required_bytes:,} B, planned {plan.required_bytes:,} B")
print(f"of these the planned part {plan.arena_bytes:,} B, {'proved optimal' if plan.optimal else 'not proved optimal'}")

folder.mkdir(parents=True, exist_ok=True)
planned = folder / "net.planned.tflite"
plan.apply(model, planned)
plan.save(folder / "net.plan.json")
lowtide.export(plan, model, header=folder / "net_arena.h", target=target)
data = planned.read_bytes()
array = ",\n".join(", ".join(map(str, data[i : i + 20])) for i in range(0, len(data), 20))
(folder / "net_model.h").write_text(f"alignas(16) const unsigned char net_model[] = {{\n{array}}};\n")


def registration(kind: str) -> str:
    """FULLY_CONNECTED is AddFullyConnected in TFLM's resolver, CONV_2D AddConv2D."""
    return "Add" + "".join(part if part[0].isdigit() else part.capitalize() for part in kind.split("_"))


kinds = sorted({op.type for op in plan.ops})
calls = " \\\n".join(f"  resolver.{registration(kind)}();" for kind in kinds)
(folder / "net_ops.h").write_text(f"constexpr unsigned kOps = {len(kinds)};\n#define NET_OPS(resolver) \\\n{calls}\n")
