"""Sweeps: many models under many targets, budgets and options, as one table that can be gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.api.sweeps.rows import Journal, csv_bytes, grid, model_names, parquet_bytes
from lowtide.api.sweeps.workers import Done, cores, in_cluster, in_processes, in_turn
from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.outputs import Outputs

NOTHING_VARIED: Mapping[str, Sequence[Any]] = {}


@dataclass(frozen=True)
class Sweep:
    """The rows of a sweep, in the order of its grid; each has the keys of `lowtide.api.sweeps.rows.COLUMNS`."""

    rows: list[dict[str, Any]]  # those that are done
    total: int  # how many the grid has: more than `rows` after Ctrl-C
    kept: int = 0  # how many an earlier run had done
    interrupted: bool = False  # whether Ctrl-C ended it; with a table the same call goes on

    @property
    def errors(self) -> int:
        """How many rows are errors."""
        return sum(row["status"] == "error" for row in self.rows)

    @property
    def exit_status(self) -> int:
        """0 if every row has a plan, 2 if one is an error, 130 if interrupted; budgets are the rows' matter."""
        return 130 if self.interrupted else 2 if self.errors else 0

    def __str__(self) -> str:
        from lowtide.report.curve import sweep_text

        return sweep_text(self.rows)

    def __repr__(self) -> str:
        return f"Sweep(rows={len(self.rows)}, total={self.total}, kept={self.kept}, errors={self.errors})"


@typed
def sweep(
    models: Sequence[str | Path],
    *,
    targets: Sequence[str] = ("auto",),
    budgets: Sequence[str | int | None] = (None,),
    vary: Mapping[str, Sequence[Any]] = NOTHING_VARIED,
    out: str | Path | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    fresh: bool = False,
    report: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Plan every model under every target, budget and choice of options.

    Parameters
    ----------
    models
        What `lowtide.research.plan` takes by name, and folders, which stand for the models below.
    targets, budgets
        Each with each; the budget None is none.
    vary
        Options of `lowtide.research.plan`, each with its values, as ``{"seed": [0, 1], "allow": ["", "tile"]}``.
    out
        The table, ``.csv`` or ``.parquet``, written once all rows are there. Until then finished rows are in
        ``OUT.journal``; the same call goes on from there.
    jobs
        Processes; as many as there are cores by default. 1: in this one.
    scheduler
        Address of a Dask scheduler, whose workers do it instead. They have to see the models under the same paths.
    fresh
        Forget the journal of an earlier run.
    report
        Called with how many rows are done, and how many there are.

    Raises
    ------
    InputError
        The grid is wrong, or a file cannot be written. What is wrong with a model is in its rows.

    Examples
    --------
    >>> import lowtide
    >>> table = lowtide.research.sweep(["zoo:swiftnet_cell_a", "zoo:swiftnet_cell_b"], targets=["strict"], jobs=1)
    >>> [(row["graph"], row["peak_bytes"]) for row in table.rows]
    [('swiftnet_cell_a', 200704), ('swiftnet_cell_b', 81536)]
    """
    tasks = grid(model_names(map(str, models)), targets, budgets, vary)
    _check(out, jobs, scheduler)
    journal = None if out is None else Journal(out)
    done = {} if journal is None or fresh else journal.rows()
    done = {task.key: done[task.key] for task in tasks if task.key in done}
    kept, left = len(done), [task for task in tasks if task.key not in done]
    if out is not None:
        with Outputs() as outputs:  # that the table cannot be written is found out now, not after an hour
            outputs.write(out, b"")
            outputs.discard()
    file = None if journal is None else journal.open(keep=not fresh)
    interrupted = False
    try:
        for task, row in _ended(left, jobs or cores(), scheduler):
            done[task.key] = row
            if file is not None:
                Journal.append(file, task, row)
            if report is not None:
                report(len(done), len(tasks))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if file is not None:
            file.close()
    rows = [done[task.key] for task in tasks if task.key in done]
    if out is not None and journal is not None and not interrupted:
        with Outputs() as outputs:
            outputs.write(out, parquet_bytes(rows) if str(out).endswith(".parquet") else csv_bytes(rows))
        journal.remove()
    return Sweep(rows, len(tasks), kept, interrupted)


def _ended(left: Sequence[Any], jobs: int, scheduler: str | None) -> Iterator[Done]:
    if not left:
        return iter(())
    if scheduler is not None:
        return in_cluster(left, scheduler)
    return in_turn(left) if jobs == 1 else in_processes(left, min(jobs, len(left)))


def _check(out: str | Path | None, jobs: int | None, scheduler: str | None) -> None:
    if out is not None and not str(out).endswith((".csv", ".parquet")):
        raise InputError("a table ends in .csv or .parquet; name it so", str(out))
    if out is not None and str(out).endswith(".parquet"):
        parquet_bytes([])  # that pyarrow is missing is found out now
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs is {jobs}; give 1 or more")
    if scheduler is not None and jobs is not None:
        raise InputError("--jobs is for this machine, and --scheduler has workers of its own; give one")
