"""What onnxruntime has in use and holds: by its defaults for the unmodified file, and with a plan."""

from __future__ import annotations

from lowtide.analyse.storage import MemoryModel
from lowtide.graph import Graph, Op
from lowtide.plan import RuntimeFigure, Sure
from lowtide.rules.onnxruntime.known import unknown_kernels
from lowtide.runtimes.onnxruntime_defaults import defaults

_UNSURE = ("Quantize", "QLinear", "Integer", "Attention", "Sequence", "LSTM", "GRU", "RNN")
"""Parts of the names of ONNX ops whose kernels take workspace that is not known, or not on every CPU."""
_FUNCTIONS = frozenset(
    {"Bernoulli", "CastLike", "CenterCropPad", "GroupNormalization", "HardSwish", "Mish", "NegativeLogLikelihoodLoss",
     "SoftmaxCrossEntropyLoss", "Swish"}
)  # fmt: skip
"""ONNX ops without a kernel: onnxruntime takes them apart, and runs what comes of them in an order of its own."""


def figures(model: MemoryModel, in_use_bytes: int, block_bytes: int | None) -> list[RuntimeFigure]:
    """Bytes in use at once and of the arena, by the defaults and with a plan; `block_bytes`: None if not known."""
    taken = defaults(model)
    pairs = ("in use", taken.in_use_bytes, in_use_bytes), ("arena", taken.arena_bytes, block_bytes)
    sure = _of_kernels(model.graph)
    return [
        RuntimeFigure(runtime="onnxruntime", what=what, default_bytes=today, planned_bytes=planned, sure=sure)
        for what, today, planned in pairs
    ]


def _of_kernels(graph: Graph) -> Sure:
    """Whether it is known of every kernel what it takes from the arena, by the defaults too."""
    wide = any(t.dtype in ("float16", "bfloat16", "float64") for t in graph.tensors)
    strange = wide or any(_strange(op) for op in graph.ops)
    return "at least" if strange or unknown_kernels(graph) else "exact"


def _strange(op: Op) -> bool:
    apart = bool(op.bodies) or "::" in op.type or op.type in _FUNCTIONS
    return apart or any(part in op.type for part in _UNSURE)
