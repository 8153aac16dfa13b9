"""Bounds on plans that tile ops are not above any plan that the oracle finds (`tests/support/changed_plans.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from lowtide.optimize.region_bound import RegionBounds
from lowtide.transform.cut import Cutter
from support.changed_claims import TARGETS, Case, Count, cases, run
from support.changed_nets import Net, drawn_net, from_json, to_graph
from support.changed_numbers import outputs
from support.changed_plans import RULES, Oracle
from support.changed_steps import least_peak
from support.changed_swaps import Swaps

ALL_AND_ALONG = {
    "inputs": {"0": [1, 8, 4]},
    "ops": [
        {"kind": "matmul", "reads": [0], "makes": [1], "columns": 24},
        {"kind": "softmax", "reads": [1], "makes": [2], "axis": 2},
        {"kind": "softmax", "reads": [2], "makes": [3], "axis": 2},
        {"kind": "softmax", "reads": [3], "makes": [4], "axis": 1},
        {"kind": "matmul", "reads": [4], "makes": [5], "columns": 1},
        {"kind": "binary", "reads": [1, 3], "makes": [6], "type": "Sub"},
        {"kind": "matmul", "reads": [6], "makes": [7], "columns": 1},
    ],
    "outputs": [5, 7],
}
"""One reader of tensor 3 needs all rows of it, the other goes along with them: 1 is never whole."""


@pytest.mark.slow
def test_one_reader_needs_all_rows_and_one_goes_along() -> None:
    """A bound of 2,304 bytes was false: by rows, with tensor 3 concatenated, 1,568 are enough."""
    net, count = from_json(ALL_AND_ALONG), Count()
    found = Oracle(net, RULES["strict"]).lowest_below(2304, joined=True)
    assert found is not None
    assert found.peak <= 1568
    assert max(found.steps.replay(found.order)) == found.peak
    for target in TARGETS:
        Case(net, target, count).check(plans=True, again=True)
    assert not count.failures, count.failures[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_no_bound_is_above_a_plan_of_the_oracle(seed: int) -> None:
    """Of drawn nets, and of nets in which it pays to run ops again; `make stress` asks it of a hundred thousand."""
    count = run(seed, 0, 80, every=6)
    assert not count.failures, count.failures[0]
    assert count.held["planner: bound over regions"] >= 80
    assert count.seen["plans where the oracle's is below every order"] >= 1
    assert count.seen["nets with costs where running ops again needs less"] >= 5
    assert count.held["again: least cost"] >= 5
    assert count.seen["nets with costs and views that take no bytes"] >= 2
    assert count.held["moved: least time"] >= 2


def test_a_tensor_leaves_memory_and_comes_back() -> None:
    """It is stored while an op runs and waited for when it is back; two bytes a unit of time."""
    ops = [
        {"kind": "matmul", "reads": [0], "makes": [1], "columns": 4},
        {"kind": "matmul", "reads": [1], "makes": [2], "columns": 1},
        {"kind": "matmul", "reads": [2], "makes": [3], "columns": 6},
        {"kind": "matmul", "reads": [3], "makes": [4], "columns": 1},
        {"kind": "binary", "reads": [1, 4], "makes": [5], "type": "Mul"},
    ]
    net = from_json({"inputs": {"0": [1, 1]}, "ops": ops, "outputs": [5]})
    times, most = [10] * 5, 16 + 4 + 16
    assert Swaps(net, times, (2, 2), again=False).least_time(10**6) == 50
    assert Swaps(net, times, (2, 2), again=False).least_time(most) == 58
    assert Swaps(net, times, (2, 2), again=False).least_time(most - 1) is None


BROKEN: dict[str, tuple[str, Callable[..., object]]] = {
    "all readers wait until a tensor is whole": (
        "_waiting",
        lambda bounds, tensor, axis: frozenset(bounds.graph.consumers.get(tensor, ())),
    ),
    "nobody reads tiles": ("_tiled_reads", lambda bounds, op, axis, tensor, reader: frozenset()),
    "nothing is written over": ("in_place", lambda bounds, op, cut=False: False),
    "nothing shares storage": ("_source", lambda bounds, op: None),
}
"""Rules of the planner's bound, each broken so that the bound is too high."""


@pytest.mark.slow
@pytest.mark.parametrize("rule", BROKEN)
def test_a_bound_with_a_broken_rule_is_seen(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among some hundred nets there is one on which the oracle goes below such a bound."""
    method, broken = BROKEN[rule]
    monkeypatch.setattr(RegionBounds, method, broken)
    for net, target in cases(1, 0, 600):
        case = Case(net, target, Count())
        claimed = case.bound(joined=False)
        if case.oracle.plan_below(claimed, joined=False) is not None:
            return
    pytest.fail(f"no net shows that {rule!r} is false")


@pytest.mark.slow
def test_what_the_oracle_finds_computes_what_the_net_computes() -> None:
    """Its plans are run with numbers, step by step, beside the whole ops."""
    seen = Counter[str]()
    for net, target in cases(2, 0, 80):
        oracle = Oracle(net, RULES[target])
        whole = oracle.whole()
        wanted = outputs(net, whole, range(len(whole.steps)))
        found = oracle.plan_below(least_peak(whole), joined=False)
        if found is not None:
            made = outputs(net, found.steps, found.order)
            for t, array in wanted.items():
                assert np.allclose(made[t], array), found.text()
            assert found.tiling is not None
            seen.update(op.kind for op, axis in zip(net.ops, found.tiling.axes, strict=True) if axis is not None)
    assert len(seen) >= 12, seen


def test_ops_are_tiled_as_lowtide_tiles_them() -> None:
    """The oracle knows no axis that lowtide does not: its plans are in the class that bounds speak of."""
    seen = Counter[str]()
    for net, _ in cases(1, 0, 150):
        graph = to_graph(net)
        cutter = Cutter(graph)
        for v, op in enumerate(net.ops):
            own = Counter(axis.made for axis in net.axes(op))
            known = Counter(tuple(cutter.dim(v, t, a) for t in op.makes) for a in cutter.axes(v))
            assert own <= known, (op, [net.shapes[t] for t in op.reads])
            seen[op.kind] += len(net.axes(op))
    assert len(seen) == 16, seen


def test_a_net_is_the_same_after_json() -> None:
    """What a failure prints is the net."""
    for k in range(50):
        net = drawn_net(Random(k))
        assert from_json(net.to_json()) == net


def test_bytes_live_are_counted_from_the_definition() -> None:
    """Strict: what is read and made together; generic: a view costs nothing, an addition writes over what dies."""
    ops = [
        {"kind": "unary", "reads": [0], "makes": [1], "type": "Relu"},
        {"kind": "split_dim", "reads": [1], "makes": [2], "dim": 0, "first": 2},
        {"kind": "unary", "reads": [2], "makes": [3], "type": "Relu"},
        {"kind": "binary", "reads": [3, 3], "makes": [4], "type": "Add"},
    ]
    net = from_json({"inputs": {"0": [4, 8]}, "ops": ops, "outputs": [4]})
    assert Oracle(net, RULES["strict"]).whole().replay(range(4)) == [256] * 4
    generic = Oracle(net, RULES["generic"]).whole()
    assert generic.replay(range(4)) == [256, 128, 128, 128]
    assert least_peak(generic) == 256


def _kinds(net: Net) -> set[str]:
    return {op.kind for op in net.ops}


def test_hard_shapes_are_common() -> None:
    """Several results, reductions, concatenations, views, and products of two tensors are drawn."""
    nets = [drawn_net(Random(k)) for k in range(400)]
    assert sum(len(net.outputs) > 1 for net in nets) > 100
    for kinds in (
        {"concat"},
        {"softmax"},
        {"merge", "split_dim"},
        {"reduce_sum", "reduce_max"},
        {"product"},
        {"split"},
    ):
        assert sum(bool(kinds & _kinds(net)) for net in nets) > 10, kinds
