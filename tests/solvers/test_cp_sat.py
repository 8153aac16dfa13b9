"""CP-SAT on a thread of its own: answers come back, and so do errors."""

import pytest

from lowtide.solvers.cp_sat import solve

cp_model = pytest.importorskip("ortools.sat.python.cp_model", reason="pip install '.[solvers]'")


def test_the_answer_comes_back():
    """Status and values are the solver's own."""
    model = cp_model.CpModel()
    x, y = model.new_int_var(0, 9, "x"), model.new_int_var(0, 9, "y")
    model.add(x + y == 7)
    model.maximize(x - y)
    solver = cp_model.CpSolver()
    assert solve(solver, model) == cp_model.OPTIMAL
    assert (solver.value(x), solver.value(y)) == (7, 0)
    model.add(x + y == 8)
    assert solve(cp_model.CpSolver(), model) == cp_model.INFEASIBLE


def test_an_error_of_the_solver_is_the_callers():
    """Not swallowed with the thread."""

    class Broken:
        def solve(self, model: object) -> None:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        solve(Broken(), None)  # type: ignore[arg-type]
