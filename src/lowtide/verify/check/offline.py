"""Does the offline plan that a .tflite file holds fit its operators in their order? TFLM takes it as it is.

Every two tensors that have an offset, are live at one step and share a byte must have a reason: a reshape whose output
has exactly the bytes of its input, or an output that its kernel writes after what it has yet to read of an input that
dies. What TFLM places itself (offset -1) it places around these. The operands and results of an NPU's operator (Vela's)
are laid out by its own compiler, inside a scratch tensor that is meant to hold others: inputs and outputs of one such
operator may overlap, and the scratch tensor is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.rules.tflm.libraries import KERNEL_WORDS
from lowtide.rules.tflm.rule import ALIGNMENT, NPU
from lowtide.target import Target
from lowtide.verify.report import HeldRule, Report

ONLINE = -1


@dataclass(frozen=True, slots=True)
class _Span:
    """A tensor in the arena: bytes ``[start, end)`` at the steps `first` to `last`, both inclusive."""

    tensor: int
    start: int
    end: int
    first: int
    last: int


def check_offline_plan(graph: Graph, target: Target, listed: Sequence[int], tensors: int) -> Report:
    """Check the offsets of a file, in its own order. `graph`: subgraph 0 of the file. `target`: TFLM's rules.
    `listed`: offsets or -1, for the tensors of all subgraphs, one after another, as the file has them. `tensors`:
    number of tensors of all subgraphs. Raises `VerificationError`: ``offline_plan``: for another number of tensors,
    or an offset below -1; ``alignment``; ``overlap``."""
    if len(listed) != tensors:
        raise VerificationError(
            "offline_plan", f"the plan is for {len(listed)} tensors, and the file has {tensors}: TFLM refuses it"
        )
    spans = _spans(graph, listed)
    by_tensor = {s.tensor: s for s in spans}
    for span in spans:
        if span.start < 0:
            label = graph.tensor_by_id[span.tensor].label
            raise VerificationError("offline_plan", f"{label} has offset {span.start}; use -1 to leave it to TFLM")
        if span.start % ALIGNMENT:
            label = graph.tensor_by_id[span.tensor].label
            raise VerificationError("alignment", f"{label} is at {span.start}, no multiple of {ALIGNMENT}")
    reshaped = _reshaped(graph, target)
    distances = {op.outputs[0]: dict(target.overlap_inputs(graph, op)) for op in graph.ops if len(op.outputs) == 1}
    shared = 0
    alive: list[_Span] = []
    for span in sorted(spans, key=lambda s: (s.first, s.tensor)):
        alive = [other for other in alive if other.last >= span.first]
        for other in alive:
            if span.start < other.end and other.start < span.end:
                _judge(graph, span, other, reshaped, distances)
                shared += 1
        alive.append(span)
    head = max((s.end for s in spans), default=0)
    checks = (
        HeldRule(
            "offline plan", f"{len(by_tensor):,} tensors have offsets, {tensors - len(by_tensor):,} are left to TFLM"
        ),
        HeldRule("alignment", f"multiples of {ALIGNMENT}"),
        HeldRule("overlap", f"{shared:,} pairs alive together share bytes, each after what is read or a reshape"),
        HeldRule("kernels", f"under {KERNEL_WORDS[target.kernels]}"),
    )
    return Report(checks, (), {"offline_end_bytes": head})


def _spans(graph: Graph, listed: Sequence[int]) -> list[_Span]:
    steps = len(graph.ops)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, op in enumerate(graph.ops):
        for t in (*op.outputs, *op.inputs):
            first.setdefault(t, step)
            last[t] = step
    npu = {t for op in graph.ops if op.type == NPU for t in op.inputs}
    producer = graph.producer
    spans = []
    for t in graph.tensors:
        at = listed[t.id]
        if at == ONLINE or not t.size or t.kind is Kind.CONSTANT or (t.id not in first and t.kind is Kind.ACTIVATION):
            continue
        if t.id in npu and t.id not in producer and "scratch" in t.name:
            continue
        begin = first.get(t.id, -1) if t.id in producer else -1
        end = steps if t.kind is Kind.OUTPUT else last.get(t.id, -1)
        spans.append(_Span(t.id, at, at + t.size, begin, end))
    return spans


def _reshaped(graph: Graph, target: Target) -> dict[int, int]:
    """For each output of a reshape, the tensor that its bytes come from first of all."""
    root: dict[int, int] = {}
    for op in graph.ops:
        source = target.view_source(graph, op)
        if source is not None:
            root[op.outputs[0]] = root.get(source, source)
    return root


def _judge(
    graph: Graph, span: _Span, other: _Span, reshaped: dict[int, int], distances: dict[int, dict[int, int]]
) -> None:
    """Raise unless the two have a reason to share bytes; `span` begins no earlier than `other`."""
    a, b = span.tensor, other.tensor
    same = (span.start, span.end) == (other.start, other.end)
    if same and reshaped.get(a, a) == reshaped.get(b, b):
        return
    tensors = graph.tensor_by_id
    if other.last == span.first and b in distances.get(a, {}):
        need = distances[a][b]
        if span.start + need <= other.start:
            return
        op = graph.op_by_id[graph.producer[a]]
        raise VerificationError(
            "overlap",
            f"{op.label} writes {tensors[a].label} at {span.start} over its input {tensors[b].label} at {other.start}, "
            f"which it still reads: the output must begin {need} bytes lower, or elsewhere",
        )
    maker = graph.producer.get(a)
    if maker is not None and graph.op_by_id[maker].type == NPU and b in graph.op_by_id[maker].inputs:
        return
    step = max(span.first, 0)
    where = graph.ops[step].label if step < len(graph.ops) else "the end"
    raise VerificationError(
        "overlap",
        f"at {where}, {tensors[a].label} at {span.start}..{span.end} overlaps {tensors[b].label} "
        f"at {other.start}..{other.end}, which is live",
    )
