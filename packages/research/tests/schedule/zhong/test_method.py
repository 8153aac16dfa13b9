from __future__ import annotations

import _thread
import ast
import subprocess
import sys
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import pytest

import lowtide_research.schedule.zhong as package
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.api import plan
from lowtide.graph import Graph
from lowtide.schedule.exact import Exact
from lowtide.schedule.foreign import Foreign
from lowtide.schedule.order import Rpo
from lowtide.schedule.registry import make
from lowtide.stop import Limits, Progress
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.bench.parts import settings_4
from lowtide_research.schedule.zhong.cut import cut_bound
from lowtide_research.schedule.zhong.fusion import Fusion, fuse
from lowtide_research.schedule.zhong.ilp import Solver
from lowtide_research.schedule.zhong.method import Zhong, printed
from lowtide_research.schedule.zhong.partition import partition
from lowtide_research.schedule.zhong.problem import ReducedProblem, problem_of
from lowtide_research.schedule.zhong.program import count_variables
from lowtide_research.zoo.merge import one_op_per_convolution
from stress_zhong import sample
from support.hard_graphs import unit_matrix_product
from support.models import model_of
from support.random_graphs import random_graph

STRICT = BUILT_IN["strict"]
KIB = 1024


def is_topological(model: MemoryModel, order: tuple[int, ...]) -> bool:
    """Whether an order has every op once, after what it needs."""
    step = {i: t for t, i in enumerate(order)}
    before = model.graph.predecessors
    return sorted(order) == list(range(len(before))) and all(step[u] < step[v] for v in step for u in before[v])


@pytest.fixture(scope="module")
def hrnet() -> MemoryModel:
    """HRNet-W18-small-v1 with a convolution and its activation as one op: Table II's graph."""
    return model_of(one_op_per_convolution(zoo.build("hrnet_w18_small_v1").graph()))


def test_it_shares_no_search_with_the_exact_scheduler() -> None:
    """No file of it imports the exact scheduler or the core, nor does what they import the scheduler (the core there
    counts what is live); and no solver as yet."""
    allowed = {"mathopt", "method", "order", "zhong"}
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                assert not name.startswith("lowtide._core")
                assert not name.startswith("lowtide.schedule.") or name.split(".")[2] in allowed, f"{path.name}: {name}"
    barred = "{'lowtide.schedule.exact', 'ortools'}"
    code = f"import sys, lowtide_research.schedule.zhong.method; print({barred} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_unpartitioned_it_finds_the_optimum() -> None:
    """Fusion and one program: the exact scheduler's peak, under every target; it claims no proof."""
    for seed in range(60):
        _, model = sample(seed)
        found = Zhong(partition="none").schedule(model, Limits(20))
        assert is_topological(model, found.order)
        assert profile(model, found.order).peak == profile(model, Exact().schedule(model, Limits(20)).order).peak
        assert found.counters["ilp_optimal"] is True
        assert found.lower_bound == 0


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize(("by_bytes", "multilevel"), [(True, False), (False, False), (True, True)])
def test_partition_is_acyclic_and_balanced(parts: int, by_bytes: bool, multilevel: bool) -> None:
    """No edge leads back; every node is in one part; parts have about the same size; the order is topological."""
    for seed in range(60):
        rng = Random(seed)
        model = model_of(random_graph(rng, rng.randint(8, 30), width=rng.choice((2, 8))), "generic")
        whole = problem_of(model)
        nodes = partition(whole, parts, [range(whole.n)], by_bytes=by_bytes, multilevel=multilevel)
        part_of = {v: p for p, inside in enumerate(nodes) for v in inside}
        assert sorted(part_of) == list(range(whole.n))
        assert all(part_of[u] <= part_of[v] for v in part_of for u in whole.preds[v])
        assert len(nodes) == min(parts, whole.n)
        assert all(nodes)
        assert max(map(len, nodes)) <= max(-(-whole.n // parts), 1.25 * whole.n / parts)
        order = [v for inside in nodes for v in inside]
        assert is_topological(model, tuple(order))
        apart = whole.split([part_of[v] for v in range(whole.n)], len(nodes))
        footprints = [f for problem in apart for f in problem.footprints(range(problem.n))]
        assert footprints == whole.footprints(order)


@pytest.mark.slow
def test_parts_cost_optimality_and_nothing_else() -> None:
    """Whatever is switched, an order comes out, never worse than the file order."""
    for seed in range(12):
        _, model = sample(seed)
        own = profile(model, range(len(model.graph.ops))).peak
        best = profile(model, Exact().schedule(model, Limits(20)).order).peak
        for method in (
            Zhong(part_nodes=3),
            Zhong(parts=2),
            Zhong(parts=3, partition="naive", formulation="paper"),
            Zhong(fusion="none", pruning=False, partition="none", formulation="paper"),
            Zhong(printed_outputs=True),
            Zhong(every_order=False, bound=6),
            printed(parts=3, partition="multilevel"),
        ):
            found = method.schedule(model, Limits(20))
            assert is_topological(model, found.order)
            assert best <= profile(model, found.order).peak <= own
            assert best == found.counters["algorithm_peak_bytes"] or not found.counters["ilp_optimal"]


@pytest.mark.slow
def test_a_cut_is_the_least_footprint_of_a_node() -> None:
    """Over every set of nodes that can have run before it; and no order beats the bound."""
    for seed in range(120):
        problem = problem_of(sample(seed)[1])
        if problem.n > 10:
            continue
        least = [least_held(problem, v) for v in range(problem.n)]
        bound = cut_bound(problem, range(problem.n))
        assert max(problem.floor, bound) == max(least)
        assert cut_bound(problem, range(problem.n), least=max(least) + 1) == max(least) + 1
        assert cut_bound(problem, range(problem.n), enough=1) >= 1


def least_held(problem: ReducedProblem, v: int) -> int:
    """Least footprint of a node, by trying every set that can have run."""
    held = []
    for done in range(1 << problem.n):
        inside = [u for u in range(problem.n) if done >> u & 1]
        closed = all(done >> u & 1 for w in (*inside, v) for u in problem.preds[w])
        if not closed or done & (problem.descendants[v] | 1 << v):
            continue
        live = problem.extra[v] - max((saving for _, saving in problem.overwrites[v]), default=0)
        for storage in problem.storages:
            begun = storage.at_start or any(u in inside or u == v for u in storage.users)
            lasts = storage.at_end or any(u not in inside for u in storage.users)
            live += storage.size * (begun and lasts)
        held.append(live)
    return min(held)


@pytest.mark.slow
def test_parts_grow_while_the_bound_is_not_met() -> None:
    """DARTS (CIFAR-10): 23 parts leave 1440 KiB, fewer parts reach the optimum, 1401408 bytes; given parts stay."""
    model = model_of(zoo.build("darts_cifar").graph(), "hmcos")
    few = Zhong(parts=23).schedule(model, Limits(60))
    assert (few.counters["rounds"], few.counters["parts"], few.counters["algorithm_peak_bytes"]) == (1, 23, 1440 * KIB)
    found = Zhong().schedule(model, Limits(60))
    assert found.counters["rounds"] > 1
    assert found.counters["parts"] < 23
    assert found.counters["algorithm_peak_bytes"] == found.counters["ilp_bound_bytes"] == 1_401_408
    assert Zhong(part_variables=1).schedule(model, Limits(60)).counters["rounds"] == 1


def test_hrnet_has_the_peaks_of_table_two(hrnet: MemoryModel) -> None:
    """Zhong et al., Tables II and V: RPO 7936 KB, their method and the optimum 6368 KB."""
    assert profile(hrnet, Rpo().schedule(hrnet, Limits()).order).peak == 7936 * KIB
    run = Zhong().run(hrnet, Limits(30))
    assert run.algorithm_peak_bytes == 6368 * KIB
    assert run.schedule.stopped == "complete"
    assert profile(hrnet, Exact().schedule(hrnet, Limits(10)).order).peak == 6368 * KIB
    assert run.schedule.counters["ops_after"] < run.schedule.counters["ops_before"] == 182


@pytest.mark.parametrize("solver", ["cp_sat", "highs", "scip"])
def test_same_call_same_order(solver: Solver, hrnet: MemoryModel) -> None:
    """One thread and a fixed seed: the same schedule twice, counters and all."""
    method = Zhong(solver=solver, parts=12)
    assert method.schedule(hrnet, Limits(30, seed=7)) == method.schedule(hrnet, Limits(30, seed=7))


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cp_sat", "highs", "scip"])
def test_time_limit_is_kept(solver: Solver) -> None:
    """What has been found by then is returned, and called no optimum."""
    model = model_of(unit_matrix_product(4))
    found = Zhong(solver=solver, partition="none").schedule(model, Limits(0.4))
    assert found.stopped == "time"
    assert is_topological(model, found.order)
    assert found.counters["ilp_optimal"] is False
    assert found.counters["ilp_gap"] > 0


@pytest.mark.slow
def test_interrupt_ends_the_solver() -> None:
    """Ctrl-C, which a report may raise, ends the program that is being solved; the best order is kept."""
    calls = []

    def report(progress: Progress) -> None:
        calls.append(progress)
        if len(calls) == 3:
            raise KeyboardInterrupt

    model = model_of(unit_matrix_product(3))
    found = Zhong(partition="none").schedule(model, Limits(300, report=report))
    assert found.stopped == "interrupt"
    assert is_topological(model, found.order)


@pytest.mark.slow
def test_ctrl_c_waits_for_the_solver_that_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the other thread waits: what solves has ended before the best order is returned."""
    from ortools.math_opt.python import mathopt

    solve, ended = mathopt.solve, []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        _thread.interrupt_main()
        sleep(0.2)
        result = solve(*arguments, **named)
        ended.append(result)
        return result

    monkeypatch.setattr(mathopt, "solve", interrupted)
    model = model_of(unit_matrix_product(3))
    found = Zhong(solver="cp_sat", partition="none").schedule(model, Limits(20))
    assert found.stopped == "interrupt"
    assert ended
    assert is_topological(model, found.order)


@pytest.mark.slow
def test_error_in_a_report_is_not_swallowed() -> None:
    """A bug in the caller's report ends the solver and comes through."""

    def report(progress: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Zhong(partition="none").schedule(model_of(unit_matrix_product(3)), Limits(30, report=report))


@pytest.mark.slow
def test_program_that_is_too_large_is_not_built() -> None:
    """It says memory, as a search that runs out of it does."""
    graph = zoo.build("nasnet_a_cifar").graph()
    found = Zhong(partition="none", fusion="none", pruning=False).schedule(model_of(graph), Limits(30))
    whole = count_variables(fuse(problem_of(model_of(graph)), Limits(), fusion="none"), pruning=False)
    assert found.stopped == "memory"
    assert found.counters["variables"] == whole > 100_000


def test_without_or_tools_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the package; so does every row of a comparison."""
    monkeypatch.setattr("lowtide_research.schedule.zhong.method.find_spec", lambda name: None)
    reason = Zhong().supports(model_of(unit_matrix_product(4)))
    assert reason is not None
    assert "pip install 'ortools" in reason
    assert Foreign(Zhong(solver="scip")) == make("zhong", {"solver": "scip"})


def test_plan_holds() -> None:
    """Its plans pass the checker; what it reports is in them."""
    for seed in range(10):
        graph = sample(seed)[1].graph
        made = plan(graph, target="generic", method="zhong", time=20)
        assert made.search is not None
        assert made.search["ilp_status"] == "optimal"


def test_empty_graph() -> None:
    """No ops, nothing to order."""
    found = Zhong().schedule(model_of(Graph("empty", (), ())), Limits(5))
    assert found.order == ()


@pytest.mark.slow
def test_tables_run() -> None:
    """Every table of the paper, on a small net; sizes shrink as techniques are added."""
    model = model_of(one_op_per_convolution(zoo.build("hrnet_w18_small_v1:side=32").graph()))
    kinds: tuple[Fusion, ...] = ("none", "monotonic", "general", "both")
    ops = {kind: fuse(problem_of(model), Limits(60), fusion=kind).n for kind in kinds}
    assert ops["none"] > max(ops["monotonic"], ops["general"]) >= ops["both"]
    settings = settings_4(model, Zhong(part_nodes=12), 1.0)
    left = {name: method.run(model, Limits(1.0)).schedule.counters["ops_after"] for name, method in settings.items()}
    assert list(left) == ["origin", "partition", "partition+fusion", "partition+pruning", "all"]
    assert left["partition+fusion"] == left["all"] < left["partition"]
    least = profile(model, Exact().schedule(model, Limits(10)).order).peak
    divided = [Zhong(parts=8, partition="naive"), Zhong(parts=8), Zhong(parts=5), Zhong(parts=6)]
    assert all(method.run(model, Limits(5.0)).algorithm_peak_bytes >= least for method in divided)
