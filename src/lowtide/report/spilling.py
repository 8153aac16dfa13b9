"""A plan with spilling as text: what the fast memory holds, the traffic and its bound, and the moves as a table."""

from __future__ import annotations

from lowtide.plan import Plan
from lowtide.report.columns import columns
from lowtide.report.cuts import cut_text
from lowtide.rewrites import Recompute, in_parts
from lowtide.sizes import format_count, format_size

MOST_MOVES = 40  # rows of the table, unless all are requested
MOST_NAMED = 3  # tensors that are named of those entirely on the host


def spilling_text(plan: Plan, *, verbose: bool = False) -> str:
    """Sizes, traffic, proof, moves."""
    moves, memories = plan.moves or [], plan.memories or []
    traffic, bound = plan.traffic_bytes or 0, plan.traffic_lower_bound_bytes or 0
    rows = [
        ("model", f"{plan.graph}, {format_count(len(plan.order), 'op')}"),
        ("target", f"{plan.target}, alignment {plan.alignment}{_rules(plan)}"),
        ("method", f"{plan.method}, {_ended(plan)}"),
        ("file order peak", format_size(plan.own_order_peak_bytes)),
    ]
    rows += [(m.name, f"{format_size(m.size_bytes or 0)} used of {format_size(m.capacity_bytes)}") for m in memories]
    gap = "" if traffic == bound else f", {100 * (traffic - bound) / bound:,.1f} % above the bound" if bound else ""
    if plan.exactness and in_parts(plan.rewrites):
        rows.append(("tiles", cut_text(plan)))
    rows += [
        ("traffic", f"{format_size(traffic)} in {format_count(len(moves), 'move')}{_streams(plan)}{gap}"),
        ("traffic bound", f"{format_size(bound)}: {_proof(plan)}"),
        ("seconds", f"read {plan.seconds.read:.2f}, plan {plan.seconds.schedule:.2f}, total {plan.seconds.total:.2f}"),
    ]
    if any(isinstance(r, Recompute) for r in plan.rewrites or ()):
        names = {op.id: op.name or f"op {op.id}" for op in plan.ops}
        rows.append(("recomputed", ", ".join(names[r.of] for r in plan.rewrites or () if isinstance(r, Recompute))))
    if plan.figures.stall_seconds is not None:
        rows.append(("transfers", _transfers(plan)))
    if verbose:
        rows += [(key.replace("_", " "), str(value)) for key, value in (plan.search or {}).items()]
    width = max(len(key) for key, _ in rows)
    return "\n".join([columns([(key.ljust(width), text) for key, text in rows]), *_moves(plan, verbose)])


def _streams(plan: Plan) -> str:
    """Tensors that are resident on the host, and are moved in slices."""
    if not plan.streams:
        return ""
    names = {t.id: t.name or f"tensor {t.id}" for t in plan.tensors}
    moved = sum(s.stored_bytes + s.loaded_bytes for s in plan.streams)
    listed = ", ".join(names.get(s.tensor, f"tensor {s.tensor}") for s in plan.streams[:MOST_NAMED])
    rest = f" and {len(plan.streams) - MOST_NAMED:,} more" if len(plan.streams) > MOST_NAMED else ""
    return f", {format_size(moved)} of it in slices of {listed}{rest}"


def _transfers(plan: Plan) -> str:
    figures = plan.figures
    return (
        f"{figures.transfer_seconds:.6f} s, of which ops wait {figures.stall_seconds or 0.0:.6f} s; "
        f"{format_size(figures.hidden_bytes)} hidden behind {figures.compute_seconds:.6f} s of ops"
    )


def _moves(plan: Plan, verbose: bool) -> list[str]:
    moves = plan.moves or []
    if not moves:
        return []
    names = {t.id: t.name or f"tensor {t.id}" for t in plan.tensors}
    ops = {op.id: op.name or f"op {op.id}" for op in plan.ops}
    shown = moves if verbose else moves[:MOST_MOVES]
    table = [("step", "before", "move", "tensor", "bytes", "from", "to")]
    table += [
        (
            str(m.step), ops[plan.order[m.step]] if m.step < len(plan.order) else "the end", m.kind, names[m.tensor],
            f"{m.bytes:,}", m.source, m.goal,
        )
        for m in shown
    ]  # fmt: skip
    rest = [] if len(shown) == len(moves) else [f"and {len(moves) - len(shown):,} more; all with -v or --plan"]
    return ["", columns(table, right=[0, 4]), *rest]


def _rules(plan: Plan) -> str:
    semantics = plan.spilling
    if semantics is None:
        return ""
    words = [
        ("parameters in the fast memory", semantics.parameters),
        ("every spill writes", not semantics.write_once),
        ("inputs have no copy", not semantics.inputs_have_copy),
        ("outputs written at the end", not semantics.outputs_written_early),
        ("outputs end in the fast memory", semantics.outputs_end_fast),
    ]
    lead = f", fills begin {format_count(semantics.lead, 'step')} early" if semantics.lead else ""
    return "".join(f", {text}" for text, holds in words if holds) + lead


def _ended(plan: Plan) -> str:
    states = plan.figures.states
    how = {"proof": "ended by proof", "complete": "ended without proof"}.get(plan.stopped, f"stopped by {plan.stopped}")
    return how if states is None else f"{how}, {format_count(states, 'state')}"


def _proof(plan: Plan) -> str:
    proof = plan.traffic_proof
    # What is moved in slices is the same in each order.
    without = "every order moves these slices" if plan.traffic_bytes else "nothing is moved"
    text = {
        "search": "a search over all orders",
        "windows": f"{len(proof.parts) if proof else 0} sections of the graph, one by one",
        "phases": f"{len(proof.parts) if proof else 0} phases between ops that run in turn",
        "peak": "the bytes live at once in every order",
        "solver": "a solver",
        "none": without if plan.optimal else "nothing is proved",
    }.get(proof.kind if proof else "none", "")
    of_parts = " of these tiles" if plan.exactness and in_parts(plan.rewrites) else ""
    return f"no order{of_parts} has less ({text})" if plan.optimal else f"{text}{',' if of_parts else ''}{of_parts}"
