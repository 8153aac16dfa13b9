"""A model and its parts, run side by side in onnxruntime."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from lowtide.graph import Graph
from lowtide.read import read_model
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph
from lowtide.write.onnx_parts import write_onnx_parts

RELATIVE = 1e-5
"""Of the largest number of a result: what another kernel, or sums in another order, may make of it."""


def session(path: Path) -> ort.InferenceSession:
    """A session that runs a file as it stands, on one thread."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds(path: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """Random numbers for every input; whole ones are small, a free dimension has size 1."""
    rng = np.random.default_rng(seed)
    result = {}
    for value in session(path).get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in value.shape]
        name = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
        numbers = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
        result[value.name] = np.asarray(numbers).astype(dtype)
    return result


def exactness(cutter: Cutter, parts: PartGraph) -> str:
    """What the cuts do to the numbers, the worst of them: bits, kernel or sum."""
    worst = ["bits"]
    for region in parts.regions:
        for cut in region.cuts:
            known = cutter.meaning(cut.op)
            assert known is not None
            worst.append(known.access.exactness(cut.axis))
    for cut in parts.elimination.cuts:
        known = cutter.meaning(cut.op)
        assert known is not None
        worst.append("sum" if cut.into else known.access.exactness(cut.axis))
    return max(worst, key=("bits", "kernel", "sum", "never").index)


def difference(source: Path, target: Path, given: dict[str, np.ndarray]) -> float:
    """Largest difference of a result, relative to its largest number; 0: equal to the bit."""
    before, after = (session(path).run(None, given) for path in (source, target))
    worst = 0.0
    for a, b in zip(before, after, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            continue
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        a, b = (np.where(np.isfinite(x), x, 0).astype(np.float64) for x in (a, b))
        worst = max(worst, float(np.abs(a - b).max() / max(1e-30, np.abs(a).max())))
    return worst


def check_file(source: Path, target: Path, graph: Graph) -> None:
    """What was written is ONNX if its source was, and reads back with the part graph's sizes."""
    if _is_valid(source):
        onnx.checker.check_model(str(target))
    again = {t.name: t for t in read_model(target).tensors}
    used = {t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    for t in graph.tensors:
        if t.id in used:
            other = again[t.name]
            assert (other.size, other.shape, other.dtype, other.kind) == (t.size, t.shape, t.dtype, t.kind), t.name


def _is_valid(path: Path) -> bool:
    """Whether ONNX's own checker takes a file; single nodes whose results it does not infer it does not take."""
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError:
        return False
    return True


def differs(source: Path, folder: Path, cutter: Cutter, parts: PartGraph, order: Sequence[int] | None = None) -> str:
    """What is wrong with a model in parts, run beside the whole; empty: nothing."""
    target = folder / "parts.onnx"
    write_onnx_parts(source, parts, parts.graph.own_order if order is None else order, target)
    check_file(source, target, parts.graph)
    exact = exactness(cutter, parts)
    measured = difference(source, target, feeds(source))
    limit = 0.0 if exact == "bits" else RELATIVE
    return "" if measured <= limit else f"{exact}: {measured:.3g}"


def tensors_of(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Every tensor that a node of a model makes, or some of them, in one run."""
    model = onnx.load(str(path))
    made = [name for node in model.graph.node for name in node.output if name]
    shown = [name for name in made if names is None or name in names]
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in shown if name not in known)
    other = path.with_suffix(".all.onnx")
    other.write_bytes(model.SerializeToString())
    return dict(zip(shown, session(other).run(shown, feeds(path)), strict=True))
