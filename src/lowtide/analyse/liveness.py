"""Footprints of an order: the profile, its peak, who is live, and which ops run in place.

Source: the memory model of `docs/contract.md`; for the in-place rule, HMCOS (DAC 2022) and its released code's
accounting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.analyse.model import MemoryModel, Overwrite


@dataclass(frozen=True)
class Profile:
    """Footprint of every step of an order.

    Attributes
    ----------
    footprint
        Bytes live while each step runs, inputs, outputs and workspace together, less what is written in place.
    transient
        Bytes live after each step.
    first, last
        Per storage, the steps between which it is live (both inclusive; -1: from before step 0; the number of
        steps: to the end).
    in_place
        The overwrites that the order makes possible, at most one per op, those that save most.
    """

    footprint: tuple[int, ...]
    transient: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    in_place: tuple[Overwrite, ...]

    @property
    def peak(self) -> int:
        """Largest footprint, in bytes; 0 for a graph without ops."""
        return max(self.footprint, default=0)

    @property
    def peak_step(self) -> int:
        """First step with the largest footprint."""
        return self.footprint.index(self.peak)


def profile(model: MemoryModel, order: Sequence[int]) -> Profile:
    """Footprints of an order given as positions in own order.

    Parameters
    ----------
    model
        Graph under a target.
    order
        Each position once, topological (not checked here: `lowtide.verify` does).
    """
    n = len(order)
    step_of = [0] * n
    for step, i in enumerate(order):
        step_of[i] = step
    begun, ended = [0] * (n + 1), [0] * (n + 1)
    first, last = [], []
    for s in model.storages:
        steps = [step_of[i] for i in s.users]
        begin = -1 if s.at_start else min(steps)
        end = n if s.at_end else max(steps)
        first.append(begin)
        last.append(end)
        begun[max(begin, 0)] += s.size
        ended[min(end, n)] += s.size
    footprint, transient, chosen = [], [], []
    live = 0
    for step, i in enumerate(order):
        live += begun[step]
        best: Overwrite | None = None
        for o in model.overwrites[i]:
            if last[o.storage] == step and (best is None or o.saving > best.saving):
                best = o
        if best is not None:
            chosen.append(best)
        footprint.append(live + model.workspace[i] - (best.saving if best else 0))
        live -= ended[step]
        transient.append(live)
    return Profile(tuple(footprint), tuple(transient), tuple(first), tuple(last), tuple(chosen))


def largest_single_op(model: MemoryModel) -> int:
    """Bytes that some op needs in any order: its own storages and workspace, in place where it may be."""
    most = 0
    for i, touched in enumerate(model.touched):
        own = sum(model.storages[s].size for s in touched) + model.workspace[i]
        saving = max((o.saving for o in model.overwrites[i]), default=0)
        most = max(most, own - saving)
    return most
