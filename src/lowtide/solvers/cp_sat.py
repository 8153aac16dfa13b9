"""CP-SAT on a thread of its own, so that Ctrl-C is heard while it works. Needs the extra `solvers`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

POLL_SECONDS = 0.1  # how often the thread that waits looks up

PATIENCE_SECONDS = 5.0
"""How long to wait for a solver that was told to stop: a process that ends while it runs is aborted."""


def solve(solver: cp_model.CpSolver, model: cp_model.CpModel) -> cp_model.CpSolverStatus:
    """Solve on one thread beside this one, which waits and hears Ctrl-C; the solver itself would not until its end.
    Raises `KeyboardInterrupt`: Ctrl-C. The solver is told to end, and waited for no longer than `PATIENCE_SECONDS`."""
    outcome: list[Any] = []
    ended = threading.Event()  # an interrupted `join` may take the thread for ended that is not (Python 3.11)

    def work() -> None:
        try:
            outcome.append(solver.solve(model))
        except BaseException as error:
            outcome.append(error)
        finally:
            ended.set()

    try:
        threading.Thread(target=work, daemon=True).start()
        while not ended.wait(POLL_SECONDS):
            pass
    except KeyboardInterrupt:
        solver.stop_search()
        ended.wait(PATIENCE_SECONDS)
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
