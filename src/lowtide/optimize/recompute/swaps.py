"""Values that may be stored in a slow memory and reloaded while ops run, and the clock of these transfers.

One engine stores and one loads, concurrently with the ops. The position of a store in a sequence is its end: until then
the value is resident. It began when the value was made and earlier stores were done. The position of a load is its
begin, after earlier loads, and it takes memory from there; a reader of the value waits for its end::

    ops       |--a--|--b--|--c--|-----|--d--|        x is made by a and read by d; only d waits for the load
    stores          [  x out ]
    loads                           [ x in ]
    sequence  a  b  c  S  .. L  d                     (L may not come before the memory that it takes is free)

The core's search has its own clock of this (`core/sequence/timeline.cc`), and so has `lowtide verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lowtide.graph import Kind
from lowtide.optimize.recompute.costs import Costs
from lowtide.optimize.recompute.sequence import Sequenced, Transfer

_NANO = 1_000_000_000


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per second to the slow memory and from it."""

    to_host: float
    from_host: float

    @property
    def per_nanosecond(self) -> tuple[Fraction, Fraction]:
        """Bytes each way."""
        return Fraction(self.to_host) / _NANO, Fraction(self.from_host) / _NANO


def nanoseconds(size: int, bytes_per_second: float) -> int:
    """A transfer, rounded up."""
    exact = Fraction(size) * _NANO / Fraction(bytes_per_second)
    return -(-exact.numerator // exact.denominator)


def with_swaps(problem: Sequenced, bandwidth: Bandwidth, *, recompute: bool = True) -> Sequenced:
    """The problem with stores of every value that one op makes and that is not live at the end. `problem`: whose costs
    are nanoseconds. `recompute`: whether ops may run more than once, too."""
    ops = problem.ops if recompute else tuple(replace(op, once=True) for op in problem.ops)
    rows = tuple(
        Transfer(x, nanoseconds(v.size, bandwidth.to_host), nanoseconds(v.size, bandwidth.from_host))
        for x, v in enumerate(problem.values)
        if movable(problem, x)
    )
    return replace(problem, ops=ops, transfers=rows)


def movable(problem: Sequenced, value: int) -> bool:
    """Whether a value may leave memory: no other op writes to it, and it is no input and no output."""
    v, graph = problem.values[value], problem.model.graph
    if v.maker < 0 or v.kept or v.shared or not v.size:
        return False
    tensors = [graph.tensor_by_id[t] for t in problem.model.storages[value].tensors]
    roots = [t for t in tensors if t.id in graph.ops[v.maker].outputs]
    return len(roots) == 1 and all(t.kind is not Kind.OUTPUT for t in tensors)


def in_nanoseconds(problem: Sequenced, each: Sequence[int]) -> Sequenced:
    """The problem with these times of its ops; a view takes none."""
    units = tuple(0 if op.view else cost for op, cost in zip(problem.ops, each, strict=True))
    return replace(problem, costs=Costs("nanoseconds", units, 1))


def clock(problem: Sequenced, order: Sequence[int]) -> int:
    """Nanoseconds of a sequence until its last op has ended: positions, and transfers as `Sequenced.transfer_of` has
    them."""
    there = dict.fromkeys(range(len(problem.values)), 0)
    now = storing = loading = 0
    for i in order:
        if i >= len(problem.ops):
            row, load = problem.transfer_of(i)
            if load:
                loading = there[row.value] = max(loading, now) + row.load
            else:
                storing = max(storing, there[row.value]) + row.store
                now = max(now, storing)
            continue
        op = problem.ops[i]
        now = max([now, *(there[x] for x in op.reads)]) + problem.costs.units[i]
        there.update(dict.fromkeys(op.makes, now))
    return max([now, *(there[x] for x, v in enumerate(problem.values) if v.kept)])
