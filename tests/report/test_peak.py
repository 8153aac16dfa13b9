"""The peak as a sum, and what would lower it, by definition: everything is computed again on the changed lives."""

from __future__ import annotations

from random import Random

import pytest

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.report.peak import module_path, modules, peak_groups, what_ifs
from lowtide.report.view import PlanView
from support.random_graphs import random_graph


def _chain(*sizes: int, kinds: tuple[Kind, ...] = (), dtype: str | None = None) -> Graph:
    kinds = kinds or (Kind.INPUT, *[Kind.ACTIVATION] * (len(sizes) - 2), Kind.OUTPUT)
    tensors = tuple(Tensor(i, s, k, f"t{i}", (s,), dtype) for i, (s, k) in enumerate(zip(sizes, kinds, strict=True)))
    return Graph(
        "chain", tensors, tuple(Op(i, (i,), (i + 1,), f"net/part{i // 2}/op{i}") for i in range(len(sizes) - 1))
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "generic"])
def test_groups_add_up_to_the_peak(target: str):
    """With what is shared taken off once."""
    rng = Random(9)
    for _ in range(40):
        view = PlanView.of(lowtide.research.plan(random_graph(rng, rng.randint(1, 9)), target=target, time=5))
        groups = peak_groups(view, most=rng.randint(1, 6))
        shared = view.shared_bytes[view.peak_step]
        assert sum(g.bytes for g in groups) == view.peak_bytes + shared
        assert sum(g.count for g in groups) == len(view.at(view.peak_step))
        assert [g.bytes for g in groups if g.name != "others"] == sorted(
            (g.bytes for g in groups if g.name != "others"), reverse=True
        )


@pytest.mark.slow
def test_paths_are_divided_where_the_bytes_are():
    """The largest group first, as long as there is room for more."""
    view = PlanView.of(lowtide.research.plan("zoo:nasnet_a_cifar"))
    assert {g.name for g in peak_groups(view)} == {"cell6", "cell7", "cell8"}
    assert len(peak_groups(view, most=2)) == 2


def test_no_more_groups_than_asked_for():
    """The rest goes by one name."""
    tensors = [Tensor(i, 1 if i < 9 else 4, Kind.INPUT if i < 9 else Kind.ACTIVATION) for i in range(19)]
    ops = [Op(i, (i,), (i + 9,), f"block{i}/op") for i in range(9)]
    graph = Graph("wide", (*tensors, Tensor(19, 4, Kind.OUTPUT)), (*ops, Op(9, tuple(range(9, 18)), (19,), "all/sum")))
    view = PlanView.of(lowtide.research.plan(graph, target="strict"))
    assert [g.name for g in peak_groups(view, most=3)][-1] == "others"
    assert len(peak_groups(view, most=3)) == 3


def test_the_age_of_a_group_is_that_of_its_oldest():
    """Steps since then, by definition: over groups of one tensor, and over all of them as one."""
    rng, seen = Random(5), set[int]()
    for _ in range(40):
        view = PlanView.of(lowtide.research.plan(random_graph(rng, rng.randint(1, 9)), target="strict", time=5))
        ages = {view.rectangles[i].name: view.peak_step - view.rectangles[i].start for i in view.at(view.peak_step)}
        assert [g.age for g in peak_groups(view, most=1)] == [max(ages.values())]
        groups = peak_groups(view)
        assert max(g.age for g in groups) == max(ages.values())
        assert all(g.age in ages.values() for g in groups)
        seen |= {g.age for g in groups}
    assert len(seen) > 3


def test_what_is_made_at_the_peak_is_of_age_nothing():
    """And its operand is a step older; the input that the target keeps is as old as the run."""
    view = PlanView.of(lowtide.research.plan(_chain(100, 10, 200, 300, 1), target="strict,keep_inputs=true"))
    ages = {g.name: g.age for g in peak_groups(view)}
    assert view.peak_step == 2
    assert ages == {"graph inputs": 2, "net/part0": 1, "net/part1": 0}


def test_module_paths():
    """Of inputs, of named ops, of ops that have no path."""
    view = PlanView.of(lowtide.research.plan("zoo:nasnet_a_cifar:n=1"))
    paths = {(r.kind, module_path(view, r)[0]) for r in view.rectangles}
    assert {("input", "graph inputs"), ("activation", "cell1"), ("activation", "head")} <= paths
    flat = PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a"))
    assert {module_path(flat, r) for r in flat.rectangles} == {("graph inputs",), ("Conv",), ("Concat",)}


def test_every_rectangle_has_a_module():
    """At most eight, the last one being the others."""
    names, index = modules(PlanView.of(lowtide.research.plan("zoo:nasnet_a_cifar")))
    assert len(names) == 8
    assert names[-1] == "others"
    assert set(index) == set(range(8))


def _peak(view: PlanView, index: int, size: int, life: tuple[int, int] | None = None) -> int:
    """Peak of the same order with one rectangle changed, nothing of it shared: sums, step by step."""
    most = 0
    for step in range(view.steps):
        live = 0
        for i, r in enumerate(view.rectangles):
            start, end = life if i == index and life else (r.start, r.end)
            if start <= step < end:
                live += size if i == index else r.size
        most = max(most, live)
    return most


def test_what_would_help_is_computed():
    """Where nothing is shared it is exactly the peak of the changed lives."""
    rng, seen = Random(2), 0
    for _ in range(40):
        view = PlanView.of(lowtide.research.plan(random_graph(rng, rng.randint(2, 9)), target="strict", time=5))
        for i in view.at(view.peak_step):
            for idea in what_ifs(view, i):
                assert idea.peak_bytes < view.peak_bytes
                if idea.change == "removed":
                    assert idea.peak_bytes == _peak(view, i, 0)
                    seen += 1
    assert seen > 20


def test_a_kept_input_could_be_freed():
    """The target keeps inputs; freed after its last use it would not stand at the peak."""
    target = lowtide.research.target("strict,keep_inputs=true")
    view = PlanView.of(lowtide.research.plan(_chain(100, 10, 200, 1), target=target))
    at = next(i for i, r in enumerate(view.rectangles) if r.kind == "input")
    freed = what_ifs(view, at)[0]
    assert freed.change == "freed after its last use, at step 0"
    assert freed.peak_bytes == _peak(view, at, 100, (0, 1)) == 210
    assert view.peak_bytes == 310


def test_an_output_made_early_could_be_handed_over():
    """It waits for the end."""
    tensors = (Tensor(0, 1, Kind.INPUT), Tensor(1, 50, Kind.OUTPUT), Tensor(2, 90), Tensor(3, 1, Kind.OUTPUT))
    graph = Graph("early", tensors, (Op(0, (0,), (1,)), Op(1, (0,), (2,), after=(0,)), Op(2, (2,), (3,))))
    view = PlanView.of(lowtide.research.plan(graph, target="strict"))
    at = next(i for i, r in enumerate(view.rectangles) if r.size == 50)
    assert what_ifs(view, at)[0].change == "returned after its last use, at step 0"


def test_narrower_elements_are_a_quarter():
    """Bytes of float32 as int8; what is shared is then counted apart, which may be too much and never too little."""
    graph = _chain(4, 400, 400, 4, dtype="float32")
    view = PlanView.of(lowtide.research.plan(graph, target="strict"))
    at = view.at(view.peak_step)[0]
    narrow = what_ifs(view, at)[0]
    assert narrow.change == "in int8 instead of float32, without the conversion"
    assert narrow.peak_bytes == _peak(view, at, 100) == 500
