"""Branches of an IF as ops of the graph that has it, each of which runs only where the condition is as it asks.

The plan is for the IF as one op. Tensors inside of its branches have a place of their own after the plan's arena:
first fit in the order in which they are made, two branches over each other, and a reshaped tensor where its operand is.
What a branch makes goes to where the plan has the IF's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op
from lowtide.read.tflite.model import TfliteFile
from lowtide.read.tflite.reader import graph_of

ALIGNMENT = 16
VIEWS = frozenset(("RESHAPE", "EXPAND_DIMS", "SQUEEZE"))


@dataclass(frozen=True)
class Branch:
    """Ops of a branch, and for each result of the IF the tensor that it is; `holds`: whether the condition has to."""

    ops: tuple[Op, ...]
    results: tuple[int, ...]
    holds: bool


def with_bodies(graph: Graph) -> tuple[Graph, dict[int, tuple[Branch, Branch]]]:
    """A graph with the tensors inside of its branches, and the branches of each IF. Raises `InputError`: a branch has
    an IF or variables of its own."""
    file = graph.file
    assert isinstance(file, TfliteFile), file
    main = file.model.subgraphs[0]
    if all(op.type != "IF" for op in graph.ops):
        return graph, {}
    tensors, listed = list(graph.tensors), list(main.tensors)
    ids, branches = max(op.id for op in graph.ops) + 1, {}
    for op in graph.ops:
        if op.type != "IF":
            continue
        pair = []
        for index, holds in (
            (op.attributes["then_subgraph_index"], True),
            (op.attributes["else_subgraph_index"], False),
        ):
            body = graph_of(file.model, file.dependencies, graph.source, graph.sha256, index)
            inner = file.model.subgraphs[index]
            _check(body, op)
            number = {t: len(listed) + t for t in range(len(inner.tensors))} | dict(
                zip(inner.inputs, op.inputs[1:], strict=True)
            )
            listed += inner.tensors
            own = [t for t in body.tensors if t.id not in inner.inputs]
            tensors += [
                replace(t, id=number[t.id], kind=t.kind if t.kind is Kind.CONSTANT else Kind.ACTIVATION) for t in own
            ]
            ops = tuple(_renumbered(o, number, ids + k) for k, o in enumerate(body.ops))
            ids += len(ops)
            pair.append(Branch(ops, tuple(number[t] for t in inner.outputs), holds))
        branches[op.id] = (pair[0], pair[1])
    model = replace(file.model, subgraphs=(replace(main, tensors=tuple(listed)), *file.model.subgraphs[1:]))
    return replace(graph, tensors=tuple(tensors), file=replace(file, model=model)), branches


def _check(body: Graph, op: Op) -> None:
    for inner in body.ops:
        if inner.type in ("IF", "WHILE", "CALL", "CALL_ONCE") or "VARIABLE" in inner.type:
            raise InputError(f"{op.label}: a branch of it has {inner.type}; C is not written for that", body.source)


def _renumbered(op: Op, number: dict[int, int], own: int) -> Op:
    return replace(
        op,
        id=own,
        inputs=tuple(number[t] for t in op.inputs),
        outputs=tuple(number[t] for t in op.outputs),
        operands=tuple(None if t is None else number[t] for t in op.operands or op.inputs),
        after=(),
    )


def placed(
    graph: Graph, branches: Sequence[Branch], results: Sequence[int], begin: int
) -> tuple[dict[int, int | str], int]:
    """Where tensors of an IF's branches go, and where the bytes that they take end. By tensor its byte from `begin` on,
    or the tensor that it is stored in: the IF's result or a reshaped operand, as text of its number."""
    at: dict[int, int | str] = {}
    end = begin
    for branch in branches:
        made = {t for op in branch.ops for t in op.outputs}
        at |= {own: str(result) for own, result in zip(branch.results, results, strict=True) if own in made}
        root = _roots(branch, at)
        dies = {root[t]: k for k, op in enumerate(branch.ops) for t in (*op.inputs, *op.outputs) if t in root}
        live: list[tuple[int, int, int]] = []
        for k, op in enumerate(branch.ops):
            live = [slot for slot in live if slot[2] >= k]
            for t in op.outputs:
                if t in at or root[t] != t:
                    continue
                size, offset = -(-graph.tensor_by_id[t].size // ALIGNMENT) * ALIGNMENT, begin
                for low, high, _ in sorted(live):
                    if offset + size <= low:
                        break
                    offset = max(offset, high)
                at[t] = offset
                live.append((offset, offset + size, dies[t]))
                end = max(end, offset + size)
        at |= {t: str(r) for t, r in root.items() if t not in at and r != t}
    return at, end


def _roots(branch: Branch, fixed: dict[int, int | str]) -> dict[int, int]:
    """The tensor that each tensor of a branch is stored in."""
    root: dict[int, int] = {}
    for op in branch.ops:
        for t in op.outputs:
            source = op.inputs[0] if op.type in VIEWS else t
            root[t] = t if t in fixed or source == t else root.get(source, source)
    return root
