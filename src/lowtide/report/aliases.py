"""The aliases of a plan, as text."""

from __future__ import annotations

from lowtide.names import shorten
from lowtide.plan import Plan, PlanOp, PlanTensor
from lowtide.rewrites import TensorAlias
from lowtide.sizes import format_count, format_size

MOST_NAMED = 3  # tensors that are named, the largest; `-v` names all
_WIDTH = 32


def aliases_of(plan: Plan) -> list[TensorAlias]:
    """What a plan has in others."""
    return [r for r in plan.rewrites or () if isinstance(r, TensorAlias)]


def alias_rows(plan: Plan, *, verbose: bool) -> list[tuple[str, str]]:
    """How many tensors lie in others, which, where, and what the best order needs without; none without aliases."""
    aliases = aliases_of(plan)
    if not aliases:
        return []
    without = plan.figures.unaliased_peak_bytes
    best = "" if without is None else f"; the best order without: {format_size(without)}"
    strided = sum(r.pitch is not None for r in aliases)
    rows = f", {strided:,} row by row" if strided else ""
    least = "; no choice of them needs less" if plan.figures.aliases_least else ""
    tensors, ops = {t.id: t for t in plan.tensors}, {op.id: op for op in plan.ops}
    largest = sorted(aliases, key=lambda r: (-tensors[r.tensor].size, r.tensor))
    shown = largest if verbose else largest[:MOST_NAMED]
    named = [("", _alias_text(r, tensors[r.tensor], tensors[r.of], ops[r.op])) for r in shown]
    more = len(aliases) - len(shown)
    named += [("", f"and {more:,} smaller (-v names them all)")] if more else []
    return [("lies in", f"{format_count(len(aliases), 'tensor')} in others{rows}{best}{least}"), *named]


def _alias_text(alias: TensorAlias, tensor: PlanTensor, of: PlanTensor, op: PlanOp) -> str:
    """One of them, in the model's own names."""
    pitch = "" if alias.pitch is None else f", rows {alias.pitch:,} B apart"
    return (
        f"{shorten(tensor.name, _WIDTH)} ({format_size(tensor.size)}) in {shorten(of.name, _WIDTH)} "
        f"from byte {alias.offset:,}{pitch}: {op.type or 'op'} {shorten(op.name, _WIDTH)}"
    )
