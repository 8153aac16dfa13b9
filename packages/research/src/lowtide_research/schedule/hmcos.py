"""HMCOS: hierarchical memory-constrained operator scheduling (Wang et al., DAC 2022), written from the paper.

The ops are joined to sequences, the sequences put into groups, and the graph of groups is scheduled by dynamic
programming; then the groups at the peak are dissolved, and it is scheduled again::

    ops --join--> sequences --cells, borders--> groups --schedule--> order --peak--> dissolve groups, once more
        (3.1.1)              (3.1.2)             (Algorithm 2)               (Algorithm 1)

The work is done in the C++ core (``core/papers/hmcos*``), which shares no search with the exact scheduler. It optimises
within its hierarchy and proves nothing.

Where the paper is silent or wrong, this is what happens here:

- Algorithm 1 as printed leaves its loop before it keeps the last schedule; here the schedule is kept first. A graph
  without groups gets the schedule of its only iteration (as printed: none).
- Algorithm 1 dissolves the groups of the ops that make what is alive at the peak (with several steps at the peak: the
  first). With that alone AmoebaNet-A (CIFAR) stays at 1.195 MiB. By default the groups that use it next, at the peak
  or later, are dissolved too. This reading was chosen because it gives all of the paper's figures: peaks and numbers
  of iterations of its six networks, and 1.83 MiB for NASNet-A (CIFAR) alone under configuration 3. They hang on how
  ties are broken, so another reading may have given them. ``dissolve="makers"`` is the printed rule, ``"users"``
  takes all users' groups (and gives 1.704 MiB under configuration 3).
- A value from outside counts as dying in a sequence if only predecessors of its first op touch it too: that is what
  holds in every schedule (3.1.1 does not say).
- Cells: the paper takes their scopes from the network's author: give them in a file (`scopes`; the output vertex is the
  last op of a cell in the file's order, and sequences end at a cell's border). Without, a sequence that begins with one
  of the types in `cell_output` is a cell's output vertex, and the cell is what it needs and no earlier cell has.
- Step 3 of the grouping: the subset is found by a minimum cut, the largest one where several weigh the same; it does
  not go on past the output vertex of another cell. A group of one sequence is no group.
- What an op reads without anyone making it (a graph input) makes no group dissolve by its making.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lowtide import _core
from lowtide.analyse.storage import MemoryModel
from lowtide.schedule.method import Schedule, core_model
from lowtide.schedule.order import Rpo
from lowtide.stop import Limits, Progress
from lowtide_research.schedule.scopes import read_scopes

Hierarchy = Literal["none", "sequences", "cells", "groups"]
Dissolve = Literal["next", "users", "makers"]


@dataclass(frozen=True)
class Hmcos:
    """HMCOS's iterative scheduling of a hierarchical graph. Never worse than reverse post-order."""

    name: ClassVar[str] = "hmcos"
    slow: ClassVar[bool] = True
    left_counter: ClassVar[str] = "sequences"

    # Levels: none, sequences (3.1.1), sequences in cells (3.1.2, step 1), or the paper's groups (steps 1 to 4).
    hierarchy: Hierarchy = "groups"
    # Which groups Algorithm 1 takes apart: those that make what is alive at the peak and those that use it ``"next"``,
    # or all its ``"users"``; or, as printed, only its ``"makers"``.
    dissolve: Dissolve = "next"
    soft_budget: bool = True  # optimisation 1: what exceeds the last iteration's peak is dropped
    # Optimisation 2: a group gets its reverse post-order where that does not lift the peak so far.
    simple_first: bool = True
    # Optimisation 3: a group's schedules are kept by value context (equation 6), across states and iterations.
    memo: bool = True
    # Op types, separated by commas, of which one stands at the end of each cell.
    cell_output: str = "Concat,CONCATENATION,aten.cat"
    # JSON file with the cells: ``{"cell": [ops], ...}``, ops by name or id. Ops in none of them stay free sequences.
    scopes: str = ""

    @property
    def switches(self) -> dict[str, bool]:
        """The options as the core takes them."""
        return {
            "sequences": self.hierarchy != "none",
            "cells": self.hierarchy in ("cells", "groups"),
            "borders": self.hierarchy == "groups",
            "next": self.dissolve == "next",
            "users": self.dissolve == "users",
            "budget": self.soft_budget,
            "simple": self.simple_first,
            "memo": self.memo,
        }

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph is supported; without cells it has no groups, and takes long where it is wide."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Schedule until no group is dissolved, or the limits are reached. The counters hold the sizes of the
        hierarchy and, per iteration, what the paper's Figure 5 shows (peak, seconds, sequences freed from their
        groups) with states, vertices expanded and uses of each optimisation."""
        result = self.hierarchical(model, limits)
        iterations = result.iterations
        counters = {
            "sequences": len(result.sequences),
            "cells": result.cells,
            "borders": result.borders,
            "groups": len(result.groups),
            "start_peak_bytes": result.start_peak_bytes,
            "kept_start": result.kept_start,
            "expanded": sum(i.expanded + i.group_expanded for i in iterations),
            "states": sum(i.states + i.group_states for i in iterations),
            "search_memory_bytes": result.memory_bytes,
            "iterations": [{name: getattr(i, name) for name in i.__match_args__} for i in iterations],
        }
        return Schedule(order=tuple(result.order), stopped=result.stopped, counters=counters)

    def hierarchical(self, model: MemoryModel, limits: Limits) -> _core.HmcosResult:
        """The core's whole answer. Beside the order it has ``sequences``, each a list of positions of ops, and
        ``groups``, each a list of numbers of sequences."""

        def report(best: int, seconds: float) -> bool:
            try:
                if limits.report is not None:
                    limits.report(Progress(best, 0, seconds))
            except KeyboardInterrupt:
                return True
            return False

        if self.scopes and self.hierarchy in ("cells", "groups"):
            scope = read_scopes(self.scopes, model.graph)
            last = {cell: v for v, cell in enumerate(scope) if cell >= 0}
            ends_cell = [last.get(cell) == v for v, cell in enumerate(scope)]
        else:
            types = frozenset(part.strip() for part in self.cell_output.split(","))
            ends_cell, scope = [_without_overload(op.type) in types for op in model.graph.ops], []
        return _core.hmcos(
            core_model(model),
            rpo=Rpo().schedule(model, limits).order,
            cell_output=ends_cell,
            scope=scope,
            switches=self.switches,
            seconds=limits.left_seconds,
            memory_bytes=limits.memory_bytes,
            report=report,
        )


def _without_overload(op_type: str) -> str:
    return ".".join(op_type.split(".")[:2]) if op_type.startswith("aten.") else op_type


def configurations() -> dict[int, Hmcos]:
    """The option sets of the paper's ablation (Table 2), by number; 4 is the complete one.

    >>> configurations()[3].hierarchy
    'cells'
    """
    return {
        1: Hmcos(hierarchy="none"),
        2: Hmcos(hierarchy="sequences"),
        3: Hmcos(hierarchy="cells"),
        4: Hmcos(),
        5: Hmcos(soft_budget=False),
        6: Hmcos(simple_first=False),
        7: Hmcos(memo=False),
    }
