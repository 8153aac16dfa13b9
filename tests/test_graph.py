"""The graph type: what it refuses, each with its own line, and what it derives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowtide.errors import InputError
from lowtide.graph import MAX_BYTES, Graph, Kind, Op, Tensor

X, Y, Z = Tensor(0, 8, Kind.INPUT, "x"), Tensor(1, 8, name="y"), Tensor(2, 8, Kind.OUTPUT, "z")
F, G = Op(0, (0,), (1,), "f", "Relu"), Op(1, (1,), (2,), "g", "Relu")
GOOD = Graph("good", (X, Y, Z), (F, G))


def _with_tensor(tensor: Tensor) -> tuple[tuple[Tensor, ...], tuple[Op, ...]]:
    return tuple(tensor if t.id == tensor.id else t for t in (X, Y, Z)), (F, G)


@pytest.mark.parametrize(
    ("tensors", "ops", "words"),
    [
        ((X, Y, Z, Y), (F, G), "tensor id 1 is used twice"),
        (*_with_tensor(replace(Y, size=-1)), "y has size -1"),
        (*_with_tensor(replace(Y, alias_of=0, alias_offset=-4)), "y has alias_offset -4"),
        (*_with_tensor(replace(Y, alias_of=9)), "alias of tensor 9, which does not exist"),
        (*_with_tensor(replace(Y, alias_of=1)), "y is an alias of itself"),
        ((X, replace(Y, alias_of=2), replace(Z, alias_of=1)), (F, G), "is an alias of itself; break the alias cycle"),
        (*_with_tensor(replace(Y, size=MAX_BYTES)), "more than 2^62"),
        ((X, Y, Z), (F, replace(G, id=0)), "op id 0 is used twice"),
        ((X, Y, Z), (F, replace(G, workspace=-1)), "has workspace -1"),
        ((X, Y, Z), (F, replace(G, inputs=(7,))), "names tensor 7, which does not exist"),
        ((X, Y, Z), (F, replace(G, outputs=(1,))), "y is made by op 0 'f' (Relu) and by op 1 'g' (Relu)"),
        ((X, Y, Z), (F, replace(G, after=(5,))), "must run after op 5, which does not exist"),
        ((replace(X, kind=Kind.ACTIVATION), Y, Z), (F, G), "reads x, which no op makes"),
        (*_with_tensor(replace(Y, kind=Kind.INPUT)), "y is input but made by"),
        (*_with_tensor(replace(Y, kind=Kind.CONSTANT)), "y is constant but made by"),
        ((X, Y, Z), (G, F), "comes before op 0 'f' (Relu), which it needs; sort the ops"),
        ((X, Y, Z), (replace(F, after=(1,)), G), "the graph has a cycle: "),
        ((X, Y, Z), (replace(F, inputs=(2,)), G), "the graph has a cycle: "),
    ],
)  # fmt: skip
def test_what_is_no_graph_is_refused(tensors: tuple[Tensor, ...], ops: tuple[Op, ...], words: str):
    """One line, with the graph's name before and the remedy behind."""
    with pytest.raises(InputError) as error:
        Graph("mine", tensors, ops)
    assert str(error.value).startswith("mine: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_what_follows_from_a_graph():
    """Producers, consumers, predecessors, positions; `after` counts as a predecessor."""
    graph = Graph("g", (X, Y, Z), (F, replace(G, id=5, inputs=(1, 1)), Op(3, (0,), (), after=(5,))))
    assert graph.producer == {1: 0, 2: 5}
    assert graph.consumers == {0: (0, 3), 1: (5,)}
    assert graph.predecessors == ((), (0,), (1,))
    assert graph.index_of == {0: 0, 5: 1, 3: 2}
    assert graph.own_order == (0, 5, 3)
    assert (graph.op_by_id[5].label, graph.op_by_id[3].label) == ("op 5 'g' (Relu)", "op 3")
    assert (X.label, Tensor(9, 0).label) == ("x", "tensor 9")


def test_equal_graphs_are_equal_whatever_was_derived():
    """Cached properties are no part of it."""
    other = Graph("good", (X, Y, Z), (F, G))
    assert other.predecessors == GOOD.predecessors
    assert other == GOOD
