"""COSMA's program against brute force over orders, residency and addresses; its variants, switches and solvers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

pytest.importorskip("ortools", reason="the integer programs need the extra solvers")

from lowtide.analyse.liveness import profile
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.spill.problem import Memory, Semantics, SpillProblem, spill_problem, timeline
from lowtide.spill.search import Spill
from lowtide.stop import Limits, Progress
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.spill.cosma.divide import break_nodes, crossings, divide, divide_at, order_parts, variables_of
from lowtide_research.spill.cosma.method import Cosma, CosmaDnc, CosmaFs, best_start, start_for
from lowtide_research.spill.cosma.solve import ProgramSettings, estimate, least_peak, model_encoding
from lowtide_research.spill.cosma.tensors import space_of, why_not
from support.brute import optimum
from support.random_graphs import random_graph
from support.spill_brute import least_traffic
from support.spill_replay import simulate

STRICT = BUILT_IN["strict"]


def tiny(rng: Random, semantics: Semantics, n_ops: int = 4, most: int = 9) -> SpillProblem:
    """A random problem whose file order does not fit without spilling, small enough for brute force."""
    while True:
        graph = random_graph(rng, n_ops, plain=rng.random() < 0.7, aliases=0)
        tensors = tuple(replace(t, size=-(-t.size // 8)) for t in graph.tensors)
        graph = Graph(graph.name, tensors, graph.ops, graph.folded)
        problem = spill_problem(graph, STRICT, (Memory("fast", 0),), semantics, parameters=rng.random() < 0.2)
        if not graph.ops or why_not(replace(problem, memories=(Memory("fast", 99),))):
            continue
        line = timeline(problem, range(problem.steps))
        load = list(line.forced)
        for gap in line.gaps:
            for t in range(gap.start, gap.end):
                load[t] += problem.model.storages[gap.storage].size
        need = max(problem.largest_op[0], *line.forced)
        if need < max(load) and need <= most:
            return replace(problem, memories=(Memory("fast", need + rng.choice((0, 0, 1))),))


VARIANTS = {
    "late": Cosma(),
    "joint": Cosma(addresses="joint"),
    "no overlap analysis": Cosma(overlap=False),
    "as printed": Cosma(addresses="joint", overlap=False, cuts=False),
    "highs": Cosma(solver="highs"),
    "scip": Cosma(solver="scip"),
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_least_traffic_is_that_of_brute_force(variant: str) -> None:
    """Over all orders, residencies and addresses, under every semantics; the plan replays, the solver says optimal."""
    rng = Random(variant)
    method = VARIANTS[variant]
    spilled = 0
    for _ in range(8):
        semantics = Semantics(*(rng.random() < 0.6 for _ in range(4)))
        problem = tiny(rng, semantics, most=7) if variant != "as printed" else tiny(rng, semantics, 3, 6)
        assert method.supports(problem) is None
        found = method.spill(problem, Limits(60))
        assert simulate(problem, found) == found.traffic_bytes == least_traffic(problem)
        assert found.traffic_lower_bound_bytes == found.traffic_bytes
        assert (found.counters["ilp_status"], found.stopped) == ("optimal", "proof")
        spilled += found.traffic_bytes > 0
    assert spilled > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [CosmaFs(), CosmaFs(addresses="joint"), CosmaFs(order="exact"), CosmaFs("cosma"), CosmaFs(solver="scip")],
    ids=repr,
)
def test_a_fixed_order_is_spilled_as_by_brute_force(method: CosmaFs) -> None:
    """(16), (17): least traffic of that order; nothing is said of others."""
    rng = Random(repr(method))
    spilled = 0
    for _ in range(5):
        n_ops, most = (3, 6) if method.addresses == "joint" else (4, 7)
        problem = tiny(rng, Semantics(*(rng.random() < 0.6 for _ in range(4))), n_ops, most)
        found = method.spill(problem, Limits(60))
        assert method.order != "own" or found.order == tuple(range(problem.steps))
        best = least_traffic(problem, found.order)
        assert simulate(problem, found) == found.traffic_bytes == best == found.counters["ilp_bound_bytes"]
        assert found.traffic_lower_bound_bytes == 0
        spilled += found.traffic_bytes > 0
    assert spilled > 0


@pytest.mark.slow
def test_least_peak_is_that_of_brute_force() -> None:
    """(13) to (15): the exact scheduler's memory model, every switch."""
    rng = Random(5)
    for k in range(40):
        graph = random_graph(rng, rng.randint(2, 7), aliases=0)
        problem = spill_problem(graph, STRICT, (Memory("fast", 10**6),))
        settings = ProgramSettings(overlap=k % 3 > 0, cuts=k % 2 > 0)
        order, bound, ended, counters = least_peak(problem, Limits(30), settings)
        assert (bound, ended) == (optimum(graph, STRICT), "optimal")
        assert sorted(order) == list(range(problem.steps))
        assert not order or counters["peak_variables"] > 0


@pytest.mark.slow
def test_model_encoding_spills_nothing() -> None:
    """MODeL's program: the smallest arena; where that fits, no traffic, and where not, the start with its own."""
    rng = Random(6)
    fitted = 0
    for _ in range(12):
        problem = tiny(rng, Semantics(), n_ops=5)
        _, bound, ended, _ = model_encoding(problem, Limits(30), ProgramSettings())
        assert ended == "optimal"
        roomy = replace(problem, memories=(Memory("fast", bound),))
        found = Cosma(encoding="model").spill(roomy, Limits(30))
        assert (simulate(roomy, found), found.stopped) == (0, "proof")
        tight = Cosma(encoding="model").spill(problem, Limits(30))
        assert tight.counters["arena_bound_bytes"] == bound
        assert simulate(problem, tight) == tight.traffic_bytes
        fitted += tight.counters["without_spilling"]
        assert tight.counters["without_spilling"] or bound > problem.capacity or tight.traffic_bytes == 0
    assert fitted < 12


@pytest.mark.slow
def test_overlap_analysis_leaves_variables_out() -> None:
    """Both programs shrink, and MODeL's is the smaller one (section III-F)."""
    graph = zoo.build("swiftnet_cell_a").graph()
    problem = spill_problem(graph, STRICT, (Memory("fast", 150_000),))
    assert estimate(space_of(problem), addresses=True) < 0.5 * estimate(
        space_of(problem, overlap=False), addresses=True
    )
    small = Cosma(addresses="joint").spill(problem, Limits(8)).counters
    model = Cosma(encoding="model").spill(problem, Limits(3)).counters
    assert small["whole_variables"] > model["arena_variables"]
    assert small["whole_constraints"] > model["arena_constraints"]


def test_a_limit_is_no_proof() -> None:
    """Stopped by time: the start, or better, with the gap that is left; never infeasible."""
    graph = zoo.build("darts_imagenet_normal_cell").graph()
    problem = spill_problem(graph, STRICT, (Memory("fast", 0),))
    problem = replace(problem, memories=(Memory("fast", problem.largest_op[0]),))
    start = best_start(problem, Limits(5))
    for method in (Cosma(addresses="joint", cuts=False), Cosma(addresses="joint", solver="scip")):
        found = method.spill(problem, Limits(0.05))
        assert simulate(problem, found) == found.traffic_bytes <= start.traffic_bytes
        assert found.stopped == "time"
        assert found.counters["ilp_gap_bytes"] == found.traffic_bytes - found.counters["ilp_bound_bytes"]
        assert not found.optimal


def test_break_points_are_narrow_and_balanced() -> None:
    """Chains of diamonds are cut at their single tensors, into parts of about one size."""
    tensors = [Tensor(0, 4, Kind.INPUT, "x")]
    ops: list[Op] = []
    for _ in range(12):
        top = len(tensors) - 1
        for k in range(4):
            tensors.append(Tensor(len(tensors), 2 + k, Kind.ACTIVATION, ""))
            ops.append(Op(len(ops), (top if k < 3 else top + 1, *((top + 2, top + 3) if k == 3 else ())),
                          (len(tensors) - 1,)))  # fmt: skip
    tensors[-1] = replace(tensors[-1], kind=Kind.OUTPUT)
    problem = spill_problem(Graph("diamonds", tuple(tensors), tuple(ops)), STRICT, (Memory("fast", 16),))
    space, order = space_of(problem), tuple(range(48))
    whole = variables_of(space, order)
    parts = divide(space, order, whole // 3)
    assert set(parts.crossing) == {1}
    assert len(parts.stretches) in (3, 4)
    sizes = [variables_of(space, order[a:b]) for a, b in parts.stretches]
    assert max(sizes) <= whole // 3
    assert max(sizes) <= 2 * min(sizes)
    assert crossings(space, order)[4] == 1
    assert divide(space, order, 10**9).stretches == ((0, 48),)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["a", "b", "c"])
def test_divide_and_conquer_is_no_worse_than_a_fixed_order(cell: str) -> None:
    """On SwiftNet's cells in a row; where the whole is one part its order is the best one."""
    graph = zoo.build(f"swiftnet_cell_{cell}").graph()
    problem = spill_problem(graph, STRICT, (Memory("fast", 0),))
    problem = replace(problem, memories=(Memory("fast", problem.largest_op[0]),))
    divided = CosmaDnc(part_variables=150).spill(problem, Limits(60))
    assert simulate(problem, divided) == divided.traffic_bytes
    for order in ("own", "exact"):
        assert divided.traffic_bytes <= CosmaFs(order).spill(problem, Limits(60)).traffic_bytes
    assert divided.traffic_lower_bound_bytes == 0


@pytest.mark.slow
def test_parts_put_together_are_an_order() -> None:
    """Whatever the parts: each op once, after what it needs; one part alone reaches the optimum over all orders."""
    rng = Random(3)
    for _ in range(10):
        problem = tiny(rng, Semantics(), n_ops=5)
        space = space_of(problem)
        own = tuple(range(problem.steps))
        for most in (1, 60, 10**6):
            parts = divide(space, own, most)
            ordered = order_parts(problem, space, own, parts, Limits(30), ProgramSettings())
            done: set[int] = set()
            for i in ordered.order:
                assert done.issuperset(problem.model.graph.predecessors[i])
                done.add(i)
            assert len(done) == problem.steps
            assert ordered.solved == len(parts.stretches)
            if len(parts.stretches) == 1:
                least = least_traffic(problem, addresses=False)
                assert least_traffic(problem, ordered.order, addresses=False) == least
        assert start_for(problem, own).order == own


@pytest.mark.parametrize("seed", [13, 20, 23])
def test_a_warm_start_is_never_left_for_worse(seed: int) -> None:
    """40 ops at seven tenths of the file order's peak, where the replacement policies spill: as little traffic as
    lowtide's own search finds, and with COSMA's own programs alone no more than the policies'."""
    graph = random_graph(Random(seed), 40, width=8, plain=True, aliases=0)
    problem = spill_problem(graph, STRICT, (Memory("fast", 0),))
    peak = profile(problem.model, range(problem.steps)).peak
    problem = replace(problem, memories=(Memory("fast", max(problem.largest_op[0], 7 * peak // 10)),))
    assert Cosma().supports(problem) is None
    known = Spill().spill(problem, Limits(4)).traffic_bytes
    found = Cosma().spill(problem, Limits(4))
    assert simulate(problem, found) == found.traffic_bytes <= known
    assert found.optimal or found.traffic_bytes > 0
    replaced = best_start(problem, Limits(4)).traffic_bytes
    fixed = Cosma(start="fixed").spill(problem, Limits(4))
    assert simulate(problem, fixed) == fixed.traffic_bytes <= replaced
    assert found.traffic_bytes < replaced


def test_break_nodes_end_parts() -> None:
    """Each part is a break node and what it needs that no part before has, by plain search backwards; the last part is
    the rest."""
    for seed in range(20):
        rng = Random(seed)
        graph = random_graph(rng, 12, aliases=0)
        problem = spill_problem(graph, STRICT, (Memory("fast", 10**6),))
        own = tuple(range(problem.steps))
        if problem.steps < 5:
            continue
        given = rng.sample(own, 3)
        order, parts = divide_at(space_of(problem), own, given)
        done: set[int] = set()
        expected = []
        for op in sorted(given):
            waiting, needed = [op], {op}
            while waiting:
                for u in graph.predecessors[waiting.pop()]:
                    if u not in needed:
                        needed.add(u)
                        waiting.append(u)
            if needed - done:
                expected.append(sorted(needed - done))
            done |= needed
        expected += [rest] if (rest := sorted(set(own) - done)) else []
        assert [list(order[a:b]) for a, b in parts.stretches] == expected
        assert list(parts.crossing) == [crossings(space_of(problem), order)[b] for _, b in parts.stretches[:-1]]


def test_break_nodes_are_named_or_numbered() -> None:
    """By name or id; a wrong one is one line with what is near; the parts of a run are the given ones."""
    graph = zoo.build("swiftnet_cell_a").graph()
    name = graph.ops[7].name
    assert break_nodes(graph, f" {name}, {graph.ops[12].id}") == [7, 12]
    assert break_nodes(graph, "") == []
    for wrong, words in ((name + "x", f"did you mean {name}"), ("99999", "no op is called '99999'")):
        with pytest.raises(InputError) as caught:
            CosmaDnc(breaks=wrong).spill(spill_problem(graph, STRICT, (Memory("fast", 10**9),)), Limits(1))
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    twins = Graph("twins", graph.tensors, tuple(replace(op, name="twin") for op in graph.ops))
    with pytest.raises(InputError, match="ops are called 'twin'"):
        break_nodes(twins, "twin")
    problem = spill_problem(graph, STRICT, (Memory("fast", 0),))
    problem = replace(problem, memories=(Memory("fast", problem.largest_op[0]),))
    found = CosmaDnc(breaks=f"{name},12").spill(problem, Limits(8))
    assert simulate(problem, found) == found.traffic_bytes
    assert found.counters["parts"] == 3


def test_it_says_what_it_has_no_equation_for() -> None:
    """Storages that are written twice, and ops that fit only in place."""
    tensors = (Tensor(0, 4, Kind.INPUT, "x"), Tensor(1, 4, Kind.ACTIVATION, "a", alias_of=0),
               Tensor(2, 4, Kind.OUTPUT, "y"))  # fmt: skip
    ops = (Op(0, (0,), (1,), "first"), Op(1, (1,), (2,), "second"))
    written_over = spill_problem(Graph("alias", tensors, ops), STRICT, (Memory("fast", 8),))
    assert "written more than once" in str(why_not(written_over))
    apart = replace(tensors[1], alias_of=None)
    plain = spill_problem(Graph("apart", (tensors[0], apart, tensors[2]), ops), STRICT, (Memory("fast", 7),))
    assert "8 bytes" in str(Cosma().supports(plain))
    assert "moves.lead" in str(why_not(replace(plain, semantics=Semantics(lead=1))))


@pytest.mark.parametrize("method", [Cosma(), CosmaDnc(), Cosma(encoding="model"), CosmaFs("cosma")], ids=repr)
def test_ctrl_c_keeps_the_best(method: Cosma | CosmaFs | CosmaDnc) -> None:
    """Stopped while a program is solved: an answer that replays, and it says so."""
    graph = zoo.build("swiftnet_cell_a").graph()
    problem = spill_problem(graph, STRICT, (Memory("fast", 0),))
    problem = replace(problem, memories=(Memory("fast", problem.largest_op[0]),))

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    found = method.spill(problem, Limits(60, report=stop))
    assert simulate(problem, found) == found.traffic_bytes
    assert found.stopped == "interrupt"
