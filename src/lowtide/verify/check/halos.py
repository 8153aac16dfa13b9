"""What recomputed rows add to a model's multiplications, counted part by part."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Op
from lowtide.ops.families import flops_of
from lowtide.ops.forms import Contraction, Convolution
from lowtide.ops.meaning import meaning
from lowtide.plan import Plan
from lowtide.rewrites import CutRegion


def check_halos(rounds: Sequence[tuple[Graph, Plan]], plan: Plan) -> str | None:
    """``halos``: the multiplications that the plan says it adds are those of its parts; None: no row runs twice.
    `rounds`: the graph that each round of the plan cuts, and what is said of it. Raises `VerificationError`: the plan
    gives another figure, or none where rows are recomputed."""
    extra, ops = Fraction(0), 0
    for graph, one in rounds:
        recomputed = [c for r in one.rewrites or () if isinstance(r, CutRegion) for c in r.ops if c.begins is not None]
        for c in recomputed:
            listed = [p.part for p in one.ops if p.part is not None and p.part.role == "part" and p.origin == [c.op]]
            rows = [row for part in listed for row in range(*(part.rows or (0, 0)))]
            twice, known = len(rows) - len(set(rows)), meaning(graph, graph.op_by_id[c.op])
            if twice and known is not None:
                extra += Fraction(_macs(graph, graph.op_by_id[c.op]) * twice, known.access.sizes[c.axis])
        ops += len(recomputed)
    given = plan.halos
    if not ops and given is None:
        return None
    macs = sum(_macs(rounds[0][0], op) for op in rounds[0][0].ops)
    if given is None or (given.macs, given.extra_macs) != (macs, extra):
        claim = "the plan says nothing" if given is None else f"the plan says {given.extra_macs:,} of {given.macs:,}"
        raise VerificationError("halos", f"recomputed rows add {extra} multiplications to {macs:,}; {claim}")
    return f"{ops:,} ops recompute rows: {100 * given.overhead:.3f} % more multiplications"


def _macs(graph: Graph, op: Op) -> int:
    known = meaning(graph, op)
    if known is None or not isinstance(known.form, Convolution | Contraction):
        return 0
    given = tuple([None if t is None else graph.tensor_by_id[t].shape for t in op.operands or op.inputs])
    return flops_of(known.form, given, tuple([graph.tensor_by_id[t].shape for t in op.outputs])) // 2
