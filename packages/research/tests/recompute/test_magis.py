"""MAGIS's search: its rules on trees known by hand, its states beside verify's own walk, its plans run in numpy."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import priced
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.optimize.parted import Found
from lowtide.optimize.recompute.registry import make_recompute
from lowtide.optimize.step_search import StepProblem
from lowtide.stop import Limits
from lowtide.transform.fission import Region
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.recompute import footprints_of_runs
from lowtide_research import zoo
from lowtide_research.recompute.magis.method import Magis, rank
from lowtide_research.recompute.magis.rules import mutated
from lowtide_research.recompute.magis.state import OUTSIDE, Evaluated, Evaluator, State
from lowtide_research.recompute.magis.tree import Tree
from support.sequences import STRICT
from support.step_runs import random_feeds, run_plan, run_step
from support.steps import random_attention_step, random_image_step, random_step

ALLOW = "recompute,tile,offload"


def _region(ops: Sequence[int], rows: int) -> Region:
    return Region(tuple((v, 0) for v in ops), rows, (), (), (), ())


def test_regions_nest_and_rules_are_those_of_figure_7() -> None:
    """A root of 12 rows with two halves, one of which has a leaf of 9 rows; numbers of parts divide the rows."""
    tree = Tree.of([_region(range(6), 12), _region((0, 1, 2), 12), _region((3, 4, 5), 12), _region((1, 2), 9)])
    assert tree.parents == (-1, 0, 0, 1)
    assert (tree.leaves(), tree.above(3)) == ([2, 3], [1, 0])

    def made(counts: tuple[int, ...]) -> dict[str, list[tuple[int, ...]]]:
        found: dict[str, list[tuple[int, ...]]] = {}
        for rule, new in tree.mutations(counts, tree.leaves()):
            found.setdefault(rule, []).append(new)
        return found

    assert made((1, 1, 1, 1)) == {"enable": [(1, 1, 2, 1), (1, 1, 1, 3)]}
    assert made((1, 1, 1, 3)) == {
        "enable": [(1, 1, 2, 3)], "disable": [(1, 1, 1, 1)], "mutate": [(1, 1, 1, 9)], "lift": [(1, 2, 1, 1)],
    }  # fmt: skip
    assert made((1, 4, 2, 1))["lift"] == [(2, 1, 1, 1), (2, 1, 1, 1)]
    assert made((12, 1, 1, 1)) == {"disable": [(1, 1, 1, 1)]}


def test_no_rule_enables_regions_that_overlap() -> None:
    """However often rules are applied, of regions drawn at random: plans have no parts within parts."""
    random, nested = Random(4), 0
    for _ in range(30):
        regions = {tuple(sorted(random.sample(range(8), random.randint(2, 8)))) for _ in range(6)}
        tree = Tree.of([_region(ops, 12) for ops in sorted(regions, key=lambda ops: (-len(ops), ops))])
        nested += any(parent >= 0 for parent in tree.parents)
        counts = (1,) * len(regions)
        for _ in range(12):
            counts = random.choice([new for _, new in tree.mutations(counts, range(len(regions)))])
            enabled = [v for k, n in enumerate(counts) if n > 1 for v in tree.ops[k]]
            assert len(enabled) == len(set(enabled))
            assert all(12 % n == 0 for n in counts)
    assert nested > 10


def _problem(graph: Graph, **bound: Any) -> StepProblem:
    families = stand_in("rtx3090.json")[0].families
    step = priced(graph, families)
    return StepProblem(step, STRICT, tuple(range(len(step.ops))), families, None, None, 1.0)


def _walked(graph: Graph, seed: int, steps: int) -> list[Evaluated]:
    """States along a walk by rules drawn at random."""
    problem, random = _problem(graph), Random(seed)
    tree = Tree.built(problem.graph, memory_model(problem.graph, STRICT), problem.order, 4)
    evaluator = Evaluator(problem, tree, 0.05)
    at = evaluator.evaluated(evaluator.begin())
    assert at is not None
    states = [at]
    for _ in range(steps):
        following = [state for _, state in mutated(states[-1], tree, problem.graph, 4, leaves=False)]
        new = evaluator.evaluated(random.choice(following)) if following else None
        states += [] if new is None else [new]
    return states


@pytest.mark.parametrize("seed", range(4))
def test_figures_of_states_are_those_of_a_walk_over_their_graphs(seed: int) -> None:
    """Of untiled states the peak is verify's own of the same runs, and the time the sum of what runs; of tiled ones
    each graph's peak is, and the region stands for its part's."""
    again = parts = 0
    for at in _walked(random_step(seed, batch=4), seed, 12):
        for k, part in at.parts.items():
            graph = part.problem.model.graph
            ids = [graph.ops[i].id for i in part.order]
            peak = max(footprints_of_runs(graph, work_out(graph, STRICT), ids))
            standing = {op.workspace for op in at.choice.sequence.model.graph.ops if op.type == "Parts"}
            assert peak == at.peak if k == OUTSIDE else peak in standing
            again += len(ids) > len(set(ids))
            parts += k != OUTSIDE
        outside = at.parts[OUTSIDE]
        total = sum(outside.problem.model.graph.ops[i].cost or 0.0 for i in outside.order)
        assert at.seconds == pytest.approx(total, rel=1e-6)
    assert again + parts > 0


def test_equal_graphs_have_one_key_whatever_rules_led_there() -> None:
    """Two ops again, one put in before the other or the other way about; another place in the order; parts differ."""
    problem = _problem(random_step(2, batch=4))
    tree = Tree.built(problem.graph, memory_model(problem.graph, STRICT), problem.order, 4)
    evaluator = Evaluator(problem, tree, 0.05)
    begin, producer = evaluator.begin(), problem.graph.producer
    reads = {v: {producer.get(t) for t in problem.graph.op_by_id[v].inputs} for v in begin.runs}
    pairs = [(a, b) for a in begin.runs for b in begin.runs if a < b]
    for bound in (True, False):  # whether the second of two ops reads from the first
        a, b = next((a, b) for a, b in pairs if (a in reads[b]) == bound and b not in reads[a])
        one, other = State(begin.counts, (*begin.runs, a, b)), State(begin.counts, (*begin.runs, b, a))
        keys = [evaluator.key(state) for state in (begin, one, other)]
        assert (keys[1] == keys[2]) == (not bound)
        assert keys[0] not in keys[1:]
    counts = [counts for _, counts in tree.mutations(begin.counts, range(len(tree.ops)))]
    enabled = {evaluator.key(State(n, begin.runs)) for n in counts}
    assert len(enabled) == len(tree.ops)
    assert evaluator.key(begin) not in enabled


@pytest.mark.parametrize("bound", [{"max_overhead": 3.0}, {"budget": "70%"}], ids=["within time", "within bytes"])
@pytest.mark.parametrize("make", [random_step, random_attention_step, random_image_step])
def test_plans_are_verified_and_compute_the_same(
    make: Any, bound: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both modes; and the plan is what the search counted, or lower."""
    search, best = Magis.search_step, list[Found]()

    def recorded(method: Magis, step: StepProblem, limits: Limits) -> Sequence[Found]:
        best[:] = search(method, step, limits)
        return best

    monkeypatch.setattr(Magis, "search_step", recorded)
    graph = make(1)
    plan = lowtide.research.plan(graph, allow=ALLOW, method="magis", time=1.5, **bound)
    lowtide.verify(graph, plan)
    assert plan.method == "magis"
    assert plan.fission is not None
    if best:
        assert any(plan.peak_bytes <= choice.peak(spent) for choice, spent in best)
    feeds = random_feeds(graph)
    whole, planned = run_step(graph, feeds), run_plan(graph, plan, feeds)
    assert whole.keys() == planned.keys()
    for t, value in whole.items():
        np.testing.assert_allclose(planned[t], value, rtol=1e-9, atol=1e-12)


def test_the_better_state_is_that_of_algorithm_3() -> None:
    """Within a bound on bytes by time where both keep it, else by bytes; the other way about within a bound on time."""
    states = [_figures(peak, seconds) for peak, seconds in ((5, 9.0), (8, 2.0), (8, 1.0), (12, 0.5), (11, 0.7))]
    by_bytes = sorted(states, key=lambda at: rank(_bounded(most_bytes=8), at))
    assert [at.peak for at in by_bytes] == [8, 8, 5, 11, 12]
    assert [at.seconds for at in by_bytes] == [1.0, 2.0, 9.0, 0.7, 0.5]
    by_time = sorted(states, key=lambda at: rank(_bounded(most_seconds=1.5), at))
    assert [(at.peak, at.seconds) for at in by_time] == [(8, 1.0), (11, 0.7), (12, 0.5), (8, 2.0), (5, 9.0)]
    assert rank(_bounded(most_bytes=8), states[0], 1.1) == (8, pytest.approx(9.9), 5.5)


def _figures(peak: int, seconds: float) -> Any:
    return type("Figures", (), {"peak": peak, "seconds": seconds})()


def _bounded(most_bytes: int | None = None, most_seconds: float | None = None) -> Any:
    return type("Bound", (), {"most_bytes": most_bytes, "most_seconds": most_seconds})()


@pytest.mark.slow
def test_ctrl_c_ends_with_the_best_state_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its plan holds: a search that went on would take an hour."""
    search = Magis.search_step

    def begun(method: Magis, step: StepProblem, limits: Limits) -> Sequence[Found]:
        threading.Timer(1.0, signal.raise_signal, [signal.SIGINT]).start()
        return search(method, step, limits)

    monkeypatch.setattr(Magis, "search_step", begun)
    graph = zoo.build("magis_bert_base:layers=2,batch=8").graph()
    plan = lowtide.research.plan(graph, allow=ALLOW, method="magis", max_overhead="10%", time=3600)
    lowtide.verify(graph, plan)
    assert plan.stopped == "interrupt"


def test_options_are_the_papers_and_are_checked() -> None:
    """By name; and a call that tiles nothing is refused."""
    assert make_recompute("magis", {"levels": "2", "delta": "1.2"}) == Magis(levels=2, delta=1.2)
    for option, value in (("levels", "0"), ("delta", "0.9"), ("width", "0"), ("reschedule", "0")):
        with pytest.raises(InputError, match=f"magis.{option}"):
            make_recompute("magis", {option: value})
    with pytest.raises(InputError, match="recompute,tile"):
        lowtide.research.plan(random_step(1), allow="recompute,offload", method="magis", budget="50%", time=1)
