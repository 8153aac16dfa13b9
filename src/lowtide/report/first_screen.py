"""The first screen of a plan: what the model takes today and with the plan, in at most eight lines."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.comparison import Comparison
from lowtide.plan import Plan
from lowtide.report.columns import columns

_MIB = 2**20


def size_text(size: int) -> str:
    """Bytes as a person reads them: exact where memories are small.

    >>> size_text(82288), size_text(59453440)
    ('82,288 B', '56.7 MiB')
    """
    return f"{size:,} B" if size < 4 * _MIB else f"{size / _MIB:,.1f} MiB"


def percent(before: float, after: float) -> str:
    """How much more or less, in percent.

    >>> percent(200, 150), percent(3, 3)
    ('-25.0 %', 'unchanged')
    """
    return "unchanged" if before == after or not before else f"{100 * (after / before - 1):+.1f} %"


def first_screen(plan: Plan, written: Sequence[str] = (), next_commands: Sequence[str] = ()) -> str:
    """Today and with the plan.

    Parameters
    ----------
    plan
        With a `Plan.comparison`.
    written
        Files that were written.
    next_commands
        What a person may type next.
    """
    comparison = plan.comparison
    assert comparison is not None, "a plan of lowtide.plan"
    head = [comparison.model, *_sizes(comparison), comparison.runtime]
    lines = [", ".join(head), columns(_rows(plan, comparison), right=[1, 2])]
    budget = plan.budget_bytes
    if budget is not None:
        apart = comparison.planned_bytes - budget
        verdict = f"{size_text(apart)} too much" if apart > 0 else f"{size_text(-apart)} to spare"
        verdict += "; proved impossible" if plan.status == "impossible" else ""
        lines.append(f"budget {size_text(budget)}: {verdict}")
    if not comparison.better:
        lines.append(_why_not(comparison))
    if written:
        lines.append(f"wrote {', '.join(written)}")
    lines += [f"{'next:' if not k else '  or:'} {command}" for k, command in enumerate(next_commands)]
    return "\n".join(lines)


def _sizes(comparison: Comparison) -> list[str]:
    """Shapes of the inputs where the file leaves them free."""
    if not comparison.sizes:
        return []
    text = ", ".join(f"{name} {shape}" for name, shape in list(comparison.sizes.items())[:3] if shape)
    more = ", ..." if len(comparison.sizes) > 3 else ""
    return [
        f"{text}{more} (assumed, and the only ones that OUT takes: --dim NAME=SIZE)"
        if comparison.assumed
        else f"{text}{more}"
    ]


def _rows(plan: Plan, comparison: Comparison) -> list[tuple[str, ...]]:
    sure = "measured" if comparison.measured else "predicted"
    if comparison.base_bytes is not None:
        sure += f", above the {size_text(comparison.base_bytes)} of Python and onnxruntime"
    gain = percent(comparison.today_bytes, comparison.planned_bytes)
    rows = [
        ("", "today", "planned", "", ""),
        (comparison.figure, size_text(comparison.today_bytes), size_text(comparison.planned_bytes), gain, sure),
    ]
    if comparison.tensors_bytes is not None:
        rows.append(("  of it tensors", "", size_text(comparison.tensors_bytes), "", _bound(plan)))
    else:
        rows[1] = (*rows[1][:4], f"{sure}; {_bound(plan)}")
    before, slowdown = comparison.today_seconds, comparison.slowdown
    if before is not None and slowdown is not None:
        # as pairs of runs that followed each other say: medians apart may contradict them where the machine is busy
        times = _milliseconds(before), _milliseconds(before * slowdown)
        rows.append(("time of a run", *times, percent(1, slowdown), f"{sure.partition(',')[0]}, runs in turn"))
    elif slowdown is not None:
        rows.append(("time of a run", "", "", percent(1, round(slowdown, 4)), "predicted from the operations"))
    else:
        rows.append(("time of a run", "", "", "", "not predicted: parts of operators are not timed"))
    outputs = {"equal": "equal, bit for bit", "rounding": "equal but for the rounding of the runtime's own kernels"}
    if comparison.outputs:
        checked = ", on 2 random inputs" if comparison.measured else ""
        rows.append(("outputs", "", "", "", f"{outputs[comparison.outputs]}{checked}"))
    return rows


def _bound(plan: Plan) -> str:
    """How near the memory of the tensors is to the least: what rounding and gaps between them add counts."""
    taken = plan.runtime_arena_bytes if plan.runtime_parts is None else plan.arena_bytes
    least = size_text(plan.lower_bound_bytes)
    if not plan.optimal or size_text(taken or plan.required_bytes) != least:
        return f"no order needs less than {least}"
    return "optimal for these tiles" if plan.rewrites else "optimal: no order of its operators needs less"


def _why_not(comparison: Comparison) -> str:
    """Why the model is not written."""
    if comparison.planned_bytes >= comparison.today_bytes:
        return "no plan takes less than today: keep the model as it is"
    if not comparison.outputs:
        return "the outputs differ by more than rounding: keep the model as it is"
    return "this is slower than allowed: keep the model as it is, or allow more with --slower"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"
