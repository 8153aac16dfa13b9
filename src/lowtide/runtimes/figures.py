"""What a runtime takes by its defaults for the file as it stands, and with a plan: the first row of every screen.

A target that is of no runtime has none of its own. For an ONNX file under one of those onnxruntime's stand beside the
plan: what it takes for the plan's order, though another order may suit it better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph, Op
from lowtide.plan import Plan, RuntimeFigure, RuntimeParts, Sure
from lowtide.rules.onnxruntime.known import unknown_kernels
from lowtide.target import TORCH, Target, resolve

RUNTIMES = {"tflm": "TFLM", "tflite": "LiteRT", "onnxruntime": "onnxruntime", TORCH: "PyTorch, eager"}
HEAD, SMALLEST, IN_USE, ARENA = "head", "kTensorArenaSize", "in use", "arena"
_UNSURE = ("Quantize", "QLinear", "Integer", "Attention", "Sequence", "LSTM", "GRU", "RNN")
"""Parts of the names of ONNX ops whose kernels take workspace that is not known, or not on every CPU."""
_FUNCTIONS = frozenset(
    {"Bernoulli", "CastLike", "CenterCropPad", "GroupNormalization", "HardSwish", "Mish", "NegativeLogLikelihoodLoss",
     "SoftmaxCrossEntropyLoss", "Swish"}
)  # fmt: skip
"""ONNX ops without a kernel: onnxruntime takes them apart, and runs what comes of them in an order of its own."""


@dataclass(frozen=True)
class Planned:
    """What a plan takes: op ids in its order, and bytes; `arena_bytes` is TFLM's head, `block_bytes` the runtime's."""

    order: Sequence[int]
    peak_bytes: int
    arena_bytes: int
    block_bytes: int | None
    parts: RuntimeParts | None = None

    @classmethod
    def of(cls, plan: Plan) -> Planned:
        """That of a plan with one arena."""
        return cls(plan.order, plan.peak_bytes, plan.arena_bytes or 0, plan.runtime_arena_bytes, plan.runtime_parts)


def runtime_figures(memory: MemoryModel, planned: Planned, *, quick: bool = False) -> list[RuntimeFigure] | None:
    """Both sides of each figure of a target's runtime.

    Parameters
    ----------
    memory
        The graph under its target.
    quick
        Whether to leave out the arena that another runtime's own planner makes of the plan, which takes a search.

    Returns
    -------
    list of RuntimeFigure
        None if there is nothing to say: the graph came from no file of the runtime's.
    """
    graph, target = memory.graph, memory.target
    rule = target.rule or target.name
    if rule == "tflm":
        return _tflm(graph, target, planned)
    if rule == "onnxruntime":
        return _onnxruntime(memory, planned.peak_bytes, planned.block_bytes)
    if rule == "tflite":
        return _litert(memory, planned)
    if target.allocates_one_by_one:
        return _eager(memory, planned)
    return None if graph.dialect != "onnx" else _beside(graph, planned, quick=quick)


def _tflm(graph: Graph, target: Target, planned: Planned) -> list[RuntimeFigure] | None:
    from lowtide.runtimes.registry import runtime_of

    try:
        stands = runtime_of(target).as_it_stands(graph)
    except InputError:  # TFLM refuses the offline plan that the file holds
        return None
    if stands is None or planned.block_bytes is None or planned.parts is None:
        return None
    sure = _sure(stands.parts, planned.parts)
    head = "at least" if stands.parts.unknown or planned.parts.unknown else "exact"
    return [
        _figure("tflm", SMALLEST, stands.required_bytes, planned.block_bytes, sure),
        _figure("tflm", HEAD, stands.planned_bytes, planned.arena_bytes, head),
    ]


def _sure(*parts: RuntimeParts) -> Sure:
    if any(p.unknown for p in parts):
        return "at least"
    return "exact" if all(p.exact for p in parts) else "at most"


def _onnxruntime(memory: MemoryModel, in_use: int, block: int | None) -> list[RuntimeFigure]:
    from lowtide.runtimes.onnxruntime_defaults import defaults

    taken = defaults(memory)
    sure = _of_kernels(memory.graph)
    return [
        _figure("onnxruntime", IN_USE, taken.in_use_bytes, in_use, sure),
        _figure("onnxruntime", ARENA, taken.arena_bytes, block, sure),
    ]


def _of_kernels(graph: Graph) -> Sure:
    """Whether it is known of every kernel what it takes from the arena, by the defaults too."""
    wide = any(t.dtype in ("float16", "bfloat16", "float64") for t in graph.tensors)
    strange = wide or any(_strange(op) for op in graph.ops)
    return "at least" if strange or unknown_kernels(graph) else "exact"


def _strange(op: Op) -> bool:
    apart = bool(op.bodies) or "::" in op.type or op.type in _FUNCTIONS
    return apart or any(part in op.type for part in _UNSURE)


def _beside(graph: Graph, planned: Planned, *, quick: bool) -> list[RuntimeFigure]:
    """onnxruntime's figures for a plan that was made under rules of no runtime."""
    from lowtide.analyse.liveness import profile
    from lowtide.runtimes.onnxruntime import least_block

    target = resolve("onnxruntime")
    seen = target.as_seen(graph)
    memory = memory_model(seen, target)
    order = [seen.index_of[op] for op in target.as_run(seen, in_the_file(seen, planned.order))]
    steps = profile(memory, order)
    return _onnxruntime(memory, steps.peak, None if quick else least_block(memory, order, steps))


def in_the_file(seen: Graph, order: Sequence[int]) -> list[int]:
    """Op ids in the order in which a written file has them: those that a plan leaves out keep their places.

    >>> from lowtide.graph import Graph, Op
    >>> in_the_file(Graph("g", (), tuple(Op(i, (), ()) for i in range(4))), [3, 1])
    [0, 3, 2, 1]
    """
    place: Mapping[int, int] = dict(zip(sorted(order), order, strict=True))
    return [place.get(op.id, op.id) for op in sorted(seen.ops, key=lambda op: op.id)]


def _litert(memory: MemoryModel, planned: Planned) -> list[RuntimeFigure]:
    from lowtide.runtimes.litert import litert_arena

    own = litert_arena(memory, range(len(memory.graph.ops))).bytes
    return [_figure("tflite", ARENA, own, planned.block_bytes)]


def _eager(memory: MemoryModel, planned: Planned) -> list[RuntimeFigure]:
    from lowtide.analyse.liveness import profile

    own = profile(memory, range(len(memory.graph.ops))).peak
    return [_figure(TORCH, IN_USE, own, planned.peak_bytes)]


def _figure(runtime: str, what: str, default: int, planned: int | None, sure: Sure = "exact") -> RuntimeFigure:
    return RuntimeFigure(runtime=RUNTIMES[runtime], what=what, default_bytes=default, planned_bytes=planned, sure=sure)
