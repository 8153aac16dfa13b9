"""Storages against the checker's own account of what shares memory."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from lowtide.analyse.storage import effective_aliases, memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import BUILT_IN, Target
from lowtide.verify.check.memory import work_out
from support.random_graphs import random_graph

GENERIC = BUILT_IN["generic"]
TARGETS = [
    *(BUILT_IN[name] for name in ("strict", "hmcos", "generic", "torch")),
    replace(GENERIC, name="always", constants="always"),
    replace(GENERIC, name="while used", constants="while_used"),
    replace(GENERIC, name="kept", keep_inputs=True),
    replace(GENERIC, name="persistent", persistent=("t1", "t4"), double_buffered=("t2",)),
]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_planner_and_checker_agree(target: Target):
    """On which tensors share, how many bytes they take, who touches them, and what lives at either end."""
    rng = Random(11)
    for _ in range(80):
        graph = random_graph(rng, rng.randint(1, 9))
        model, memory = memory_model(graph, target), work_out(graph, target)
        ours = sorted(
            (sorted(s.tensors), s.size, sorted(graph.ops[i].id for i in s.users), s.at_start, s.at_end)
            for s in model.storages
        )
        theirs = sorted((sorted(b.tensors), b.size, sorted(b.users), b.at_start, b.at_end) for b in memory.storages)
        assert ours == theirs
        assert list(model.workspace) == [memory.workspace[op.id] for op in graph.ops]


def test_displacements_and_touched_are_the_other_way_round():
    """A tensor lies inside its storage; an op's storages are those that it touches."""
    rng = Random(12)
    for _ in range(60):
        graph = random_graph(rng, 8)
        model = memory_model(graph, GENERIC)
        for tensor, s in model.storage_of.items():
            size = graph.tensor_by_id[tensor].size
            assert 0 <= model.displacement[tensor] <= model.storages[s].size - size
        for i, touched in enumerate(model.touched):
            assert list(touched) == [s for s, storage in enumerate(model.storages) if i in storage.users]


def _chain(*kinds: str, **more: object) -> Graph:
    """x of 8 bytes, then ops of these kinds one after the other, the last one's result an output."""
    tensors = [Tensor(0, 8, Kind.INPUT, "t0", (8,))]
    tensors += [Tensor(i, 8, name=f"t{i}", shape=(8,)) for i in range(1, len(kinds) + 1)]
    tensors[-1] = replace(tensors[-1], kind=Kind.OUTPUT)
    return Graph("chain", tuple(tensors), tuple(Op(i, (i,), (i + 1,), type=k, **more) for i, k in enumerate(kinds)))


def test_views_of_views_are_one_storage():
    """And the graph's own aliases go before the target's."""
    graph = _chain("Reshape", "Flatten", "Conv")
    model = memory_model(graph, GENERIC)
    assert [s.tensors for s in model.storages] == [(0, 1, 2), (3,)]
    assert effective_aliases(graph, GENERIC) == {1: (0, 0), 2: (1, 0)}
    assert len(memory_model(graph, BUILT_IN["strict"]).storages) == 4


def test_a_view_that_would_close_a_circle_copies():
    """An input that is declared to lie inside the view's own output stays the root."""
    graph = _chain("Reshape")
    tensors = (replace(graph.tensors[0], alias_of=1), graph.tensors[1])
    assert effective_aliases(replace(graph, tensors=tensors), GENERIC) == {0: (1, 0)}


def test_graph_inputs_are_overwritten_only_if_the_target_says_so():
    """The first op's input is a graph input, the second's is not."""
    graph = _chain("Relu", "Relu")
    assert [len(row) for row in memory_model(graph, GENERIC).overwrites] == [0, 1]
    assert [len(row) for row in memory_model(graph, replace(GENERIC, overwrite_inputs=True)).overwrites] == [1, 1]
    assert [len(row) for row in memory_model(graph, BUILT_IN["strict"]).overwrites] == [0, 0]


def test_room_for_two_is_aligned():
    """A double-buffered tensor takes its aligned size and its own once more, from beginning to end."""
    target = replace(GENERIC, double_buffered=("t1",))
    (held,) = (s for s in memory_model(_chain("Conv", "Conv"), target).storages if 1 in s.tensors)
    assert (held.size, held.at_start, held.at_end) == (64 + 8, True, True)
