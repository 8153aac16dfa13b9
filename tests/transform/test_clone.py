"""An op runs again: what may, what the graph is then, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.kinds import kind_of
from lowtide.transform.clone import Clone, apply, as_rewrite, why_not
from support.random_graphs import random_graph


def diamond() -> Graph:
    """x -> s, t; early reads s; late reads s twice, left-out operands between; "over" makes z, in memory of its own."""
    tensors = (
        Tensor(0, 1, Kind.INPUT, "x"), Tensor(1, 4, Kind.ACTIVATION, "s"), Tensor(2, 3, Kind.ACTIVATION, "t"),
        Tensor(3, 6, Kind.ACTIVATION, "a"), Tensor(4, 1, Kind.ACTIVATION, "z"), Tensor(5, 1, Kind.OUTPUT, "d"),
    )  # fmt: skip
    ops = (
        Op(0, (0,), (1, 2), "make"), Op(1, (1,), (3,), "early"), Op(2, (3, 0), (4,), "over"),
        Op(3, (1, 4, 1), (5,), "late", operands=(1, None, 4, 1)),
    )  # fmt: skip
    return Graph("diamond", tensors, ops, sha256="2" * 64, dialect="onnx")


LATE = Clone(0, 1, (3,))


def test_only_the_readers_named_read_from_the_clone() -> None:
    """At every position; the clone stands behind the op, with outputs of its own; what is new says where it is from."""
    graph = diamond()
    change = apply(graph, LATE)
    assert [op.id for op in change.graph.ops] == [0, 4, 1, 2, 3]
    early, late = change.graph.op_by_id[1], change.graph.op_by_id[3]
    assert early == graph.op_by_id[1]
    assert (late.inputs, late.operands) == ((6, 4, 6), (6, None, 4, 6))
    second = change.graph.op_by_id[4]
    assert second == replace(graph.op_by_id[0], id=4, name="op 0 'make' (again)", outputs=(6, 7))
    assert (change.ops, change.tensors) == ({4: 0}, {6: 1, 7: 2})
    assert [(t.size, t.kind, t.name) for t in change.graph.tensors[-2:]] == [
        (4, Kind.ACTIVATION, "s (again)"), (3, Kind.ACTIVATION, "t (again)")
    ]  # fmt: skip
    assert (change.graph.sha256, change.graph.dialect) == (graph.sha256, "onnx")


def test_a_plan_says_it_in_ids() -> None:
    """The op run again, what is replaced, for whom, and the clone's own ids."""
    rewrite = as_rewrite(apply(diamond(), LATE))
    assert (rewrite.op, rewrite.of, rewrite.replaced, rewrite.outputs, rewrite.readers) == (4, 0, 1, [6, 7], [3])


@pytest.mark.parametrize(
    ("clone", "reason"),
    [
        (Clone(9, 1, (3,)), "op 9 is not there"),
        (Clone(1, 1, (3,)), "does not make tensor 1"),
        (Clone(0, 1, ()), "each reader"),
        (Clone(0, 1, (3, 3)), "each reader"),
        (Clone(0, 1, (2,)), "op 2 does not read tensor 1"),
        (Clone(0, 1, (0,)), "op 0 does not read tensor 1"),
    ],
)
def test_what_is_not_there_has_a_reason(clone: Clone, reason: str) -> None:
    """An op, a tensor, a reader."""
    assert why_not(diamond(), LATE) is None
    assert reason in (why_not(diamond(), clone) or "")


def test_what_would_give_something_else_has_a_reason() -> None:
    """A random op; one that writes into another tensor's memory; one whose input another op writes over."""
    graph = diamond()
    random = replace(graph.ops[0], attributes={"random": 1})
    assert "something else" in (why_not(replace(graph, ops=(random, *graph.ops[1:])), LATE) or "")
    for written, over, words in ((1, 0, "'make' writes into"), (4, 0, "'over' writes over what op 0 'make' reads")):
        tensors = tuple(replace(t, alias_of=over) if t.id == written else t for t in graph.tensors)
        assert words in (why_not(replace(graph, tensors=tensors), LATE) or "")


def test_a_view_of_an_input_does_no_harm() -> None:
    """It lies in the same memory, and writes nothing there."""
    graph = diamond()
    tensors = tuple(replace(t, alias_of=0) if t.id == 4 else t for t in graph.tensors)
    view = replace(graph.ops[2], type="Reshape")
    assert why_not(replace(graph, tensors=tensors, ops=(*graph.ops[:2], view, graph.ops[3])), LATE) is None


@pytest.mark.slow
def test_every_clone_computes_what_the_op_did() -> None:
    """On random graphs in which no op reads what was written over, none does either if clones run as late as they can;
    and every tensor holds what it held, a clone's what the op's did."""
    rng = Random(7)
    cloned = refused = 0
    for _ in range(600):
        graph = random_graph(rng, rng.randint(3, 9), aliases=0.3)
        before = contents(graph, range(len(graph.ops)), {})
        for clone in every_clone(graph) if before is not None else ():
            if why_not(graph, clone) is not None:
                refused += 1
                continue
            change = apply(graph, clone)
            after = contents(change.graph, order_with_late_clones(change.graph, set(change.ops)), change.ops)
            assert before is not None
            assert after is not None
            assert all(after[t] == before[change.tensors.get(t, t)] for t in after)
            cloned += 1
    assert cloned > 300
    assert refused > 50


def every_clone(graph: Graph) -> list[Clone]:
    """Of each op and output, for the last reader alone."""
    return [
        Clone(op.id, t, graph.consumers[t][-1:])
        for op in graph.ops
        for t in op.outputs
        if t in graph.consumers and op.type != "Constant"
    ]


def order_with_late_clones(graph: Graph, clones: set[int]) -> list[int]:
    """Positions: file order, but that a clone runs as late as it can."""
    waiting = {i for i, op in enumerate(graph.ops) if op.id in clones}
    order: list[int] = []
    for i in range(len(graph.ops)):
        if i in waiting:
            continue
        order += [p for p in graph.predecessors[i] if p in waiting and p not in order]
        order.append(i)
    return order


def contents(graph: Graph, order: Sequence[int], origin: Mapping[int, int]) -> dict[int, int] | None:
    """What each tensor holds when it is made: a number for the op, or its origin, and all that it read. None if an op
    reads what was written over. Every op writes its outputs into their memory, but a view, which holds that."""
    root = {t.id: t for t in graph.tensors}
    for t in graph.tensors:
        while (above := root[t.id].alias_of) is not None:
            root[t.id] = graph.tensor_by_id[above]
    memory = {t.id: hash((-1, t.id)) for t in graph.tensors}
    held = {t.id: memory[root[t.id].id] for t in graph.tensors}
    for i in order:
        op = graph.ops[i]
        if any(memory[root[t].id] != held[t] for t in op.inputs):
            return None
        read = tuple(held[t] for t in op.inputs)
        row = kind_of(op.type)
        for k, t in enumerate(op.outputs):
            if row is None or not row.view:
                memory[root[t].id] = hash((origin.get(op.id, op.id), k, read))
            elif root[t].id == t:
                memory[t] = read[0]
            held[t] = memory[root[t].id]
    return {t: held[t] for op in graph.ops for t in op.outputs}
