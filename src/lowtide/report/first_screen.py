"""The first screen of a plan: what the model takes today and with the plan, in at most eight lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from lowtide.comparison import Comparison
from lowtide.graph import Kind
from lowtide.plan import Plan
from lowtide.report.columns import columns

_MIB = 2**20
_OUTPUTS = {"equal": "equal, bit for bit", "rounding": "equal within the rounding of the runtime's own kernels"}


def size_text(size: int, *others: int) -> str:
    """Bytes as a person reads them: exact where memories are small. Others of the same row have the same unit.

    >>> size_text(82288), size_text(59453440), size_text(82288, 59453440)
    ('82,288 B', '56.7 MiB', '0.1 MiB')
    """
    return f"{size:,} B" if max(size, *others, 0) < 4 * _MIB else f"{size / _MIB:,.1f} MiB"


def percent(before: float, after: float) -> str:
    """How much more or less, in percent.

    >>> percent(200, 150), percent(3, 3)
    ('-25.0 %', 'unchanged')
    """
    return "unchanged" if before == after or not before else f"{100 * (after / before - 1):+.1f} %"


def first_screen(plan: Plan, written: Sequence[str] = (), next_commands: Sequence[str] = ()) -> str:
    """Today and with the plan. `plan`: with a `Plan.comparison`. `written`: files that were written.
    `next_commands`: what a person may type next."""
    comparison = plan.comparison
    assert comparison is not None, "a plan of lowtide.plan"
    head = [comparison.model, *_sizes(comparison), comparison.runtime]
    lines = [", ".join(head), columns(_rows(plan, comparison), right=[1, 2])]
    lines += _smallest(comparison)
    budget = plan.budget_bytes
    if budget is not None:
        apart, base = comparison.planned_bytes - budget, comparison.base_bytes
        row = (abs(apart), budget, *([] if base is None else [comparison.planned_bytes + base]))
        verdict = f"{size_text(abs(apart), *row)} {'too much' if apart > 0 else 'to spare'}"
        verdict += "; proved impossible" if plan.status == "impossible" else ""
        if base is not None:
            verdict += f" (with Python and onnxruntime {size_text(row[-1], *row)})"
        lines.append(f"budget {size_text(budget, *row)}: {verdict}")
    lines += _tensor_limit(plan, comparison)
    if not comparison.better and not plan.above_limit:
        lines.append(_why_not(plan, comparison))
    if written:
        lines.append(f"wrote {', '.join(written)}{_opened_through(plan, written)}")
    lines += [f"{'next:' if not k else '  or:'} {command}" for k, command in enumerate(next_commands)]
    return "\n".join(lines)


def sizes_table(plans: Sequence[tuple[str, Plan]]) -> str:
    """Plans of one model at several sizes, each with its size: today and planned."""
    rows: list[tuple[str, ...]] = [("", "today", "planned", "", "")]
    for size, plan in plans:
        seen = plan.comparison
        assert seen is not None, "a plan of lowtide.plan"
        figures = [size_text(each, seen.today_bytes) for each in (seen.today_bytes, seen.planned_bytes)]
        fits = "" if plan.budget_bytes is None else "fits" if plan.status == "ok" else "does not fit"
        why = "" if seen.better else _why_not(plan, seen).partition(":")[0]
        said = "; ".join(text for text in (fits, why) if text)
        rows.append((size, *figures, percent(seen.today_bytes, seen.planned_bytes), said))
    first = plans[0][1].comparison
    assert first is not None, "a plan of lowtide.plan"
    sure = "measured" if first.measured else "predicted"
    return f"{first.model}, {first.runtime}: {first.figure}, {sure}\n{columns(rows, right=[1, 2])}"


def process_table(comparison: Comparison) -> str:
    """What the process takes with the plan, part by part as predicted, and in all as measured; empty: not known."""
    parts = comparison.predicted
    if parts is None:
        return ""
    named = {
        "an empty session": parts.session_bytes,
        "nodes, places, heap of kernels": parts.nodes_bytes,
        "weights": parts.weights_bytes,
        "prepacked weights": parts.prepacked_bytes,
        "arena": parts.tensors_bytes,
        "inputs": parts.values_bytes,
        "while it opens, more than all this": parts.loading_bytes,
        "predicted": parts.total_bytes,
        **({"measured": comparison.planned_bytes} if comparison.measured else {}),
    }
    rows = [(name, size_text(size, *named.values())) for name, size in named.items()]
    return columns([("process memory with the plan", ""), *rows], right=[1])


def _sizes(comparison: Comparison) -> list[str]:
    """Shapes of the inputs where the file leaves them free."""
    if not comparison.sizes:
        return []
    text = ", ".join(f"{name} {shape}" for name, shape in list(comparison.sizes.items())[:3] if shape)
    more = ", ..." if len(comparison.sizes) > 3 else ""
    assumed = " (sizes assumed; the written model accepts only these)"
    return [f"{text}{more}{assumed if comparison.assumed else ''}"]


def _rows(plan: Plan, comparison: Comparison) -> list[tuple[str, ...]]:
    sure = "measured" if comparison.measured else "predicted"
    base, tensors = comparison.base_bytes, comparison.tensors_bytes
    today, planned = comparison.today_bytes, comparison.planned_bytes
    bound = () if tensors is not None or base is not None else (plan.lower_bound_bytes,)
    row = (today, planned, *bound, *([] if base is None else [base]))
    exact = comparison.figure == "arena"  # which a compiler declares
    figure = [f"{size:,} B" if exact else size_text(size, *row) for size in (today, planned)]
    said = sure if base is None else f"{sure}, above the {size_text(base, *row)} of Python and onnxruntime"
    said += f"; {_bound(plan, row)}" if bound else ""
    rows = [("", "today", "planned", "", ""), (comparison.figure, *figure, percent(today, planned), said)]
    if tensors is not None:
        found = [f.default_bytes for f in plan.runtime_figures or () if f.what == "arena"]
        row = (*found, tensors, plan.lower_bound_bytes)
        own = (size_text(found[0], *row), percent(found[0], tensors)) if found else ("", "")
        rows.append(("  arena", own[0], size_text(tensors, *row), own[1], _bound(plan, row)))
    before, slowdown = comparison.today_seconds, comparison.slowdown
    if before is not None and slowdown is not None:
        # as pairs of runs that followed each other say: medians apart may contradict them where the machine is busy
        times = [_time_text(seconds, before * max(1, slowdown)) for seconds in (before, before * slowdown)]
        how = "runs in turn" if comparison.inputs_run > 1 else "one run of each, or the faster of two"
        rows.append(("time of a run", *times, percent(1, slowdown), f"{sure}, {how}"))
    elif slowdown is not None:
        same = plan.rewrites is None and slowdown == 1
        said = "the same operators" if same else "predicted from FLOPs and bytes"
        rows.append(("time of a run", "", "", percent(1, round(slowdown, 4)), said))
    else:
        rows.append(("time of a run", "", "", "", "not predicted: the same FLOPs, in tiles"))
    if comparison.outputs and plan.status == "ok":
        count = comparison.inputs_run
        checked = f", on {count} random input{'s' if count > 1 else ''}" if count else ""
        rows.append(("outputs", "", "", "", f"{_OUTPUTS[comparison.outputs]}{checked}"))
    return rows


def _smallest(comparison: Comparison) -> list[str]:
    """What a file for several sizes takes at the smallest, and what it does without."""
    seen = comparison.smallest
    if seen is None:
        return []
    row = (seen.today_bytes, seen.planned_bytes)
    memory = f"{size_text(row[0], *row)} -> {size_text(row[1], *row)}, {percent(*row)}"
    at, to = (" and ".join(f"{name} = {size}" for name, size in sizes.items()) for sizes in (seen.sizes, seen.largest))
    outputs = _OUTPUTS.get(seen.outputs, "DIFFERENT")
    return [
        f"at {at}: {comparison.figure} {memory}; time {percent(1, seen.slowdown)}; outputs {outputs}",
        f"one file for all sizes up to {to}: only the order is planned; a file for one size may also have tiles",
    ]


def _bound(plan: Plan, row: Sequence[int]) -> str:
    """How near the memory of the tensors is to the least: what rounding and gaps between them add counts."""
    taken = plan.runtime_arena_bytes if plan.runtime_parts is None else plan.arena_bytes
    least = size_text(plan.lower_bound_bytes, *row)
    if not plan.optimal or size_text(taken or plan.required_bytes, *row) != least:
        return f"no order needs less than {least}"
    return f"optimal: no order of {'these tiles' if plan.rewrites else 'its operators'} needs less"


def _tensor_limit(plan: Plan, comparison: Comparison) -> list[str]:
    """How the largest tensor compares with its limit, in a line; none without a limit."""
    largest, today = plan.largest_tensor_bytes, comparison.today_tensor_bytes
    if largest is None or today is None or plan.rules is None:
        return []
    limit, met = plan.rules.max_tensor, f"met, the largest has {largest:,} B"
    found = f"not met, {largest:,} B is the least that was found for the largest" if plan.above_limit else met
    text = f"limit of a tensor {limit:,} B: {found} (today {today:,} B)"
    given = [t for t in plan.tensors if t.size > limit and t.kind != Kind.ACTIVATION]
    if given:
        most = max(given, key=lambda t: t.size)
        text += f"; inputs, outputs and weights are not split: {most.name or most.id} has {most.size:,} B"
    return [text]


def _opened_through(plan: Plan, written: Sequence[str]) -> str:
    """That a file in this processor's layout computes wrong numbers on others unless its session checks that."""
    session = next((PurePath(path).name for path in written if path.endswith(".py")), "")
    if not session or plan.optimized_from is None or not plan.optimized_from.block:
        return ""
    return f": for this CPU's SIMD width; open it through {session}"


def _why_not(plan: Plan, comparison: Comparison) -> str:
    """Why the model is not written."""
    small = comparison.smallest
    if small is not None and not small.good:
        slow = small.outputs and small.planned_bytes <= small.today_bytes
        if slow:
            return "at the smallest size this is slower than allowed: allow more with --slower, or plan each size alone"
        return "at the smallest size this is no better than today: plan each size alone"
    if comparison.planned_bytes >= comparison.today_bytes:
        today, why = comparison.today_bytes, "no plan takes less than today"
        if plan.budget_bytes is None or plan.status == "ok":
            return f"{why}: keep the model as it is"
        needs = "fits the budget" if today <= plan.budget_bytes else f"needs a budget of {size_text(today)}"
        return f"{why}: the model as it is {needs}"
    if not comparison.outputs:
        return "the outputs differ by more than rounding: keep the model as it is"
    return "this is slower than allowed: keep the model as it is, or allow more with --slower"


def _time_text(seconds: float, longest: float) -> str:
    """Seconds in the unit of the longest of a row."""
    return f"{1000 * seconds:.3g} ms" if longest < 1 else f"{seconds:.2f} s"
