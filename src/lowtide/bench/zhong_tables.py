"""Zhong et al.'s tables on any graph: Figure 9 (ops), Table IV (ablation), Table V (partition), Table VI (parts).

Each function returns rows, plain dataclasses; none prints. Seconds are wall time with the solver's library loaded.
The paper counts a convolution with its normalisation and activation as one op: `one_op_per_convolution` gives that
graph. It is a graph of its own, to measure on; its orders are not of the user's ops.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lowtide.analyse.storage import MemoryModel
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.table import kind_of
from lowtide.schedule.zhong.fusion import Fusion, fuse
from lowtide.schedule.zhong.method import Zhong
from lowtide.schedule.zhong.problem import problem_of
from lowtide.schedule.zhong.program import count_variables
from lowtide.stop import Limits


@dataclass(frozen=True)
class Cell:
    """One setting on one graph. Bytes are of Algorithm 2's own order; `seconds` is everything.

    `variables` and `constraints` are those of the programs that were built, `parts_solved` of `parts`. `status` is
    ``"optimal"`` or why a solver stopped, `gap` what it then left open, as a fraction.
    """

    setting: str
    ops: int
    parts: int
    parts_solved: int
    variables: int
    constraints: int
    peak_bytes: int
    seconds: float
    solver_seconds: float
    status: str
    gap: float


def measure(setting: str, model: MemoryModel, method: Zhong, seconds: float, seed: int = 0) -> Cell:
    """Run one setting within a number of seconds."""
    run = method.run(model, Limits(seconds, seed=seed))
    told = run.schedule.counters
    return Cell(
        setting,
        told["ops_after"],
        told["parts"],
        told["parts_solved"],
        told["variables"],
        told["constraints"],
        run.algorithm_peak_bytes,
        run.seconds,
        run.solver_seconds,
        told["ilp_status"],
        told["ilp_gap"],
    )


def figure_9(model: MemoryModel, bound: int = 20, seconds: float = 60.0) -> dict[str, int]:
    """Ops before and after fusion, by each theorem alone and by both."""
    whole = problem_of(model)
    kinds: tuple[Fusion, ...] = ("none", "monotonic", "general", "both")
    return {kind: fuse(whole, Limits(seconds), fusion=kind, bound=bound).n for kind in kinds}


def settings_4(model: MemoryModel, method: Zhong, seconds: float = 60.0) -> dict[str, Zhong]:
    """Origin, partition, with fusion, with pruning, with both. The parts are as many as after fusion in every row."""
    fused = fuse(problem_of(model), Limits(seconds), bound=method.bound)
    parts = method.parts or -(-fused.n // method.part_nodes)
    base = replace(method, parts=parts)
    return {
        "origin": replace(base, fusion="none", pruning=False, partition="none"),
        "partition": replace(base, fusion="none", pruning=False),
        "partition+fusion": replace(base, fusion="both", pruning=False),
        "partition+pruning": replace(base, fusion="none", pruning=True),
        "all": replace(base, fusion="both", pruning=True),
    }


def table_4(model: MemoryModel, method: Zhong, seconds: float, seed: int = 0) -> list[Cell]:
    """What each of fusion, pruning and partition does; see `settings_4`."""
    return [measure(name, model, s, seconds, seed) for name, s in settings_4(model, method, seconds).items()]


def table_5(model: MemoryModel, method: Zhong, seconds: float, seed: int = 0) -> list[Cell]:
    """Naive partition against the memory-aware one."""
    rows = {"naive": replace(method, partition="naive"), "heuristic": replace(method, partition="heuristic")}
    return [measure(name, model, setting, seconds, seed) for name, setting in rows.items()]


def table_6(
    model: MemoryModel, method: Zhong, seconds: float, seed: int = 0, parts: Iterable[int] = range(1, 7)
) -> list[Cell]:
    """From one part to six."""
    return [measure(str(k), model, replace(method, parts=k), seconds, seed) for k in parts]


def whole_program_variables(model: MemoryModel, *, pruning: bool, fusion: Fusion = "none") -> int:
    """Variables of the program of the whole graph, in the paper's formulation, without building it."""
    return count_variables(fuse(problem_of(model), Limits(), fusion=fusion), pruning=pruning)


CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def one_op_per_convolution(graph: Graph, *, after: frozenset[str] | None = CONVOLUTIONS) -> Graph:
    """Make one op of a convolution and the normalisation and activation behind it, where nobody else reads between.

    Parameters
    ----------
    after
        Types whose ops take in what follows; None is all (so that Add and Relu become one as well).
    """
    producer, consumers, tensors = graph.producer, graph.consumers, graph.tensor_by_id
    head: dict[int, int] = {}
    made: dict[int, Op] = {op.id: op for op in graph.ops}
    gone: set[int] = set()
    for op in graph.ops:
        read = [t for t in dict.fromkeys(op.inputs) if tensors[t].kind is not Kind.CONSTANT]
        row = kind_of(op.type)
        plain = row is not None and (row.elementwise or row.family == "batch_normalisation")
        if not plain or len(read) != 1 or len(op.outputs) != 1 or op.after or read[0] not in producer:
            continue
        tensor, maker = tensors[read[0]], producer[read[0]]
        first = head.get(maker, maker)
        if tensor.kind is Kind.OUTPUT or consumers[tensor.id] != (op.id,) or len(made[first].outputs) != 1:
            continue
        if after is not None and made[first].type not in after:
            continue
        extra = tuple(t for t in op.inputs if t not in read)
        made[first] = replace(made[first], inputs=(*made[first].inputs, *extra), outputs=op.outputs)
        head[op.id] = first
        gone.add(op.id)
    ops = tuple(made[op.id] for op in graph.ops if op.id not in gone)
    return _without_loose_tensors(graph, ops)


def without_padding(graph: Graph, types: frozenset[str] = frozenset({"Pad", "Slice"})) -> Graph:
    """Let the readers of a Pad or Slice read its input: a kernel that pads and crops by itself.

    With Conv, BatchNormalization and Relu of single use as one op, this makes timm's NASNet-A Mobile (224x224) the
    graph of Table II: its own order needs 4405 KiB, the optimum 3943 KiB.
    """
    through: dict[int, int] = {}
    ops = []
    for op in graph.ops:
        read = tuple(through.get(t, t) for t in op.inputs)
        kept = len(op.outputs) != 1 or graph.tensor_by_id[op.outputs[0]].kind is Kind.OUTPUT
        if op.type in types and not kept:
            through[op.outputs[0]] = read[0]
        else:
            ops.append(replace(op, inputs=read))
    return _without_loose_tensors(graph, tuple(ops))


def _without_loose_tensors(graph: Graph, ops: tuple[Op, ...]) -> Graph:
    """The graph of some ops, with the tensors that they, the inputs, outputs and constants need."""
    used = {t for op in (*ops, *graph.folded) for t in (*op.inputs, *op.outputs)}
    ends = (Kind.INPUT, Kind.OUTPUT, Kind.CONSTANT)
    kept = {t.id for t in graph.tensors if t.id in used or t.kind in ends}
    tensors = tuple(
        t if t.alias_of is None or t.alias_of in kept else replace(t, alias_of=None, alias_offset=0)
        for t in graph.tensors
        if t.id in kept
    )
    return Graph(graph.name, tensors, ops, graph.folded)
