"""Published methods of running ops again: small answers known by hand, and what holds of all of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.registry import make_recompute, recompute_methods
from lowtide.optimize.recompute.sequence import Sequenced, least_possible, peak_of
from lowtide.stop import Limits
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.recompute import footprints_of_runs
from lowtide_research.recompute.checkmate import Checkmate
from lowtide_research.recompute.chen import Chen, segmented
from lowtide_research.recompute.dropping import droppable, turn_of, with_dropped
from lowtide_research.recompute.dtr import Dtr
from lowtide_research.recompute.fastsa import FastSA
from lowtide_research.recompute.moccasin import moccasin
from lowtide_research.recompute.torchtitan import Torchtitan
from support.chains import step_of_a_chain
from support.sequences import STRICT, costly_graph, least_cost, own

QUICK = (Chen(), Torchtitan(), Dtr(), FastSA(steps=3000))


def late_reader() -> Sequenced:
    """a - b - c - d, and d reads a too: within 9 bytes a runs twice, within 8 there is no way."""
    tensors = (Tensor(0, 4), Tensor(1, 3), Tensor(2, 4), Tensor(3, 1, Kind.OUTPUT))
    ops = (
        Op(0, (), (0,), cost=5), Op(1, (0,), (1,), cost=1), Op(2, (1,), (2,), cost=1), Op(3, (2, 0), (3,), cost=1),
    )  # fmt: skip
    return own(Graph("late", tensors, ops))


@pytest.mark.parametrize("method", [Dtr(), Torchtitan(), FastSA(steps=2000), Checkmate()], ids=lambda m: m.name)
def test_a_chain_is_made_again_for_its_late_reader(method: Any):
    """The one way there is within 9 bytes; none within 8; nothing runs again within 11."""
    if isinstance(method, Checkmate):
        pytest.importorskip("ortools", reason="needs the extra solvers")
    problem = late_reader()
    assert method.supports(problem) is None
    assert method.repeat(problem, range(4), 9, Limits(20)).order == (0, 1, 2, 0, 3)
    assert method.repeat(problem, range(4), 11, Limits(20)).order == (0, 1, 2, 3)
    none = method.repeat(problem, range(4), 8, Limits(20))
    assert none.order == ()
    assert none.ended in ("infeasible", "complete")


def test_the_square_root_of_a_chain():
    """Nine ops in three segments of three: of each segment two values are made again, and its last one is kept."""
    problem = step_of_a_chain(9)
    order = range(18)
    assert (max(problem.core().footprints(order)), turn_of(problem, order)) == (10, 9)
    assert droppable(problem, order, 9) == [*range(8)]
    sequence = segmented(problem, order, 9, 3)
    assert sequence == [*range(10), 6, 7, 10, 11, 12, 3, 4, 13, 14, 15, 0, 1, 16, 17]
    assert peak_of(problem, sequence) < 10
    best = Chen().repeat(problem, order, peak_of(problem, sequence), Limits(5))
    assert sum(problem.costs.units[i] for i in best.order) <= len(sequence)
    assert Chen(segments=3).repeat(problem, order, peak_of(problem, sequence), Limits(5)).order == tuple(sequence)


def test_values_that_are_dropped_come_back_with_what_they_need():
    """Dropping all of the way there makes it run again op by op."""
    problem = step_of_a_chain(4)
    assert turn_of(problem, range(8)) == 4
    assert with_dropped(problem, range(8), 4, {0, 1, 2}, {}) == [0, 1, 2, 3, 4, 0, 1, 2, 5, 6, 7]
    assert with_dropped(problem, range(8), 4, {1, 2}, {}) == [0, 1, 2, 3, 4, 1, 2, 5, 6, 7]


@pytest.mark.slow
@pytest.mark.parametrize("method", QUICK, ids=lambda m: m.name)
def test_sequences_fit_and_cost_no_less_than_the_least(method: Any):
    """Of random graphs, as verify's own walk has it; each finds something for at least a few."""
    rng, met = Random(6), 0
    for _ in range(60):
        graph = costly_graph(rng, rng.randint(3, 6))
        problem, count = own(graph), len(graph.ops)
        single, peak = least_possible(problem)[0], max(own(graph).core().footprints(range(count)))
        budget = rng.randint(single, max(single, peak))
        result = method.repeat(problem, range(count), budget, Limits(5))
        if not result.order:
            assert result.ended == "complete"
            continue
        ids = [graph.ops[i].id for i in result.order]
        assert set(ids) == {op.id for op in graph.ops}
        assert max(footprints_of_runs(graph, work_out(graph, STRICT), ids)) <= budget
        least = least_cost(problem, budget)
        assert least is not None
        assert sum(problem.costs.units[i] for i in result.order) >= least
        met += result.order != tuple(range(count))
    assert met >= (1 if isinstance(method, Chen | Torchtitan) else 5)


@pytest.mark.slow
def test_checkmates_optimum_is_moccasins():
    """Where no op has two results and nothing is there from the start; five runs of six ops are enough."""
    pytest.importorskip("ortools", reason="needs the extra solvers")
    rng, met = Random(8), 0
    for _ in range(12):
        graph = _single_results(rng, 6)
        problem = own(graph)
        peak = max(problem.core().footprints(range(6)))
        budget = max(least_possible(problem)[0], peak - rng.randint(1, 4))
        ours, theirs = Checkmate().repeat(problem, range(6), budget, Limits(20)), moccasin(
            problem, range(6), budget, Limits(20), runs=5
        )  # fmt: skip
        assert (ours.ended == "infeasible") == (theirs.proved and not theirs.order)
        if ours.order:
            met += 1
            assert ours.ended == "optimal"
            assert peak_of(problem, ours.order) <= budget
            assert sum(problem.costs.units[i] for i in ours.order) == theirs.cost == ours.bound_units
    assert met >= 4


def _single_results(rng: Random, count: int) -> Graph:
    tensors = tuple(
        Tensor(i, rng.randint(1, 6), Kind.OUTPUT if i == count - 1 else Kind.ACTIVATION) for i in range(count)
    )
    ops = [Op(0, (), (0,), cost=rng.randint(1, 5))]
    for i in range(1, count):
        inputs = tuple(sorted({i - 1, rng.randrange(i)}))
        ops.append(Op(i, inputs, (i,), cost=rng.randint(1, 5)))
    return Graph("single", tensors, tuple(ops))


def test_annealing_is_seeded_and_ends_in_time():
    """The same steps give the same sequence; a moment is not exceeded."""
    problem = own(costly_graph(Random(3), 40))
    budget = max(least_possible(problem)[0], max(problem.core().footprints(range(40))) * 4 // 5)
    first, second = (FastSA(steps=5000).repeat(problem, range(40), budget, Limits(60, seed=2)) for _ in range(2))
    assert first == second
    assert FastSA(steps=10**9).repeat(problem, range(40), budget, Limits(0.05)).ended == "time"


def test_options_are_checked_and_sizes_refused():
    """By name."""
    for method, options, text in (
        ("chen", {"segments": "-1"}, "segments"), ("dtr", {"most_runs": "0"}, "most_runs"),
        ("fastsa", {"steps": "0"}, "steps"), ("checkmate", {"most_ops": "0"}, "most_ops"), ("rotr", {}, "rotor"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=text):
            make_recompute(method, options)
    assert Checkmate().supports(own(costly_graph(Random(1), 61))) == "more than 60 ops"
    assert Dtr(most_runs=1).repeat(late_reader(), range(4), 9, Limits(5)).order == ()
    assert " ".join(recompute_methods()) == "rotor pofo microbatch checkmate chen dtr fastsa magis moccasin torchtitan"
