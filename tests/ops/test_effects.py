"""Ops that write over bytes keep their turn, against a brute force over all orders."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.effects import in_order_of_writes
from support.writing_graphs import CACHE, cache, drawn, reads


def after(graph: Graph) -> dict[int, tuple[int, ...]]:
    """What each op has to come after, beside what tensors say."""
    return {op.id: op.after for op in in_order_of_writes(graph).ops if op.after}


def test_a_reader_of_the_old_value_stays_before_the_write() -> None:
    """If the op says that it writes, and if it does not say; a view keeps nobody waiting."""
    assert after(cache((1,))) == {1: (0,)}
    assert after(cache(None)) == {1: (0,)}
    free = cache(())
    assert in_order_of_writes(free) is free
    ordered = in_order_of_writes(cache((1,)))
    assert in_order_of_writes(ordered) is ordered


def test_bytes_that_are_not_shared_keep_nobody_waiting() -> None:
    """Two halves of a state, each updated and read by itself."""
    tensors = (
        Tensor(0, 64, Kind.INPUT), Tensor(1, 32, alias_of=0), Tensor(2, 32, alias_of=0, alias_offset=32),
        Tensor(3, 32, alias_of=1), Tensor(4, 32, Kind.OUTPUT, alias_of=2), Tensor(5, 8, Kind.OUTPUT),
        Tensor(6, 8, Kind.OUTPUT),
    )  # fmt: skip
    ops = (
        Op(0, (0,), (1, 2)), Op(1, (1,), (3,), writes=(1,)), Op(2, (2,), (5,)), Op(3, (2,), (4,), writes=(2,)),
        Op(4, (3,), (6,)),
    )  # fmt: skip
    assert after(Graph("halves", tensors, ops)) == {1: (0,), 3: (0, 2)}


def test_what_reads_an_overwritten_value_is_refused() -> None:
    """Behind the write there is only the new value; and an output that is lost is none."""
    graph = cache((1,))
    late = (graph.ops[1], graph.ops[0], *graph.ops[2:])
    with pytest.raises(
        InputError, match=r"op 0 'peek' reads kv after op 1 'append' has written over it; put it before"
    ):
        in_order_of_writes(Graph("late", CACHE, late))
    lost = tuple(Tensor(1, 64, Kind.OUTPUT, "kv") if t.id == 1 else t for t in CACHE)
    with pytest.raises(InputError, match="kv is an output, and op 1 'append' writes over it"):
        in_order_of_writes(cache((1,), lost))


@pytest.mark.parametrize(
    ("writes", "kind", "words"),
    [
        ((3,), Kind.INPUT, "op 1 'append' writes over tensor 3, which it does not read; name an input"),
        ((1,), Kind.CONSTANT, "op 1 'append' writes over kv, which is constant; make it an input"),
    ],
)
def test_what_cannot_be_written_is_refused(writes: tuple[int, ...], kind: Kind, words: str) -> None:
    """A name that is no input; memory that is constant."""
    tensors = tuple(Tensor(1, 64, kind, "kv") if t.id == 1 else t for t in CACHE)
    with pytest.raises(InputError, match=words):
        cache(writes, tensors)


def test_every_order_that_is_left_reads_what_the_file_reads() -> None:
    """All orders of drawn programs: none that is allowed reads other bytes."""
    changed = 0
    for seed in range(400):
        graph = drawn(Random(seed))
        try:
            ordered = in_order_of_writes(graph)
        except InputError:
            continue
        expected = reads(graph, graph.own_order)
        changed += ordered is not graph
        own = ordered.own_order
        before = [(own[p], v) for v, earlier in zip(own, ordered.predecessors, strict=True) for p in earlier]
        for order in permutations(graph.own_order):
            at = {v: k for k, v in enumerate(order)}
            if all(at[a] < at[b] for a, b in before):
                assert reads(graph, order) == expected, (seed, order)
    assert changed > 100
