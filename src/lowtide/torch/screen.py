"""What a planned step prints: its peak and time against eager mode, the lower bound, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.graph import Graph
from lowtide.sizes import format_size
from lowtide.torch.search import largest_op
from lowtide.torch.step_plan import StepPlan

_EQUAL = 0.0005  # a share below which two peaks are the same, as percentages are printed
_NEAR = 1.02  # from so near to the lower bound on, less is not worth a try


def first_screen(
    name: str, plan: StepPlan, graph: Graph, notes: Sequence[str], *, training: bool, clipped: bool
) -> str:
    """Eight lines at most: eager's peak, what updates inside the backward pass save, the plan, its time, the lower
    bound, notes, and the next thing to type."""
    rows = [("eager", f"{format_size(plan.eager_peak_bytes)}, predicted allocator peak")]
    rows += _updates(plan, clipped)
    what = "planned" if plan.budget_bytes is not None or list(plan.ops) != list(graph.own_order) else "file order"
    rows.append((what, f"{format_size(plan.peak_bytes)}, {against(plan.peak_bytes, plan.eager_peak_bytes)} eager"))
    measured = "predicted by a roofline" if plan.unmeasured else "predicted from single ops"
    rows.append(("time", f"{plan.slower:+.1%} of eager, {measured}"))
    largest = graph.op_by_id[largest_op(graph)[1]].name if graph.ops else ""
    times = f"{plan.peak_bytes / plan.floor_bytes:.2f} times that" if plan.floor_bytes else "as low"
    rows.append(("lower bound", f"{format_size(plan.floor_bytes)}, largest op {largest}; the plan is {times}"))
    if notes:
        rows.append(("note", "; ".join(notes)))
    rows.append(("next", _next(plan, training)))
    width = max(len(word) for word, _ in rows)
    return "\n".join([f"Step({name})", *(f"  {word:<{width}}  {text}" for word, text in rows)])


def against(size: int, eager: int) -> str:
    """A size against eager's, in per cent.

    >>> against(27, 129), against(136, 129), against(129, 129)
    ('79.1% less than', '5.4% more than', 'the same as')
    """
    change = size / eager - 1 if eager else 0.0
    if abs(change) < _EQUAL:
        return "the same as"
    return f"{abs(change):.1%} {'less' if change < 0 else 'more'} than"


def _updates(plan: StepPlan, clipped: bool) -> list[tuple[str, str]]:
    """What it saves to update parameters inside the backward pass, or what clipping costs as it forbids that."""
    part = plan.update_saving_bytes / plan.eager_peak_bytes if plan.eager_peak_bytes else 0.0
    if part < _EQUAL:
        return []
    share = f"{part:.1%} of eager"
    if clipped:
        return [("clipping", f"costs {share}: all gradients are live until their norm is known, so updates come last")]
    return [("updates", f"{share} is saved by updating each parameter inside the backward pass")]


def _next(plan: StepPlan, training: bool) -> str:
    """A call that gives less memory, or the one that saves the plan."""
    if plan.peak_bytes <= plan.floor_bytes * _NEAR:
        return 'step.save("step.json"), then plan="step.json"'
    percent = int(100 * (plan.peak_bytes + plan.floor_bytes) / 2 / plan.eager_peak_bytes)
    less = f'budget="{max(1, percent)}%" of eager for less memory'
    return f"{less}; all: lowtide.torch.curve(...)" if training else less
