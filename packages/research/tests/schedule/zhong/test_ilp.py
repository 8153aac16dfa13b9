from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.errors import MissingExtraError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research.schedule.zhong import cumulative
from lowtide_research.schedule.zhong import program as printed
from lowtide_research.schedule.zhong.fusion import fuse
from lowtide_research.schedule.zhong.ilp import Formulation, Solver, solve
from lowtide_research.schedule.zhong.problem import ReducedProblem, as_printed, problem_of
from lowtide_research.schedule.zhong.program import PEAK, OrderProgram
from support.brute import optimum as brute_optimum
from support.random_graphs import random_graph, random_order

SOLVERS: tuple[Solver, ...] = ("cp_sat", "highs", "scip")
FORMULATIONS: tuple[Formulation, ...] = get_args(Formulation)
FORMS = {"paper": printed, "cumulative": cumulative}


def sample(seed: int, target: str | None = None, most: int = 8) -> tuple[Random, MemoryModel]:
    """A small random graph under a target."""
    rng = Random(seed)
    graph = random_graph(rng, rng.randint(3, most), width=rng.choice((2, 3, 8)))
    return rng, memory_model(graph, BUILT_IN[target or rng.choice(("strict", "hmcos", "generic"))])


def holds(program: OrderProgram, values: dict[int, int]) -> bool:
    """Whether values satisfy every row and are 1 where they must be."""
    inside = all(
        (lower is None or lower <= sum(a * values[i] for i, a in row.items()))
        and (upper is None or sum(a * values[i] for i, a in row.items()) <= upper)
        for lower, upper, row in program.rows
    )
    return inside and all(values[i] == 1 for i in program.fixed)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("pruning", [True, False])
def test_optimum_is_that_of_brute_force(solver: Solver, formulation: Formulation, pruning: bool) -> None:
    """Under strict, with equations (7) to (10) and without, by every solver."""
    for seed in range(10 if solver == "highs" else 18):
        _, model = sample(seed, "strict", 7)
        whole = problem_of(model)
        best = brute_optimum(model.graph, model.target)
        found = solve(whole, range(whole.n), Limits(20), solver=solver, formulation=formulation, pruning=pruning)
        assert (found.peak, found.bound, found.status) == (best, best, "optimal")
        assert whole.peak(found.order) == best


@pytest.mark.slow
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("target", ["hmcos", "generic"])
def test_optimum_with_ops_in_place(formulation: Formulation, target: str) -> None:
    """Overwriting, aliases, `after` and workspaces; on the graph as it is and after fusion."""
    for seed in range(60):
        _, model = sample(seed, target)
        best = brute_optimum(model.graph, model.target)
        for whole in (problem_of(model), fuse(problem_of(model), Limits())):
            found = solve(whole, range(whole.n), Limits(20), solver="cp_sat", formulation=formulation)
            assert (found.peak, found.status) == (best, "optimal")


@pytest.mark.slow
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("pruning", [True, False])
def test_program_admits_every_order_with_its_peak(formulation: Formulation, pruning: bool) -> None:
    """The values of an order satisfy every row with M its peak, and break one with M a unit less."""
    form = FORMS[formulation]
    for seed in range(150):
        rng, model = sample(seed)
        whole = problem_of(model)
        order = [model.graph.index_of[i] for i in random_order(rng, model.graph)]
        program = form.build(whole, pruning=pruning)
        assert program is not None
        values = form.hint_of(whole, program, order)
        peak = whole.peak(order) // program.unit
        assert set(values) == set(range(1, program.variables))
        assert holds(program, values | {PEAK: peak})
        assert not peak or not holds(program, values | {PEAK: peak - 1})
        assert (
            form.order_of(whole, program, [float((values | {PEAK: peak})[i]) for i in range(program.variables)])
            == order
        )


def test_pruning_leaves_variables_out() -> None:
    """As Table IV counts them; the number is known without building anything."""
    for seed in range(50):
        whole = problem_of(sample(seed)[1])
        counts = []
        for pruning in (True, False):
            program = printed.build(whole, pruning=pruning)
            assert program is not None
            assert printed.count_variables(whole, pruning=pruning) == program.variables
            counts.append(program.variables)
        assert counts[0] <= counts[1]
        if not any(whole.overwrites):
            assert counts[1] <= whole.n**2 + whole.n * len(whole.storages) + 1


def toy(kinds: tuple[Kind, Kind]) -> ReducedProblem:
    """Two ops that read nothing and make 3 and 5 bytes that nobody reads."""
    tensors = tuple(Tensor(i, size, kind) for i, (size, kind) in enumerate(zip((3, 5), kinds, strict=True)))
    graph = Graph("toy", tensors, (Op(0, (), (0,)), Op(1, (), (1,))))
    return problem_of(memory_model(graph, BUILT_IN["strict"]))


@pytest.mark.parametrize(
    ("kinds", "kept", "as_read"),
    [((Kind.OUTPUT, Kind.OUTPUT), 8, 0), ((Kind.ACTIVATION, Kind.ACTIVATION), 5, 0)],
)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_both_readings_of_the_outputs(
    kinds: tuple[Kind, Kind], kept: int, as_read: int, formulation: Formulation
) -> None:
    """Outputs stay and unread tensors weigh; as printed, neither."""
    whole = toy(kinds)
    assert solve(whole, [0, 1], Limits(5), solver="cp_sat", formulation=formulation).peak == kept
    assert solve(as_printed(whole), [0, 1], Limits(5), solver="cp_sat", formulation=formulation).peak == as_read


def test_missing_or_tools_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    import sys

    monkeypatch.setitem(sys.modules, "ortools.math_opt.python", None)
    whole = next(p for p in (problem_of(sample(s)[1]) for s in range(50)) if p.peak(range(p.n)) > p.floor)
    with pytest.raises(MissingExtraError, match="pip install 'ortools"):
        solve(whole, range(whole.n), Limits(5))
