"""What the ops of a model mean, and the proof: every map probed in the runtime that the model is for.

And the cuts of a plan, each kind of tiled node run untiled and tiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.models import load
from lowtide.arguments import typed
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Op
from lowtide.plan import Plan
from lowtide.sizes import NO_DIMS, Dims

if TYPE_CHECKING:
    from lowtide.ops.meaning import Meaning
    from lowtide.run.probe import Runner
    from lowtide.run.probing import NodeProbe, Probing
    from lowtide.transform.cut import Cut, Cutter

MOST_MACS = 2 * 10**8  # nodes with more multiplications than this even on smaller operands are not run, and said so
BUDGET = 10**6  # elements and multiplications above which a node is probed on smaller operands


@typed
def probe(
    model: str | Path | Graph,
    *,
    dims: Dims = NO_DIMS,
    seed: int = 0,
    most_macs: int = MOST_MACS,
    report: Callable[[str], None] | None = None,
) -> Probing:
    """Say what the ops of a model mean, and prove each map in the runtime of the model's format.

    Parameters
    ----------
    model
        A file, ``zoo:NAME``, or a graph. Weights are not needed: random numbers of their shapes are drawn.
    dims
        Sizes of free dimensions, by name or as ``"INPUT:AXIS"``.
    seed
        Of the numbers drawn and the parts chosen.
    most_macs
        Nodes with more multiplications, even on smaller operands, are skipped.
    report
        Reports of each node before it is run.

    Raises
    ------
    InputError
        The model cannot be read, or is in no dialect that has a meaning and a runtime.
    MissingExtraError
        The runtime is not installed.
    """
    from lowtide.ops.meaning import meaning
    from lowtide.run.probe_nodes import runner_of
    from lowtide.run.probing import OpaqueNode, summed

    graph = load(model, dims)
    runner = runner_of(graph.dialect)
    if runner is None:
        raise InputError(
            f"ops of {graph.dialect or 'no known format'} have no meaning that could be probed; "
            "give an ONNX or a TFLite model",
            graph.source or graph.name,
        )
    meanings = [(op, meaning(graph, op)) for op in graph.ops]
    opaque = tuple(
        OpaqueNode(op.id, op.name, op.type, (m and m.opaque) or "") for op, m in meanings if m is None or m.opaque
    )
    probes = []
    for alike, m in _alike(graph, [(op, m) for op, m in meanings if m is not None and not m.opaque]):
        if report is not None:
            report(alike[0].label)
        probes.append(_probed(graph, alike, m, runner, seed, most_macs))
    return summed(graph, tuple(probes), opaque)


def _alike(graph: Graph, meanings: list[tuple[Op, Meaning]]) -> Iterator[tuple[list[Op], Meaning]]:
    """Ops that mean the same, put together: type, attributes, shapes and element types, values of literals."""
    classes: dict[str, tuple[list[Op], Meaning]] = {}
    for op, m in meanings:
        key = repr((op.type, sorted(op.attributes.items()), m.form, _signature(graph, op)))
        classes.setdefault(key, ([], m))[0].append(op)
    yield from classes.values()


def _signature(graph: Graph, op: Op) -> list[object]:
    tensors = graph.tensor_by_id
    ends = [*(op.operands or op.inputs), *op.outputs]
    return [None if t is None else (tensors[t].shape, tensors[t].dtype) for t in ends]


def _probed(graph: Graph, alike: list[Op], m: Meaning, runner: Runner, seed: int, most_macs: int) -> NodeProbe:
    from lowtide.run.probe import RefusedError
    from lowtide.run.probe_nodes import probe_node
    from lowtide.run.probing import NodeProbe

    merged = m.access.merged if m.access.reduce else ""
    first = alike[0]
    base = NodeProbe(first.id, first.name, first.type, len(alike), m.family, m.access.exact, merged)
    if m.random:
        return replace(base, skipped="it draws random numbers")
    try:
        findings, smaller = probe_node(graph, first, m, runner, seed, BUDGET, most_macs)
    except RefusedError as reason:
        return replace(base, skipped=str(reason))
    return replace(base, smaller=smaller, **{**vars(findings), "wrong": tuple(findings.wrong)})


def probe_cuts(graph: Graph, plan: Plan) -> str:
    """Run a node of every kind that a plan tiles, untiled and tiled, and say what was seen; empty: nothing is cut,
    or nothing runs single ops of the format. Of nodes of one type, with the same attributes, cut along the same
    axis, the smallest is run; on smaller operands if it is large. Raises `VerificationError`: ``"cut_nodes"``: a
    node gives something else in parts."""
    from lowtide.run.probe import RefusedError
    from lowtide.run.probe_cuts import probe_cut
    from lowtide.run.probe_nodes import runner_of

    kinds = _kinds_of_cuts(graph, plan)
    runner = runner_of(graph.dialect) if kinds else None
    if runner is None:
        return ""
    refused = []
    for cutter, cut in kinds:
        op = cutter.graph.op_by_id[cut.op]
        try:
            wrong = probe_cut(cutter, cut, runner, plan.seed, BUDGET)
        except RefusedError as reason:
            refused.append(f"{op.type}: {reason}")
            continue
        if wrong:
            raise VerificationError("cut_nodes", f"{op.label} ({op.type}) tiled along axis {cut.axis}: {wrong}")
    ran = f"{len(kinds) - len(refused)} of {len(kinds)} kinds of nodes give the same results in tiles as untiled"
    return "; not run: ".join([ran, *([", ".join(dict.fromkeys(refused))] if refused else [])])


def _kinds_of_cuts(graph: Graph, plan: Plan) -> list[tuple[Cutter, Cut]]:
    """Of every kind of cut the one of the smallest op; what a concat does is not run where it is eliminated."""
    from lowtide.api.moves.decisions import all_cuts
    from lowtide.rewrites import in_parts

    kinds: dict[tuple[object, ...], tuple[int, Cutter, Cut]] = {}
    for cutter, cut in all_cuts(plan, graph) if in_parts(plan.rewrites) else ():
        op = cutter.graph.op_by_id[cut.op]
        if cutter.spelling(cut.op, cut.axis) is None:
            continue
        key = (op.type, repr(sorted(op.attributes.items())), cut.axis)
        size = sum(cutter.graph.tensor_by_id[t].size for t in (*op.inputs, *op.outputs))
        if key not in kinds or size < kinds[key][0]:
            kinds[key] = (size, cutter, cut)
    return [(cutter, cut) for _, cutter, cut in kinds.values()]
