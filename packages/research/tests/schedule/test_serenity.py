"""SERENITY: known answers, brute force under every exact switch, Algorithm 2's end, limits, published figures."""

import ast
import json
import os
import re
import signal
import threading
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest

import lowtide
import lowtide_research
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.certificates import NoCertificate, SearchCertificate
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.schedule import registry
from lowtide.schedule.exact import Exact
from lowtide.schedule.foreign import Foreign
from lowtide.schedule.method import Schedule
from lowtide.schedule.order import Kahn
from lowtide.stop import Limits, Progress
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from lowtide.verify.prove.search import refute
from lowtide_research import zoo
from lowtide_research.schedule.serenity import Serenity, hmcos_comparison, rows
from lowtide_research.schedule.serenity_parts import at_hourglasses, at_ops, cell_outputs, hourglass_ops
from support.brute import every_downset, optimum, peak_of
from support.random_graphs import random_graph

TARGETS = ("strict", "hmcos", "generic")
EXACT = [
    Serenity(divide_and_conquer=divide, soft_budget=budget, step_limit=limit, sequences=sequences)
    for divide, sequences, (budget, limit) in product(
        (False, True), (False, True), ((False, 1), (True, 1), (True, 2), (True, 65_536))
    )
]


def of(reads: list[tuple[int, ...]], sizes: list[int], target: str = "strict") -> MemoryModel:
    """Op i makes tensor i of the given size and reads the given ones; the last one is the output."""
    last = len(reads) - 1
    tensors = [Tensor(i, size, Kind.OUTPUT if i == last else Kind.ACTIVATION) for i, size in enumerate(sizes)]
    ops = [Op(i, read, (i,)) for i, read in enumerate(reads)]
    return memory_model(Graph("made", tuple(tensors), tuple(ops)), BUILT_IN[target])


def side_by_side(n: int) -> MemoryModel:
    """The paper's Figure 16: an entry, n - 2 ops that read it, an exit that reads them."""
    middle = tuple(range(1, n - 1))
    return of([(), *((0,) for _ in middle), middle], [1] * n)


def network(name: str, target: str) -> MemoryModel:
    """A network of the zoo under a target."""
    return memory_model(zoo.build(name).graph(), BUILT_IN[target])


def run(method: Serenity, model: MemoryModel, **limits: object) -> tuple[Schedule, int]:
    """A method's schedule and its peak; the order is checked to be one."""
    schedule = method.schedule(model, Limits(**limits))  # type: ignore[arg-type]
    place = {v: i for i, v in enumerate(schedule.order)}
    assert sorted(place) == list(range(len(model.graph.ops)))
    assert all(place[u] < place[v] for v, before in enumerate(model.graph.predecessors) for u in before)
    return schedule, profile(model, schedule.order).peak


WIDE = side_by_side(60)
"""More than can be searched in the time of a test."""


def test_known_answer() -> None:
    """Own order keeps both large tensors; the best order uses one up before it makes the other."""
    model = of([(), (0,), (0,), (1,), (2,), (3, 4)], [1, 10, 10, 2, 2, 1])
    assert profile(model, range(6)).peak == 22
    schedule, peak = run(Serenity(), model)
    assert peak == schedule.lower_bound == 13 + 1
    assert schedule.order == (0, 1, 3, 2, 4, 5)
    assert schedule.stopped == "proof"


@pytest.mark.parametrize("n", [4, 5, 9, 14])
def test_states_of_the_worst_case_are_the_papers(n: int) -> None:
    """Figure 16's graph: 2 + (n - 2) 2^(n - 3) pairs are tried (appendix D), and 2 + 2^(n - 2) sets kept."""
    schedule, peak = run(rows()["DP"], side_by_side(n))
    assert peak == n - 1
    assert schedule.counters["moves"] == 2 + (n - 2) * 2 ** (n - 3)
    assert schedule.counters["states"] == 2 + 2 ** (n - 2)
    assert schedule.counters["moves"] <= n * 2**n


def test_states_are_the_sets_that_can_have_run() -> None:
    """Plain dynamic programming keeps each set of ops once, and tries at most |V| 2^|V| pairs."""
    for seed in range(60):
        rng = Random(seed)
        graph = random_graph(rng, rng.randint(1, 9))
        n = len(graph.ops)
        schedule, _ = run(rows()["DP"], memory_model(graph, BUILT_IN["generic"]))
        assert schedule.counters["states"] == (len(every_downset(graph)) if n else 0)
        assert schedule.counters["states"] <= 2**n
        assert schedule.counters["moves"] <= n * 2**n
        assert schedule.counters["widest_step"] <= 2**n


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_equals_brute_force(target: str) -> None:
    """Every combination of the exact switches finds the least peak, says so, and is right about the peak."""
    joined = divided = 0
    for seed in range(150):
        rng = Random(seed)
        graph = random_graph(rng, rng.randint(1, 9), plain=seed % 3 == 0)
        model = memory_model(graph, BUILT_IN[target])
        least = optimum(graph, BUILT_IN[target])
        for method in EXACT:
            schedule, peak = run(method, model)
            assert peak == least == schedule.lower_bound, (seed, method)
            assert peak == peak_of(graph, BUILT_IN[target], tuple(graph.ops[v].id for v in schedule.order))
            assert max(schedule.counters["segment_peak_bytes"], default=0) == peak
            assert schedule.stopped == "proof"
            joined += sum(schedule.counters["nodes"]) < len(graph.ops)
            divided += len(schedule.counters["nodes"]) > 1
    assert joined > 100
    assert divided > 100


@pytest.mark.slow
def test_sequences_lose_no_best_order_on_chains() -> None:
    """Side by side chains of ops in place, views and dead ends, where most ops are joined."""
    for seed in range(300):
        rng = Random(seed)
        graph = random_graph(rng, 10, width=2, in_place=0.6, aliases=0.05)
        for target in ("hmcos", "generic"):
            model = memory_model(graph, BUILT_IN[target])
            schedule, peak = run(Serenity(sequences=True, divide_and_conquer=False), model)
            assert peak == schedule.lower_bound == optimum(graph, BUILT_IN[target]), seed


def test_certificate_holds() -> None:
    """A byte less than the peak is refuted by the checker's own search; the peak of one op needs no certificate."""
    kinds = set()
    for seed in range(40):
        graph = random_graph(Random(seed), 9, width=8)
        model = memory_model(graph, BUILT_IN["generic"])
        schedule, peak = run(Serenity(), model)
        kinds.add(type(schedule.certificate))
        if isinstance(schedule.certificate, SearchCertificate):
            assert schedule.certificate.refuted_bytes == peak - 1
            found = refute(graph, work_out(graph, BUILT_IN["generic"]), peak - 1, seconds=10)
            assert found.complete
            assert found.order is None
    assert kinds == {SearchCertificate, NoCertificate}


def test_hourglass_ops_are_comparable_to_all() -> None:
    """The linear test agrees with reachability, and every segment is what an order must run together."""
    found = 0
    for seed in range(200):
        rng = Random(seed)
        graph = random_graph(rng, rng.randint(1, 12), width=3)
        n = len(graph.ops)
        above = [set[int]() for _ in range(n)]
        for v, before in enumerate(graph.predecessors):
            above[v] = set(before).union(*(above[u] for u in before))
        expected = [v for v in range(n) if all(u in above[v] or v in above[u] for u in range(n) if u != v)]
        assert hourglass_ops(graph) == expected
        found += len(expected)
        segments = at_hourglasses(graph)
        assert sorted(v for s in segments for v in s) == list(range(n))
        assert all(len(s) > 1 for s in segments[1:])
        assert all(max(a) < min(b) for a, b in pairwise(segments))
    assert found > 200


@pytest.mark.slow
def test_cells_are_what_their_last_op_needs() -> None:
    """Cells follow each other in an order, and what no cell needs comes last."""
    graph = zoo.build("nasnet_a_cifar").graph()
    segments = at_ops(graph, cell_outputs(graph, ["Concat"]))
    place = {v: k for k, s in enumerate(segments) for v in s}
    assert len(place) == len(graph.ops)
    assert all(place[u] <= place[v] for v, before in enumerate(graph.predecessors) for u in before)
    assert all(graph.ops[s[-1]].type == "Concat" for s in segments[:-1])
    assert at_ops(graph, []) == [list(range(len(graph.ops)))]
    assert cell_outputs(graph, ["NoSuchType"]) == []


S_COLUMN = {
    "nasnet_a_cifar": "2.250",
    "amoebanet_a_cifar": "1.266",
    "darts_cifar": "1.688",
    "nasnet_a_imagenet": "4.406",
    "amoebanet_a_imagenet": "4.286",
    "darts_imagenet": "4.526",
}
"""HMCOS (DAC 2022), Table 1, column S, in MiB: it prints 2.25 1.27 1.69 4.40 4.29 4.53."""


@pytest.mark.slow
@pytest.mark.parametrize("name", S_COLUMN)
def test_hmcos_s_column(name: str) -> None:
    """Divided at cells, with or without sequences and budget, all six published peaks, and no claim of a proof."""
    model = network(name, "hmcos")
    for method in (hmcos_comparison(), Serenity(cells="cell", sequences=True), Serenity(cells="cell")):
        schedule, peak = run(method, model)
        assert f"{peak / 2**20:.3f}" == S_COLUMN[name]
        assert schedule.stopped == "complete"
        assert schedule.lower_bound == 0
        assert schedule.certificate == NoCertificate()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["amoebanet_a_cifar", "darts_cifar", "amoebanet_a_imagenet", "darts_imagenet"])
def test_sequences_make_whole_networks_small_enough(name: str) -> None:
    """Not divided at cells, but with ops joined: the optimum that the exact scheduler proves."""
    model = network(name, "hmcos")
    schedule, peak = run(Serenity(sequences=True), model)
    assert peak == schedule.lower_bound == Exact().schedule(model, Limits()).lower_bound


def test_cells_can_cost_peak_but_never_gain() -> None:
    """Divided at any ops: an order, its true peak, never below the optimum."""
    lost = 0
    for seed in range(100):
        rng = Random(seed)
        graph = random_graph(rng, 9)
        model = memory_model(graph, BUILT_IN["generic"])
        kinds = sorted({op.type for op in graph.ops if op.type})
        method = Serenity(cells="cell", cell_output=",".join(rng.sample(kinds, min(2, len(kinds)))))
        schedule, peak = run(method, model)
        assert peak == max(schedule.counters["segment_peak_bytes"], default=0)
        least = optimum(graph, BUILT_IN["generic"])
        assert peak >= least
        lost += peak > least
    assert lost


def test_rows_of_table_2() -> None:
    """SwiftNet's three cells: 62 nodes = {21, 19, 22}, 200.7 KB, by all three rows; no row tries more than the last."""
    model = network("swiftnet_cells", "strict")
    made = {name: run(method, model) for name, method in rows().items()}
    assert {peak for _, peak in made.values()} == {200_704}
    assert [s.counters["nodes"] for s, _ in made.values()] == [[62], [21, 19, 22], [21, 19, 22]]
    moves = [s.counters["moves"] for s, _ in made.values()]
    assert moves == sorted(moves, reverse=True)
    assert Exact().schedule(model, Limits()).lower_bound == 200_704


@pytest.mark.slow
def test_multi_stage_randwire_has_the_proved_optimum() -> None:
    """Three stages of 32 nodes: divide and conquer and budget give the peak that the exact scheduler proves."""
    model = network("randwire_ws", "hmcos")
    proved = Exact().schedule(model, Limits(seconds=20))
    schedule, peak = run(Serenity(sequences=True), model, seconds=60)
    assert peak == schedule.lower_bound == proved.lower_bound == profile(model, proved.order).peak
    assert len(schedule.counters["nodes"]) == schedule.counters["solved"] == 4


@pytest.mark.parametrize("step_limit", [1, 2, 3, 7, 50, 1000, 2**61])
def test_budget_ends_under_any_step_limit(step_limit: int) -> None:
    """However small T is, Algorithm 2 ends with the least peak, and its steps keep to T and to the bracket."""
    model = network("randwire_ws_one_stage:nodes=12", "strict")
    schedule, peak = run(Serenity(step_limit=step_limit), model)
    assert peak == schedule.lower_bound == run(rows()["DP"], model)[1]
    steps = schedule.counters["budget_steps"]
    assert len(steps) < 60
    assert schedule.counters["widest_step"] <= max([step_limit, *(s["step_limit"] for s in steps)])
    assert schedule.counters["runs"]["solution"] == len(schedule.counters["nodes"])
    assert steps or step_limit >= 50
    for k in range(len(schedule.counters["nodes"])):
        own = [s for s in steps if s["segment"] == k]
        if not own:
            continue
        best = schedule.counters["segment_peak_bytes"][k]
        assert [s["result"] for s in own].count("solution") == 1
        assert own[-1]["result"] == "solution"
        assert all(s["budget_bytes"] >= best for s in own if s["result"] == "solution")
        assert all(s["budget_bytes"] < best for s in own if s["result"] == "no solution")
        assert len({(s["budget_bytes"], s["step_limit"]) for s in own}) == len(own)
        assert all(a["step_limit"] <= b["step_limit"] for a, b in pairwise(own))


def test_budget_prunes() -> None:
    """Too small a T leads to a tighter budget, and a tighter budget to fewer states in the run that succeeds."""
    model = network("randwire_ws_one_stage:nodes=16", "strict")
    loose, _ = run(rows()["DP + divide and conquer"], model)
    tight, _ = run(Serenity(step_limit=64), model)
    last = tight.counters["budget_steps"][-1]
    assert {s["result"] for s in tight.counters["budget_steps"]} >= {"timeout", "solution"}
    assert last["states"] < loose.counters["states"]


def test_same_call_same_order() -> None:
    """Two runs give the same order and the same counters, which are JSON."""
    model = network("darts_imagenet", "hmcos")
    method = Serenity(cells="cell", step_limit=100)
    first, second = (method.schedule(model, Limits()) for _ in range(2))
    assert first == second
    assert json.loads(json.dumps(first.counters)) == first.counters


def test_no_ops() -> None:
    """A graph without ops has an empty order of peak 0, by every switch."""
    model = memory_model(Graph("none", (), ()), BUILT_IN["strict"])
    for method in (*EXACT, hmcos_comparison()):
        assert method.schedule(model, Limits()).order == ()


@pytest.mark.parametrize("method", [*rows().values(), Serenity(sequences=True), hmcos_comparison()])
def test_no_time_gives_kahns_order(method: Serenity) -> None:
    """Out of time before the first step: Kahn's order, and no bound."""
    schedule, peak = run(method, WIDE, seconds=0.0)
    assert schedule.stopped == "time"
    assert (schedule.lower_bound, schedule.certificate) == (0, NoCertificate())
    assert peak <= profile(WIDE, Kahn().schedule(WIDE, Limits()).order).peak


@pytest.mark.slow
@pytest.mark.parametrize("method", [rows()["DP"], Serenity()])
def test_time_is_kept(method: Serenity) -> None:
    """A search that cannot end stops when its time is over."""
    schedule, _ = run(method, WIDE, seconds=0.3)
    assert schedule.stopped == "time"


@pytest.mark.parametrize("memory_bytes", [0, 1000, 300_000])
def test_memory_is_kept(memory_bytes: int) -> None:
    """A segment for which the memory does not do keeps Kahn's order; the others are solved."""
    model = network("randwire_ws:nodes=20,stages=2", "strict")
    schedule, peak = run(Serenity(soft_budget=False), model, memory_bytes=memory_bytes)
    assert schedule.stopped == "memory"
    assert schedule.counters["search_memory_bytes"] <= memory_bytes
    assert schedule.counters["solved"] < len(schedule.counters["nodes"])
    assert schedule.counters["solved"] > 0 or memory_bytes < 300_000
    assert peak <= schedule.counters["kahn_peak_bytes"]
    assert schedule.lower_bound == 0


def test_report_may_interrupt() -> None:
    """Progress names the best peak so far, and a KeyboardInterrupt raised in it ends the search."""
    seen: list[Progress] = []

    def report(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    schedule, peak = run(Serenity(), WIDE, report=report)
    assert schedule.stopped == "interrupt"
    assert len(seen) == 3
    assert seen[-1].best_bytes >= peak
    assert seen[-1].bound_bytes == 0


def test_error_in_report_comes_through() -> None:
    """Any other exception of the report is the caller's."""

    def report(progress: Progress) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        Serenity().schedule(WIDE, Limits(report=report))


def test_signal_interrupts() -> None:
    """Ctrl-C ends the search with what there is."""
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    schedule, _ = run(Serenity(), WIDE, seconds=20)
    timer.join()
    assert schedule.stopped == "interrupt"


def test_options_are_typed() -> None:
    """The command line makes the method from text, and refuses a T without room."""
    made = registry.make("serenity", {"cells": "cell", "soft_budget": "no", "sequences": "yes"})
    assert made == Foreign(hmcos_comparison())
    assert replace(Serenity(), soft_budget=False) == rows()["DP + divide and conquer"]
    with pytest.raises(InputError, match="take from 1 to"):
        registry.make("serenity", {"step_limit": "0"})


def test_shares_no_search_with_the_exact_scheduler() -> None:
    """Neither the imports nor the includes of SERENITY lead to the exact scheduler's files."""
    ours, theirs = Path(lowtide_research.__file__).parent / "schedule", Path(lowtide.__file__).parent / "schedule"
    own, allowed = {"serenity", "serenity_parts"}, {"method", "order"}
    for path in (*(ours / f"{name}.py" for name in own), *(theirs / f"{name}.py" for name in allowed)):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        used = {m.split(".")[2] for m in modules if m.startswith(("lowtide.schedule.", "lowtide_research.schedule."))}
        assert used <= own | allowed, path
        assert not {"lowtide.schedule", "lowtide_research.schedule"} & set(modules)
    core = Path(lowtide.__file__).parents[2] / "core"
    for path in core.glob("papers/serenity*"):
        headers = re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8"))
        assert all(header.startswith(("papers/serenity", "base/")) for header in headers), path.name


def printed_budgets(model: MemoryModel, limit: int) -> list[tuple[int, str]]:
    """Algorithm 2 as printed, around Algorithm 1 on sets of ops; each budget and how its run ended."""
    n, before = len(model.graph.ops), model.graph.predecessors
    budget = old = profile(model, Kahn().schedule(model, Limits()).order).peak
    tried: list[tuple[int, str]] = []
    while True:
        step, flag = {frozenset[int](): (0, ())}, "solution"
        for _ in range(n):
            following: dict[frozenset[int], tuple[int, tuple[int, ...]]] = {}
            for ran, (_, order) in step.items():
                for v in set(range(n)) - ran:
                    if not set(before[v]) <= ran:
                        continue
                    key, rest = ran | {v}, [u for u in range(n) if u not in ran | {v}]
                    reached = max(profile(model, (*order, v, *rest)).footprint[: len(key)])
                    if reached <= budget and (key not in following or reached < following[key][0]):
                        following[key] = (reached, (*order, v))
            step = following
            if len(step) > limit:
                flag = "timeout"
            elif not step:
                flag = "no solution"
            if flag != "solution":
                break
        tried.append((budget, flag))
        new = budget // 2 if flag == "timeout" else (budget + old) // 2
        if flag == "solution" or new == budget:
            return tried
        old, budget = budget, new


def test_the_printed_update() -> None:
    """Budgets and results of each run are those of the printed loop; a segment that it gives up has no bound."""
    ends = set()
    for seed in range(60):
        graph = random_graph(Random(seed), 7, width=5)
        model = memory_model(graph, BUILT_IN["strict"])
        for limit in (1, 2, 4):
            method = Serenity(update="printed", step_limit=limit, divide_and_conquer=False)
            schedule, peak = run(method, model)
            expected = printed_budgets(model, limit)
            if len(expected) > 1:
                steps = [(s["budget_bytes"], s["result"]) for s in schedule.counters["budget_steps"]]
                assert steps == expected, seed
            solved = expected[-1][1] == "solution"
            assert schedule.counters["solved"] == solved
            assert (schedule.lower_bound == peak) == solved or schedule.lower_bound == 0
            ends.add((solved, len(expected) > 1))
    assert ends >= {(True, True), (True, False), (False, True)}


def test_seconds_of_a_step() -> None:
    """T in seconds: a step that takes longer is a timeout, and T is doubled until a budget keeps within it."""
    schedule, peak = run(Serenity(step_seconds=1e-9), network("swiftnet_cell_a", "strict"))
    assert peak == schedule.lower_bound
    assert schedule.counters["runs"]["timeout"] >= 1
    assert all(step["step_limit"] == -1 for step in schedule.counters["budget_steps"])
    assert "timeout" not in run(Serenity(step_seconds=60), network("swiftnet_cell_a", "strict"))[0].counters["runs"]
    for wrong in (-1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="step_seconds"):
            Serenity(step_seconds=wrong)
