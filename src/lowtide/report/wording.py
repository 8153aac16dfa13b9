"""The text next to a picture, on a page and on a terminal: its numbers, how sure they are, and under which rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lowtide.certificates import CutCertificate, SearchCertificate
from lowtide.plan import Plan, RuntimeFigure
from lowtide.report.columns import change
from lowtide.report.comparison import why_apart
from lowtide.report.cuts import EXACTNESS
from lowtide.report.figures import NOBODYS, figures_line
from lowtide.report.text import RUNTIME_ARENA, over_what, parts_text, proof_text, recomputed_text
from lowtide.report.view import PlanView
from lowtide.rewrites import recomputes_ops
from lowtide.sizes import format_count, format_size


def made_line(view: PlanView) -> str:
    """How many ops of whose rules, how the plan was made, and what it changes."""
    plan = view.plan
    edits = ", ".join(f"{count:,} {what}" for what, count in view.edits.items())
    ops = format_count(view.steps, "op")
    if view.repeated:  # each of which is a step of the picture
        parts = " or ".join(f"{count:,}" for count in sorted({count for _, _, count in view.repeated}))
        edits = edits.replace("in tiles", f"in {parts} tiles", 1)
        ops = f"{format_count(len(view.own_order_bytes), 'op')} in {format_count(view.steps, 'step')}"
    line = f"{ops}, target {plan.target}, method {plan.method}, status {plan.status}"
    return f"{line}; {edits}" if edits else line


def today_line(figures: Sequence[RuntimeFigure]) -> str:
    """What the runtime takes for the unmodified file, and with the plan: what a reader came to see."""
    pairs = [
        f"{f.what} {f.default_bytes:,} B"
        + ("" if f.planned_bytes is None else f" → {f.planned_bytes:,} B ({change(f.default_bytes, f.planned_bytes)})")
        for f in figures
    ]
    return f"{figures[0].runtime} today → with this plan: {', '.join(pairs)}"


def numbers(view: PlanView, before: PlanView | None = None) -> list[tuple[str, int, str]]:
    """The figures of a plan, each with its name, bytes and a note: peaks, bound or traffic, arena, and what fits."""
    plan = view.plan
    what = "most in the fast memory" if plan.moves is not None else "peak"
    rows = [
        ("file order's peak", plan.own_order_peak_bytes, ""),
        (what, plan.peak_bytes, change(plan.own_order_peak_bytes, plan.peak_bytes)),
    ]
    if before is not None:
        apart = why_apart(before.plan, plan)
        rows[1:1] = [("the other plan's peak", before.plan.peak_bytes, apart)]
        if not apart:
            versus = change(before.plan.peak_bytes, plan.peak_bytes)
            rows[-1] = (what, plan.peak_bytes, f"{versus} compared with the other")
    if plan.moves is None:
        rows.append(
            ("lower bound", plan.lower_bound_bytes, f"proved optimal{over_what(plan)}" if plan.optimal else "not met")
        )
    else:
        rows.append(("traffic", plan.traffic_bytes or 0, "proved optimal" if plan.optimal else "not proved optimal"))
    if plan.arena_bytes is not None and plan.memories is None:
        above = plan.arena_bytes - plan.peak_bytes
        rows.append(("arena", plan.arena_bytes, f"{above:,} B above the peak" if above else "the peak"))
    for name, size in fits(view):
        spare = name == "excess" and size <= 0
        rows.append(
            ("to spare" if spare else name, abs(size), "over the budget" if name == "excess" and not spare else "")
        )
    return rows


def peak_line(view: PlanView) -> str:
    """How high the peak is, and what runs there."""
    op = view.ops[view.peak_step]
    kind = f" ({op.type})" if op.type else ""
    return f"{view.peak_bytes:,} B at step {view.peak_step:,}, while {op.name}{kind} runs"


def share_of(view: PlanView) -> tuple[str, int]:
    """What the groups of the peak are shares of, and its bytes: the room that there is, or else the peak."""
    if view.room_bytes:
        return ("the fast memory" if view.plan.moves is not None else "the budget's room"), view.room_bytes
    return "the peak", view.peak_bytes


def proof_sentence(plan: Plan) -> str:
    """Why no order is better, or how far that is open, for a person to follow."""
    if plan.moves is not None:
        return _traffic_sentence(plan)
    if plan.recomputation is not None:
        return f"Recomputed: {recomputed_text(plan)}. {_peak_sentence(plan)}"
    return _peak_sentence(plan)


def _peak_sentence(plan: Plan) -> str:
    bound, certificate = format_size(plan.lower_bound_bytes), plan.certificate
    said = proof_text(plan)
    said = f"{said[0].upper()}{said[1:]}."
    if isinstance(certificate, CutCertificate):
        name = next((op.name or f"op {op.id}" for op in plan.ops if op.id == certificate.op), f"op {certificate.op}")
        return (
            f"{said} Every order runs {name} at some step. All ops that it depends on run before that step. The "
            f"tensors that they leave for it and for later ops take at least {bound}, whichever other ops ran before: "
            "a minimum cut proves it, and `lowtide verify` checks the flow in linear time."
        )
    if isinstance(certificate, SearchCertificate):
        return (
            f"{said} Every order that needs less than {bound} was ruled out by a search of "
            f"{format_count(certificate.states, 'state')}; `lowtide verify --prove` repeats the proof with a "
            "second, plain search."
        )
    if plan.optimal:
        return f"{said} One op alone needs this much, in any order."
    ended = {
        "time": "it reached its time limit",
        "memory": "it reached its memory limit",
        "interrupt": "it was interrupted",
        "stalled": "it had found nothing better for a while",
    }
    why = ended.get(plan.stopped, "its method had nothing left to try")
    return f"{said} The search ended because {why}: a better order is neither known nor ruled out."


def _traffic_sentence(plan: Plan) -> str:
    traffic, bound = plan.traffic_bytes or 0, plan.traffic_lower_bound_bytes or 0
    kind = "" if plan.traffic_proof is None else plan.traffic_proof.kind
    how = {
        "search": "a search of all orders", "windows": "sections of the graph, each searched", "solver": "a solver",
        "phases": "phases that every order passes through", "peak": "the bytes live at once in every order",
    }.get(kind, "")  # fmt: skip
    least = f"optimal: proved by {how}" if traffic == bound and how else "optimal"
    if traffic != bound:
        least = f"at least {format_size(bound)} in any order" + (f", proved by {how}" if how else ", nothing is proved")
    return f"{format_size(traffic)} are moved out of or into the fast memory; {least}."


def caveats(plan: Plan) -> Iterator[str]:
    """What the figures leave out or take for granted, a sentence each."""
    name = plan.target.partition(",")[0]
    yield f"Sizes follow the rules of target {plan.target}, offsets are multiples of {plan.alignment:,} bytes."
    if name == "generic":
        yield f"{NOBODYS[0].upper()}{NOBODYS[1:]}: a runtime may take more."
    if plan.runtime_figures:
        yield f"{figures_line(plan.runtime_figures)}."
    if plan.runtime_parts is not None:
        yield f"kTensorArenaSize: {parts_text(plan.runtime_parts)}."
    elif plan.runtime_arena_bytes is not None:
        word = RUNTIME_ARENA["tflite" if name == "tflite" else "onnxruntime"]
        yield f"The runtime's own arena takes {format_size(plan.runtime_arena_bytes)}: {word}."
    if plan.runtime_unknown:
        types = ", ".join(plan.runtime_unknown)
        yield f"The figure is a minimum: what the kernels of {types} need is not known."
    if plan.exactness:
        what = "Recomputation" if recomputes_ops(plan.rewrites) else "Tiles"
        yield f"{what}: outputs are {EXACTNESS[plan.exactness]}."
    if plan.cost is not None:
        yield "Times are predicted from a cost file, not measured."
    if plan.rules is not None and plan.rules.constants == "never":
        yield "Weights and other constants are not counted."
    if plan.rules is not None and not plan.rules.count_inputs:
        yield "Inputs are the caller's memory, and not counted."


def fits(view: PlanView) -> list[tuple[str, int]]:
    """Required, available and excess bytes, as far as there is something to compare with; spare bytes are negative."""
    plan = view.plan
    if plan.budget_bytes is not None:
        over = plan.required_bytes - plan.budget_bytes
        return [("required", plan.required_bytes), ("available", plan.budget_bytes), ("excess", over)]
    if plan.memories is not None:
        used = [(f"{m.name} used", m.size_bytes or 0) for m in plan.memories]
        there = [(f"{m.name} available", m.capacity_bytes) for m in plan.memories]
        return [row for pair in zip(used, there, strict=True) for row in pair]
    return [("required", plan.required_bytes)]
