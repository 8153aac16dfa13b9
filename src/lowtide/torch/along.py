"""Where the rows of a region lie in a tensor, and in what is seen of it.

::

    (batch * heads, n, n)    rows of `heads` entries of dimension 0
          |  view
    (batch, heads, n, n)     rows of one entry of dimension 0

Rows keep their place through a view if no row is taken apart and none goes between two others: then some rows of the
tensor, seen in the same way, are these rows of what is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from lowtide.read.aten.trace import Ref
from lowtide.torch.program import Call

_SHAPES = frozenset({"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze"})
"""Views that keep every element at its place in the order of all."""

_SIZED = frozenset({"view", "_unsafe_view", "reshape", "expand"})  # views whose second argument is a shape


@dataclass(frozen=True, slots=True)
class Along:
    """The dimension along which rows lie, and how many entries of it are one row."""

    dim: int
    each: int = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """One view of a chain: the call, and the shapes of what it takes and gives."""

    call: Call
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def name(self) -> str:
        """Of its operator."""
        return self.call.target.split(".")[1]

    def forth(self, along: Along) -> Along | None:
        """Where rows of what it takes lie in what it gives; None where they do not lie in one dimension."""
        if self.name in _SHAPES:
            return _reshaped(along, self.before, self.after)
        dims = self._dims()
        return replace(along, dim=dims.index(along.dim)) if dims is not None and along.dim in dims else None

    def back(self, along: Along) -> Along | None:
        """The same from what it gives to what it takes."""
        if self.name in _SHAPES:
            return _reshaped(along, self.after, self.before)
        dims = self._dims()
        dim = None if dims is None else dims[along.dim]
        return None if dim is None else replace(along, dim=dim)

    def _dims(self) -> list[int | None] | None:
        """For each dimension given the one taken that has the same entries; None: no view that is known."""
        name, rank = self.name, len(self.before)
        dims: list[int | None] = list(range(rank))
        if name in ("t", "transpose"):
            first, second = (self._dim(1, 0), self._dim(2, 1)) if name == "transpose" else (0, rank - 1)
            dims[first], dims[second] = dims[second], dims[first]
            return dims
        if name == "permute":
            return [int(d) % rank for d in self.call.args[1]]
        if name == "expand":
            ahead = len(self.after) - rank
            same = [self.before[d] == self.after[d + ahead] for d in range(rank)]
            return [*([None] * ahead), *(d if kept else None for d, kept in zip(range(rank), same, strict=True))]
        if name in ("split", "split_with_sizes", "slice", "narrow", "select"):
            at = self._dim({"slice": 1, "narrow": 1, "select": 1}.get(name, 2), 0)
            dims[at] = None
            return dims[:at] + dims[at + 1 :] if name == "select" else dims
        return None

    def _dim(self, position: int, default: int) -> int:
        args = self.call.args
        return (int(args[position]) if len(args) > position else default) % len(self.before)


def _reshaped(along: Along, shape: Sequence[int], other: Sequence[int]) -> Along | None:
    """Where rows lie in another shape of the same elements."""
    outer, inner = prod(shape[: along.dim]), along.each * prod(shape[along.dim + 1 :])
    rows = shape[along.dim] // along.each
    for dim, size in enumerate(other):
        behind = prod(other[dim + 1 :])
        if prod(other[:dim]) == outer and behind and inner % behind == 0 and size * behind == rows * inner:
            return Along(dim, inner // behind)
    return None


def forth(chain: Sequence[Seen], along: Along) -> Along | None:
    """Where rows of a tensor lie in what is seen of it."""
    place: Along | None = along
    for seen in chain:
        place = None if place is None else seen.forth(place)
    return place


def back(chain: Sequence[Seen], along: Along) -> Along | None:
    """Where rows of what is seen lie in the tensor."""
    place: Along | None = along
    for seen in reversed(chain):
        place = None if place is None else seen.back(place)
    return place


def part_seen(root: Ref, chain: Sequence[Seen], along: Along) -> Ref | Call:
    """Some rows of a tensor seen as all of it was: sizes follow from how many there are."""
    value: Ref | Call = root
    place: Along | None = along
    for seen in chain:
        assert place is not None
        place = seen.forth(place)
        assert place is not None
        if seen.name in _SIZED and seen.before == seen.after:
            continue
        args: list[Any] = [value, *seen.call.args[1:]]
        if seen.name in _SIZED:
            args[1] = tuple([-1 if d == place.dim else n for d, n in enumerate(seen.after)])
        value = replace(seen.call, args=tuple(args))
    return value
