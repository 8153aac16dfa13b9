"""Integer programs against all their points, on each solver that comes with OR-tools."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from lowtide.stop import Limits
from lowtide_research.solvers.linear import Linear, build, run

pytest.importorskip("ortools", reason="pip install '.[solvers]'")


def _random_program(rng: Random) -> Linear:
    program = Linear()
    columns = [program.column(rng.randint(1, 3)) for _ in range(rng.randint(1, 4))]
    program.lower = {c: 1 for c in columns if rng.random() < 0.2}
    for _ in range(rng.randint(0, 4)):
        row = {c: rng.randint(-3, 3) for c in rng.sample(columns, rng.randint(1, len(columns)))}
        (program.at_most if rng.random() < 0.5 else program.at_least)(rng.randint(-2, 6), row)
    program.objective = {c: rng.randint(-4, 4) for c in columns}
    return program


def _least(program: Linear) -> int | None:
    """By trying every point."""
    points = product(*(range(program.lower.get(c, 0), upper + 1) for c, upper in enumerate(program.upper)))
    best = None
    for point in points:
        rows = [(low, sum(f * point[c] for c, f in row.items()), high) for low, high, row in program.rows]
        if all((low is None or low <= at) and (high is None or at <= high) for low, at, high in rows):
            cost = sum(f * point[c] for c, f in program.objective.items())
            best = cost if best is None else min(best, cost)
    return best


@pytest.mark.parametrize("solver", ["highs", "scip", "cp_sat"])
def test_the_least_point_is_found(solver: str):
    """Its value, a bound equal to it, or the proof that there is none."""
    rng, infeasible = Random(1), 0
    for _ in range(25):
        program = _random_program(rng)
        least = _least(program)
        model, columns = build(program, "a test")
        values, bound, status = run(model, columns, {}, solver, 20.0, Limits(20.0), (0, 0))  # type: ignore[arg-type]
        if least is None:
            assert (values, status) == (None, "infeasible")
            infeasible += 1
            continue
        assert status == "optimal"
        assert values is not None
        assert round(sum(f * values[c] for c, f in program.objective.items())) == least
        assert bound == pytest.approx(least)
    assert 0 < infeasible < 25


def test_an_interrupt_is_heard():
    """A report that raises Ctrl-C ends the run, with what there is by then."""
    rng = Random(2)
    program = Linear()
    columns = [program.column() for _ in range(60)]
    for _ in range(40):
        program.at_least(rng.randint(8, 12), {c: rng.randint(1, 5) for c in rng.sample(columns, 12)})
    program.objective = {c: rng.randint(10, 99) for c in columns}

    def press(_: object) -> None:
        raise KeyboardInterrupt

    model, variables = build(program, "a test")
    status = run(model, variables, {}, "cp_sat", 30.0, Limits(30.0, report=press), (0, 0))[2]
    assert status in ("interrupt", "optimal")
