"""A compiler's own graph to an order and an offset for each buffer: python offsets.py net.graph.json

The file is written below; a compiler writes its own (`lowtide research schema graph` is its JSON Schema).
"""

import json
import sys
from pathlib import Path

import lowtide

path = Path(sys.argv[1])
sizes = {"image": 4096, "wide": 32768, "a": 8192, "b": 8192, "sum": 8192, "scores": 40}
kinds = {"image": "input", "scores": "output"}
ids = {name: number for number, name in enumerate(sizes)}
ops = [
    ("widen", ["image"], "wide"),
    ("left", ["wide"], "a"),
    ("right", ["wide"], "b"),
    ("add", ["a", "b"], "sum"),
    ("score", ["sum"], "scores"),
]
graph = {
    "name": "net",
    "tensors": [{"id": ids[n], "size": s, "kind": kinds.get(n, "activation"), "name": n} for n, s in sizes.items()],
    "ops": [{"id": k, "name": name, "inputs": [ids[r] for r in reads], "outputs": [ids[makes]]}
            for k, (name, reads, makes) in enumerate(ops)],
}  # fmt: skip
graph["ops"][3]["overwrites"] = [ids["a"]]  # its kernel may write where `a` lies
path.write_text(json.dumps(graph, indent=1))

plan = lowtide.research.plan(path, target="generic,alignment=16")
print("order:", " ".join(graph["ops"][op]["name"] for op in plan.order))
for tensor in plan.tensors:
    print(f"{tensor.name:8} at {plan.offset_of(tensor.id):6} for {tensor.size:6} B")
print(f"arena {plan.arena_bytes} B, peak {plan.peak_bytes} B, proved optimal: {plan.optimal}")
lowtide.verify(path, plan)  # raises VerificationError if anything does not hold
