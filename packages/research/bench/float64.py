"""Which of two results is nearer to the exact one: a model and its plans in onnxruntime, beside float64.

    python bench/float64.py MODEL.onnx PLAN.json... -o results/float64

The model's own ops are run in float64 by torch, on inputs drawn anew; the model, and what each plan makes of it, in
onnxruntime. Beside that, what one norm alone comes to: InstanceNormalization of four channels together, as
onnxruntime's kernel computes it and as sums over rows (`lowtide.transform.statistics`), beside numpy in float64.
Images of 512 x 512 pixels take minutes and several GB.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from below import table
from lowtide.plan import from_json
from lowtide.read import read_model
from lowtide.transform.passed import as_passed
from lowtide.transform.statistics import expand, statistics
from lowtide.write.onnx_parts import write_onnx_parts
from lowtide_research.bench.machine import machine

torch: Any = import_module("torch") if find_spec("torch") else None
functional: Any = import_module("torch.nn.functional") if torch else None

SIDES, MEANS = (64, 128, 256, 512), (0.0, 10.0)
"""Of the norm's image, in pixels, and of its numbers, in deviations."""
GROUPS, EACH = 4, 4

Run = Callable[[Any, dict[str, Any]], Any]
"""From operands and attributes to the result."""


def _conv(x: Any, a: dict[str, Any]) -> Any:
    top, left, bottom, right = a.get("pads", [0] * 4)
    image = functional.pad(x[0], (left, right, top, bottom))
    strides, dilations = a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    return functional.conv2d(image, x[1], x[2] if len(x) > 2 else None, strides, 0, dilations, a.get("group", 1))


def _reshape(x: Any, a: dict[str, Any]) -> Any:
    wanted = [x[0].shape[d] if size == 0 else size for d, size in enumerate(x[1].tolist())]
    return x[0].reshape(wanted)


def _resize(x: Any, a: dict[str, Any]) -> Any:
    assert a.get("mode", b"nearest") == b"nearest", a
    times = (
        [float(s) for s in x[2]]
        if x[2] is not None and len(x[2])
        else [n / s for n, s in zip(x[3], x[0].shape, strict=True)]
    )
    return x[0].repeat_interleave(int(times[2]), 2).repeat_interleave(int(times[3]), 3)


def _product(x: Any, a: dict[str, Any]) -> Any:
    one = x[0].transpose(-1, -2) if a.get("transA") else x[0]
    other = x[1].transpose(-1, -2) if a.get("transB") else x[1]
    product = a.get("alpha", 1.0) * (one @ other)
    return product + a.get("beta", 1.0) * x[2] if len(x) > 2 else product


RUNS: dict[str, Run] = {
    "Add": lambda x, a: x[0] + x[1],
    "Conv": _conv,
    "FusedMatMul": _product,
    "Gemm": _product,
    "InstanceNormalization": lambda x, a: functional.instance_norm(
        x[0], weight=x[1], bias=x[2], eps=a.get("epsilon", 1e-5)
    ),
    "MatMul": _product,
    "Mul": lambda x, a: x[0] * x[1],
    "QuickGelu": lambda x, a: x[0] * torch.sigmoid(a.get("alpha", 1.702) * x[0]),
    "Reshape": _reshape,
    "Resize": _resize,
    "Sigmoid": lambda x, a: torch.sigmoid(x[0]),
    "Softmax": lambda x, a: torch.softmax(x[0], a.get("axis", -1)),
    "Transpose": lambda x, a: x[0].permute(a["perm"]),
}
"""What ops mean, of those that the autoencoder's decoder has."""


def exact(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model in float64."""
    graph = onnx.load(path).graph

    def given(array: np.ndarray) -> Any:
        tensor = torch.from_numpy(np.array(array))
        return tensor.double() if tensor.is_floating_point() else tensor

    there = {w.name: given(numpy_helper.to_array(w)) for w in graph.initializer}
    there |= {name: given(array) for name, array in feeds.items()}
    outputs = [o.name for o in graph.output]
    last = {name: k for k, node in enumerate(graph.node) for name in node.input}
    for k, node in enumerate(graph.node):
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        there[node.output[0]] = RUNS[node.op_type]([there.get(name) for name in node.input], attributes)
        for name in {name for name in node.input if last[name] == k and name not in outputs}:
            there.pop(name, None)
    return [there[name].numpy() for name in outputs]


def run(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model in onnxruntime, its nodes as they stand."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def apart(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> dict[str, float]:
    """Largest difference, and the root of the mean of their squares, of the largest magnitude of the second."""
    largest = max(float(np.abs(b).max()) for b in others)
    errors = [(a.astype(np.float64) - b) / largest for a, b in zip(some, others, strict=True)]
    squares = [float((e**2).mean()) for e in errors]
    return {"most": max(float(np.abs(e).max()) for e in errors), "rms": max(squares) ** 0.5}


def norm_row(side: int, mean: float, folder: Path) -> dict[str, Any]:
    """One norm as the runtime's kernel and as sums."""
    shape, rows = (1, GROUPS * EACH, side, side), (1, GROUPS, -1)
    weights = [
        numpy_helper.from_array(np.array(value, kind), name)
        for name, value, kind in (
            ("rows", rows, np.int64), ("image", shape, np.int64),
            ("scale", np.ones(GROUPS), np.float32), ("shift", np.zeros(GROUPS), np.float32),
        )
    ]  # fmt: skip
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["r"], name="group"),
        helper.make_node("InstanceNormalization", ["r", "scale", "shift"], ["n"], name="norm", epsilon=1e-6),
        helper.make_node("Reshape", ["n", "image"], ["y"], name="ungroup"),
    ]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name in "xy"]
    graph = helper.make_graph(nodes, "norm", ends[0], ends[1], weights)
    source, sums = folder / "norm.onnx", folder / "sums.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), source)
    read = read_model(source)
    expanded = expand(read, statistics(read))
    parts = as_passed(expanded, expanded.graph.own_order, lambda *_: []).parts
    write_onnx_parts(source, parts, parts.graph.own_order, sums)
    x = (np.random.default_rng(side).standard_normal(shape) + mean).astype(np.float32)
    grouped = x.astype(np.float64).reshape(rows)
    even = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-6)
    wanted = [even.reshape(shape)]
    kernel, added = (apart(run(path, {"x": x}), wanted) for path in (source, sums))
    return {"side": side, "mean": mean, "kernel": kernel, "sums": added}


def model_rows(model: Path, plans: Sequence[Path], folder: Path) -> list[dict[str, Any]]:
    """A model and its plans, each beside float64, and the plans beside the model."""
    rng = np.random.default_rng(0)
    feeds = {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in onnx.load(model, load_external_data=False).graph.input
    }
    wanted, own = exact(model, feeds), run(model, feeds)
    rows = [{"model": model.stem, "file": "as it is", **apart(own, wanted)}]
    for path in plans:
        planned = path
        if path.suffix == ".json":
            planned = folder / f"{path.stem}.onnx"
            from_json(path.read_bytes()).apply(model, planned)
        result = run(planned, feeds)
        beside = apart(result, own)["most"]
        rows.append({"model": model.stem, "file": path.stem, **apart(result, wanted), "beside": beside})
    return rows


def page(document: dict[str, Any]) -> list[str]:
    """The tables as Markdown."""
    how = ("kernel", "sums")
    one = ("image", "mean", "kernel: most", "root mean square", "sums: most", "root mean square")
    norms = [
        (f"{r['side']} x {r['side']}", f"{r['mean']:g}", *(f"{r[k][w]:.1e}" for k in how for w in ("most", "rms")))
        for r in document["norms"]
    ]
    cells = [
        (r["model"], r["file"], f"{r['most']:.1e}", f"{r['rms']:.1e}", f"{r['beside']:.1e}" if "beside" in r else "")
        for r in document["rows"]
    ]
    version = document["machine"]
    return [
        "# Beside float64",
        "",
        f"{version['cpu']}, lowtide {version['commit']}, onnxruntime {onnxruntime.__version__}; `bench/float64.py`.",
        "",
        "How far results in float32 are from the same network in float64, of the largest magnitude.",
        "",
        f"One norm of groups of {EACH} channels: onnxruntime's InstanceNormalization, and sums over rows. *mean*: of",
        "the numbers, in deviations.",
        "",
        *table(one, norms),
        "",
        *(["*beside*: the plan's result from the model's own in onnxruntime.", ""] if cells else []),
        *(table(("model", "file", "most", "root mean square", "beside"), cells) if cells else []),
    ]


def main() -> int:
    """Run norms, and models if any are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?", help="an ONNX model of the decoder's ops")
    parser.add_argument("plans", type=Path, nargs="*", help="its plans (.json), or the files that they write (.onnx)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    if torch is None:
        parser.error("torch is not installed; pip install 'lowtide[torch]'")
    with tempfile.TemporaryDirectory(prefix="lowtide-float64-") as name:
        folder = Path(name)
        norms = [norm_row(side, mean, folder) for side in SIDES for mean in MEANS]
        rows = [] if arguments.model is None else model_rows(arguments.model, arguments.plans, folder)
    document = {"machine": asdict(machine()), "norms": norms, "rows": rows}
    arguments.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text("\n".join(page(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
