"""Recomputed halos: the multiplications that they add to a model."""

from __future__ import annotations

from collections.abc import Iterable

from lowtide.ops.families import flops_of
from lowtide.ops.forms import Contraction, Convolution
from lowtide.rewrites import PlanHalos
from lowtide.transform.cut import Cut, Cutter, Region


def halos_of(cutter: Cutter, regions: Iterable[Region]) -> PlanHalos | None:
    """Recomputed multiplications of convolutions and products; None: every row runs once."""
    recomputed = [cut for region in regions for cut in region.cuts if cut.begins]
    if not recomputed:
        return None
    return PlanHalos(macs=macs_of(cutter), extra_macs=sum(_extra_macs(cutter, cut) for cut in recomputed))


def macs_of(cutter: Cutter) -> int:
    """Multiplications of the convolutions and products of a graph."""
    return sum(_macs(cutter, op.id) for op in cutter.graph.ops)


def _macs(cutter: Cutter, op_id: int) -> int:
    known, graph, op = cutter.meaning(op_id), cutter.graph, cutter.graph.op_by_id[op_id]
    if known is None or not isinstance(known.form, Convolution | Contraction):
        return 0
    given = tuple([None if t is None else graph.tensor_by_id[t].shape for t in op.operands or op.inputs])
    return flops_of(known.form, given, tuple([graph.tensor_by_id[t].shape for t in op.outputs])) // 2


def _extra_macs(cutter: Cutter, cut: Cut) -> int:
    known = cutter.meaning(cut.op)
    assert known is not None, cut
    ran = sum(b - a for a, b in map(cut.rows, range(len(cut.ends))))
    return _macs(cutter, cut.op) * (ran - cut.ends[-1]) // known.access.sizes[cut.axis]
