"""The head that TFLM makes of a plan under each library of kernels, from the plan's offsets, for the checker alone.

A file's offline plan gives every tensor its offset; TFLM adds the scratch buffers of each operator itself, for the time
that it runs: the largest first, of equal ones the last one requested, each in the lowest gap that is large enough. The
head ends where the last byte does.
"""

from __future__ import annotations

from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.rules.tflm.libraries import LIBRARIES, Library
from lowtide.rules.tflm.rule import ALIGNMENT, TflmRule
from lowtide.sizes import round_up
from lowtide.target import Target

Span = tuple[int, int, int, int]  # offset, end, first step and last step of a tensor, all inclusive but the end


def tflm_heads(graph: Graph, plan: Plan, target: Target) -> dict[str, int] | None:
    """Bytes of the head by library: of all, or of the one that the target names.

    None where TFLM places tensors too: a file of several subgraphs, of cut operators, or with tensors that nothing
    touches.
    """
    spans = _spans(graph, plan)
    if spans is None:
        return None
    names: tuple[Library, ...] = LIBRARIES if target.kernels == "any" else (target.kernels,)
    end = max((span[1] for span in spans), default=0)
    heads = dict.fromkeys(names, end)
    for step, v in enumerate(plan.order):
        live = sorted(span[:2] for span in spans if span[2] <= step <= span[3])
        for name in names:
            scratch = TflmRule(name, target.simd, target.pointer // 8).scratch(graph, graph.op_by_id[v])
            heads[name] = max(heads[name], _placed(live, scratch))
    return {str(name): head for name, head in heads.items()}


def _spans(graph: Graph, plan: Plan) -> list[Span] | None:
    """Where and when each tensor is allocated; None where not all of them have an offset."""
    subgraphs = getattr(getattr(graph.file, "model", None), "subgraphs", ())  # a .tflite file's, as it was read
    if len(subgraphs) != 1 or plan.rewrites or plan.offsets is None:
        return None
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, v in enumerate(plan.order):
        op = graph.op_by_id[v]
        for t in (*op.inputs, *op.outputs):
            first.setdefault(t, step)
            last[t] = step
    made = {t for op in graph.ops for t in op.outputs}
    spans: list[Span] = []
    for t in graph.tensors:
        if t.kind is Kind.CONSTANT or not t.size:
            continue
        at = plan.offsets.get(str(t.id))
        if at is None:
            return None
        begin = first.get(t.id, 0) if t.id in made else 0
        end = len(plan.order) if t.kind is Kind.OUTPUT else last.get(t.id, 0)
        spans.append((at, at + round_up(t.size, ALIGNMENT), begin, end))
    return spans


def _placed(live: list[tuple[int, int]], scratch: tuple[int, ...]) -> int:
    """Where scratch buffers end that are placed in the gaps between live tensors."""
    taken, most = list(live), 0
    for size in sorted((round_up(size, ALIGNMENT) for size in reversed(scratch)), reverse=True):
        at = 0
        for low, high in sorted(taken):
            if low - at >= size:
                break
            at = max(at, high)
        taken.append((at, at + size))
        most = max(most, at + size)
    return most
