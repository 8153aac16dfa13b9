"""Footprints of an order: the profile, its peak, who is live, and which ops run in place.

Source: the memory model of `docs/contract.md`; for the in-place rule, HMCOS (DAC 2022) and its released code's
accounting.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from lowtide.analyse.model import MemoryModel, Overwrite


@dataclass(frozen=True)
class Profile:
    """Footprint of every step of an order."""

    # Bytes live while each step runs, inputs, outputs and workspace together, less what is written in place.
    footprint: tuple[int, ...]
    transient: tuple[int, ...]  # bytes live after each step
    # first, last: per storage, the steps between which it is live (both inclusive; -1: from before step 0; the number
    # of steps: to the end).
    first: tuple[int, ...]
    last: tuple[int, ...]
    # The overwrites that the order makes possible, at most one per op, those that save most.
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
    """Footprints of an order given as positions in file order. `model`: graph under a target. `order`: each position
    once, topological (that it is topological is not checked here: `lowtide.verify` does)."""
    lives = model.core.profile(order)
    in_place = tuple(model.overwrites[i][k] for i, k in lives.in_place)
    return Profile(tuple(lives.footprint), tuple(lives.transient), tuple(lives.first), tuple(lives.last), in_place)


def restricted(model: MemoryModel, pairs: Container[tuple[int, int]]) -> MemoryModel:
    """The model with only such in-place choices as `pairs` of an output's and an input's id allow."""
    overwrites = tuple(tuple(o for o in row if (o.output, o.input) in pairs) for row in model.overwrites)
    return replace(model, overwrites=overwrites)


def alone(model: MemoryModel, at: int) -> int:
    """Bytes that the op at a position needs in any order: its own storages and workspace, in place where it may be."""
    own = sum(model.storages[s].size for s in model.touched[at]) + model.workspace[at]
    return own - max((o.saving for o in model.overwrites[at]), default=0)


def largest_single_op(model: MemoryModel) -> int:
    """Bytes that some op needs in any order: its own storages and workspace, in place where it may be."""
    most, size = 0, [s.size for s in model.storages]
    for touched, workspace, overwrites in zip(model.touched, model.workspace, model.overwrites, strict=True):
        own = sum([size[s] for s in touched]) + workspace
        if own > most:
            most = max(most, own - max((o.saving for o in overwrites), default=0))
    return most
