"""What a plan of a training step says of ops that run in parts."""

from __future__ import annotations

from typing import Any

import msgspec

from lowtide.rewrites import Digest


class PlanFamily(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds of ops of a type: those of a cost file's family (`docs/contract.md`)."""

    launch_seconds: float
    seconds_per_flop: float
    seconds_per_byte: float
    overlapped: bool = False
    by_flops: list[tuple[float, float]] = []
    by_bytes: list[tuple[float, float]] = []


class PlanFission(msgspec.Struct, frozen=True, kw_only=True):
    """Ops that run in tiles, one tile after the other; op `op` of the plan takes the place of all of them.

    `ops` are the user's, in file order, each with the label that is cut; tile i has the rows from ``ends[i - 1]`` to
    ``ends[i]``. `body` is a plan of its own, of the largest tile: the workspace of the plan's op. Its ops and tensors
    have the user's ids, tensors the size of a tile; an op that copies rows of an operand, where they are not adjacent
    in memory, has the next free id.
    """

    op: int
    ops: list[tuple[int, str]]
    ends: list[int]
    body: dict[str, Any]


class PlanMerge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Products of one operand that run as one wider product, and what hangs on them likewise. All are ids, and those of
    `products`, `gradients` (of their weights), `updates`, `backs` (gradients of the operand), `turns` and `unturns`
    (transposes of the results, and those that make the gradients) are in the same order.

    None of these ops runs, nor `sums`, which added up the operand's gradients, the last one last. In their place are
    `ops`, in turn: the product; what takes its result apart, transposed as by `turns`; what puts the gradients
    together, transposed as by `unturns`; the operand's gradient, if there are `backs`, and sums with what else `sums`
    added; the weights' gradient; the update. `tensors` are new: weights, result, gradients, the operand's gradient and
    sums but the last where there are others, the weights' gradient, the updated weights.

    The weights are adjacent, in order, each contiguous: so the step has one input for all, and one result.
    """

    products: list[int]
    gradients: list[int]
    updates: list[int]
    backs: list[int] = []
    turns: list[int] = []
    unturns: list[int] = []
    sums: list[int] = []
    ops: list[int]
    tensors: list[int]


class PartsCut(msgspec.Struct, frozen=True, kw_only=False):
    """A minimum cut that shows what is needed when an op first runs in a given number of tiles of an axis of `rows`
    rows, from `fewest` to `most`; untiled: one tile of no rows. `price`: of a byte and of a unit of time
    (`docs/proofs.md`)."""

    op: int
    rows: int
    fewest: int
    most: int
    price: tuple[int, int]


class StepFission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step whose ops run in tiles: which, and what that costs by the families of a cost file.

    `overhead` is the fraction by which the plan takes longer than the unmodified step, `max_overhead` what was allowed.
    With `merged`, products of one operand run as one, and all but `uncut_seconds` is of the merged step. `floor_bytes`
    is a lower bound for every plan, whatever is cut or recomputed: the step's inputs are materialised when it starts,
    and its results when it ends. `least_peak_bytes` is a lower bound for plans within `max_overhead`, whatever they cut
    and recompute, in any order; `least_seconds` is one for plans within the budget. `cuts` prove them; without cuts
    `least_peak_bytes` is `floor_bytes`, and `least_seconds` is left out.
    """

    parts: list[PlanFission]
    families: dict[str, PlanFamily]
    cost_file: Digest
    device: str
    uncut_seconds: float
    predicted_seconds: float
    overhead: float
    floor_bytes: int
    max_overhead: float | None = None
    method: str = "joint"
    merged: list[PlanMerge] = []
    least_peak_bytes: int | None = None
    least_seconds: float | None = None
    cuts: list[PartsCut] = []
