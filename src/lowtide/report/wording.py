"""The sentences that stand beside a picture: how sure the figures are, and under which rules they hold."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.certificates import CutCertificate, SearchCertificate
from lowtide.plan import Plan
from lowtide.report.cuts import EXACTNESS
from lowtide.report.figures import NOBODYS, figures_line
from lowtide.report.text import RUNTIME_ARENA, parts_text, proof_text, recomputed_text
from lowtide.report.view import PlanView
from lowtide.sizes import format_count, format_size


def proof_sentence(plan: Plan) -> str:
    """Why no order is better, or how far that is open, for a person to follow."""
    if plan.moves is not None:
        return _traffic_sentence(plan)
    if plan.recomputation is not None:
        return f"Ops that run again: {recomputed_text(plan)}. {_peak_sentence(plan)}"
    return _peak_sentence(plan)


def _peak_sentence(plan: Plan) -> str:
    bound, certificate = format_size(plan.lower_bound_bytes), plan.certificate
    said = proof_text(plan)
    said = f"{said[0].upper()}{said[1:]}."
    if isinstance(certificate, CutCertificate):
        name = next((op.name or f"op {op.id}" for op in plan.ops if op.id == certificate.op), f"op {certificate.op}")
        return (
            f"{said} Whatever the order, at some time {name} runs. The ops that it depends on have run then; what they "
            f"leave for it and for later ops takes at least {bound}, whichever other ops ran before: a minimum cut "
            "shows it, and `lowtide verify` checks its flow in linear time."
        )
    if isinstance(certificate, SearchCertificate):
        return (
            f"{said} Every order that needs less than {bound} was ruled out by a search of "
            f"{format_count(certificate.states, 'state')}; `lowtide verify --prove` rules them out again with a "
            "second, plain program."
        )
    if plan.optimal:
        return f"{said} One op needs so much by itself, in any order."
    ended = {
        "time": "its time was over",
        "memory": "its memory was full",
        "interrupt": "it was interrupted",
        "stalled": "it gained nothing any more for a while",
    }
    why = ended.get(plan.stopped, "its method has no more to try")
    return f"{said} The search ended because {why}: a better order is neither known nor ruled out."


def _traffic_sentence(plan: Plan) -> str:
    traffic, bound = plan.traffic_bytes or 0, plan.traffic_lower_bound_bytes or 0
    kind = "" if plan.traffic_proof is None else plan.traffic_proof.kind
    how = {
        "search": "a search of all orders", "windows": "parts of the graph, each searched", "solver": "a solver",
        "phases": "phases that every order passes through", "peak": "what is live at once in every order",
    }.get(kind, "")  # fmt: skip
    least = f"the least there is: shown by {how}" if traffic == bound and how else "the least there is"
    if traffic != bound:
        least = f"at least {format_size(bound)} in any order" + (f", shown by {how}" if how else ", nothing is proved")
    return f"{format_size(traffic)} leave the fast memory or come back; {least}."


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
        yield f"At least so much: it is not known what the kernels of {types} take."
    if plan.exactness:
        yield f"Ops were cut: outputs are {EXACTNESS[plan.exactness]}."
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
        used = [(f"{m.name} taken", m.size_bytes or 0) for m in plan.memories]
        there = [(f"{m.name} there is", m.capacity_bytes) for m in plan.memories]
        return [row for pair in zip(used, there, strict=True) for row in pair]
    return [("required", plan.required_bytes)]
