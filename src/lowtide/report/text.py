"""What a person reads in a terminal: plain text, aligned with blanks, no colour, the same piped or not."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from lowtide.ops.table import TABLE
from lowtide.plan import CutCertificate, Plan, PlanMemory, RuntimeArenas, RuntimeFigure, RuntimeParts, SearchCertificate
from lowtide.report.columns import CUT_SHORT, change, columns
from lowtide.report.conflict import conflict_text
from lowtide.report.figures import figures_text
from lowtide.report.labels import labels
from lowtide.report.timing import timing_rows
from lowtide.rules import RULES
from lowtide.rules.onnxruntime.rule import EXTEND_BYTES
from lowtide.rules.tflm.libraries import KERNEL_WORDS
from lowtide.sizes import format_count, format_size
from lowtide.target import Target, to_toml

if TYPE_CHECKING:
    from lowtide.analyse.inspect import Inspection, Live, OpName
    from lowtide.run_reports import RunReport
    from lowtide.verify.report import Report


_BARS = " ▁▂▃▄▅▆▇█"
_PLAIN_BARS = " .:-=+*#@"
RUNTIME_ARENA = {
    "tflite": "what LiteRT's own planner makes of it, no delegates",
    "onnxruntime": "one block in which onnxruntime's own best fit succeeds",
}
MOST_LIVE = 12
"""Storages listed at the peak; the rest is summed up in a line."""


def sparkline(values: Sequence[int], width: int, *, plain: bool = False) -> str:
    """Bars of the largest value in each of at most `width` equal stretches; `plain` uses ASCII only.

    >>> sparkline([0, 4, 8], 3)
    ' ▄█'
    """
    bars = _PLAIN_BARS if plain else _BARS
    most = max(values, default=0)
    if most == 0:
        return bars[0] * min(width, len(values))
    count = min(width, len(values))
    edges = [k * len(values) // count for k in range(count + 1)]
    highest = (max(values[a:b]) for a, b in pairwise(edges))
    return "".join(bars[-(-h * (len(bars) - 1) // most)] for h in highest)


def plan_text(plan: Plan, *, verbose: bool = False) -> str:
    """Before and after, the bound, the arena, and how they were found; the moves of a plan with spilling."""
    if plan.moves is not None:
        from lowtide.report.spilling import spilling_text

        return spilling_text(plan, verbose=verbose)
    search, figures = dict(plan.search or {}), plan.figures
    rows: list[tuple[str, int, str]] = [
        ("own order peak", plan.own_order_peak_bytes, ""),
        ("peak", plan.peak_bytes, change(plan.own_order_peak_bytes, plan.peak_bytes)),
        ("lower bound", plan.lower_bound_bytes, proof_text(plan)),
    ]
    if plan.memories is not None:
        rows += _memory_rows(plan)
    if plan.arena_bytes is not None and (plan.memories is None or plan.runtime_arenas is not None):
        rows.append(("arena", plan.arena_bytes, _arena_text(plan)))
    if plan.runtime_parts is not None and plan.runtime_arena_bytes is not None:
        rows.append((_arenas_label(plan), plan.runtime_arena_bytes, parts_text(plan.runtime_parts)))
        own = plan.runtime_parts.own_planned
        if own is not None and plan.arena_bytes is not None and plan.runtime_figures is None:  # else it stands above
            rows.append(
                ("TFLM's own head", own, f"of the file as it stands; {change(own, plan.arena_bytes)} with the plan")
            )
    elif plan.runtime_arena_bytes is not None:
        rows.append(("runtime arena", plan.runtime_arena_bytes, RUNTIME_ARENA[_runtime(plan)] + _at_least(plan)))
    reserve = f"arena and a reserve of {format_size(plan.reserve_bytes)}" if plan.reserve_bytes else ""
    if plan.budget_bytes is not None:
        over = plan.required_bytes - plan.budget_bytes
        verdict = f"{format_size(over)} over budget" if over > 0 else f"{format_size(-over)} to spare"
        if plan.status == "impossible":
            alone = plan.least_required_bytes + (plan.reserve_bytes or 0) <= plan.budget_bytes
            why = "one op needs more by itself, sizes rounded up" if alone else "the lower bound is above the budget"
            verdict += f", and no plan can fit: {why}"
        rows.append(("required", plan.required_bytes, reserve))
        rows.append(("budget", plan.budget_bytes, verdict))
    elif reserve:
        rows.append(("required", plan.required_bytes, reserve))
    if plan.status == "unproved":
        rows[1] = ("peak", plan.peak_bytes, f"{rows[1][2]}; not proved least, as --require-optimal asks")
    moved = figures.ops_moved
    head = [
        ("model", f"{plan.graph}, {format_count(len(plan.order), 'op')}" + _folded(plan)),
        ("target", f"{plan.target}, alignment {plan.alignment}"),
        ("method", f"{plan.method}, {_stopped_text(plan)}"),
    ]
    tail = [("in place", f"{format_count(len(plan.in_place), 'op')} written over an input{_partly(plan)}")]
    search.pop("arena_lost", None)
    where = figures.arena_lost
    if where is not None and not plan.memories:
        tail.append(("bytes lost", where.text))
    if moved is not None:
        tail.append(("moved", f"{moved:,} of {format_count(len(plan.order), 'op')} out of own order"))
    if plan.runtime_arena_bytes is not None and plan.runtime_parts is None and _runtime(plan) == "onnxruntime":
        tail += _session_rows(plan.runtime_arena_bytes)
    why = conflict_text(plan)
    if why is not None:
        tail.append(("too much", why))
    s = plan.seconds
    tail.append(
        (
            "seconds",
            f"read {s.read:.2f}, schedule {s.schedule:.2f}, allocate {s.allocate:.2f}, verify {s.verify:.2f}, "
            f"total {s.total:.2f}",
        )
    )
    if verbose:
        tail += [
            (key.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
            for key, value in search.items()
        ]
        tail.append(("certificate", _certificate_text(plan)))
    width = max(len(row[0]) for row in (*head, *rows, *tail))
    return "\n".join(
        [
            columns([(key.ljust(width), text) for key, text in head]),
            "",
            *_today(plan.runtime_figures, plan.target),
            columns([(key.ljust(width), *_size_cells(size), note) for key, size, note in rows], right=[1]),
            "",
            columns([(key.ljust(width), text) for key, text in tail]),
        ]
    )


def _today(figures: Sequence[RuntimeFigure] | None, target: str) -> list[str]:
    """What the runtime takes by its defaults and with the plan, and a line between."""
    text = figures_text(figures, target)
    return [text, ""] if text else []


def _runtime(plan: Plan) -> str:
    """The runtime whose own planner makes a plan's arena: LiteRT where the target is called so, fields apart."""
    return "tflite" if plan.target.partition(",")[0] == "tflite" else "onnxruntime"


def _at_least(plan: Plan) -> str:
    """That a runtime's own arena may be larger, and by whose fault."""
    if not plan.runtime_unknown:
        return ""
    return f"; at least, as it is not known what the kernels of {', '.join(plan.runtime_unknown)} take"


def _partly(plan: Plan) -> str:
    return f", {len(plan.overlap):,} over a part of one, behind what is read" if plan.overlap else ""


def parts_text(parts: RuntimeParts) -> str:
    """What TFLM's smallest arena consists of, and how sure that is."""
    text = f"planned {parts.planned:,} + persistent {parts.persistent:,}"
    if parts.planning > parts.planned + parts.persistent:
        text = f"{parts.planning:,} while TFLM starts, more than {text}"
    if parts.scratch:
        text += f", scratch {parts.scratch:,} in the planned"
    strange = f" (not known: {', '.join(parts.unknown)})" if parts.unknown else ""
    sure = "exact" if parts.exact else "at least" if parts.unknown else "enough, some bytes too many at most,"
    text += f"; {sure} for {parts.build or 'the pip build for x86-64'}{strange}"
    return f"{text}; the plan holds with {KERNEL_WORDS.get(parts.kernels, parts.kernels)}"


def _session_rows(arena_bytes: int) -> list[tuple[str, str]]:
    """How onnxruntime is told to keep the order and the arena; `--snippet` writes the same as Python."""
    return [
        ("session", "ORT_DISABLE_ALL, execution_order PRIORITY_BASED, enable_mem_reuse and enable_mem_pattern False"),
        (
            "its arena",
            f"env allocator, initial_chunk_size_bytes {arena_bytes}, max_power_of_two_extend_bytes {EXTEND_BYTES}",
        ),
        ("", "max_dead_bytes_per_chunk 256, initializers by the device allocator (--snippet S.py writes all that)"),
    ]


def _size_cells(size: int) -> tuple[str, str]:
    """Bytes, flush right in a table, and the same in larger units."""
    exact, _, larger = format_size(size).partition(" (")
    return exact, f"({larger}" if larger else ""


def _certificate_text(plan: Plan) -> str:
    certificate = plan.certificate
    if isinstance(certificate, CutCertificate):
        return f"cut at op {certificate.op}; `lowtide verify` checks its flow"
    if isinstance(certificate, SearchCertificate):
        return f"search, {format_count(certificate.states, 'state')}; `lowtide verify --prove` searches again"
    return "none but the footprint of the largest single op"


def proof_text(plan: Plan) -> str:
    """How far the bound is from the peak."""
    if plan.optimal:
        return "the peak is proved least"
    gap = plan.peak_bytes - plan.lower_bound_bytes
    return f"gap {format_size(gap)}, {100 * gap / plan.peak_bytes:.1f} % of the peak"


def _arena_text(plan: Plan) -> str:
    arena, bound = plan.arena_bytes or 0, plan.arena_lower_bound_bytes
    text = _above(arena, plan.peak_bytes)
    if bound is None:
        return text
    return f"{text}; " + ("least for this order" if arena == bound else f"this order needs at least {bound:,} B")


def _above(arena: int, peak: int) -> str:
    above = arena - peak
    percent = f" ({100 * above / peak:.1f} %)" if peak else ""
    return f"{above:,} B{percent} above the peak" if above else "as the peak"


def _memory_rows(plan: Plan) -> list[tuple[str, int, str]]:
    """All memories together, and each: what the plan takes of it, what there is, which of TFLM's arenas lie there."""
    whole = plan.arena_bytes if plan.runtime_arenas is None else plan.runtime_arena_bytes
    rows = [("memories", whole or 0, _slow_text(plan))]
    for m in plan.memories or ():
        rows.append((f"  {m.name}", m.size_bytes or 0, _memory_text(m) + _held(plan.runtime_arenas, m.name)))
    return rows


def _arenas_label(plan: Plan) -> str:
    return "head and tail" if plan.runtime_arenas is not None and plan.runtime_arenas.apart else "smallest arena"


def _held(arenas: RuntimeArenas | None, memory: str) -> str:
    if arenas is None:
        return ""
    parts = (("head", arenas.head_memory), ("tail", arenas.tail_memory))
    held = " and ".join(part for part, name in parts if name == memory)
    return f"; TFLM's {held}" if held else ""


def arenas_text(arenas: RuntimeArenas | None) -> str:
    """What is declared for TFLM: one array, or two and where each lies."""
    if arenas is None or not arenas.apart:
        return "kTensorArenaSize"
    return f"head in {arenas.head_memory}, tail in {arenas.tail_memory}"


def _memory_text(memory: PlanMemory) -> str:
    left = memory.capacity_bytes - (memory.size_bytes or 0)
    return f"of {format_size(memory.capacity_bytes)}, " + (f"{left:,} B free" if left >= 0 else f"{-left:,} B too many")


def _slow_text(plan: Plan) -> str:
    """What lies in slow memories, and whether that is the least."""
    slow, bound = plan.figures.slow_bytes, plan.figures.slow_lower_bound_bytes
    if plan.status in ("over_budget", "impossible"):
        never = ", and no order and no placement does" if plan.status == "impossible" else ""
        return f"does not fit{never}"
    if not slow:
        return "all in the first memory of its list"
    least = (
        "proved fewest for this order and what is in place" if plan.runtime_arenas is None else "the fewest of all ways"
    )
    proof = least if slow == bound else f"this order needs at least {bound:,} B there"
    what = "of tensors " if plan.runtime_arenas is None else ""
    return f"{slow:,} B {what}in slow memory; {proof}"


def _stopped_text(plan: Plan) -> str:
    ended = {"proof": "ended by proof", "complete": "ended", **CUT_SHORT}[plan.stopped]
    states = plan.figures.states
    if states is None:
        return ended
    return f"{ended}, {format_count(states, 'state') if states else 'without a search'}"


def _folded(plan: Plan) -> str:
    return f" and {len(plan.folded):,} folded" if plan.folded else ""


def inspection_text(inspection: Inspection, *, width: int = 72, plain: bool = False, cut: int | None = None) -> str:
    """Why the peak is what it is: the step, who is live there, what would help; and a small profile.

    Names are whole, or of about `cut` letters.
    """
    label = labels(_names(inspection), cut)
    best = f"{format_size(inspection.peak_bytes)}, {change(inspection.own_order_peak_bytes, inspection.peak_bytes)}"
    if inspection.optimal:
        best += ", proved least"
    if inspection.stopped in CUT_SHORT:
        best += f", {CUT_SHORT[inspection.stopped]}"
    head = [
        ("model", f"{inspection.graph}, {format_count(inspection.ops, 'op')}"),
        ("target", inspection.target),
    ]
    lines = [columns(head), "", *_today(inspection.runtime_figures, inspection.target)]
    head = [
        ("own order peak", format_size(inspection.own_order_peak_bytes)),
        ("best known peak", best),
        ("lower bound", format_size(inspection.lower_bound_bytes)),
        ("arena", f"{format_size(inspection.arena_bytes)}, {_above(inspection.arena_bytes, inspection.peak_bytes)}"),
    ]
    if inspection.arena_lost is not None:
        head.append(("bytes lost", inspection.arena_lost.text))
    if inspection.fission is not None:
        head.append(("cuts could give", _fission_text(inspection, label)))
    lines.append(columns(head))
    peak = inspection.peak
    if peak is None:
        return "\n".join(lines)
    bars = sparkline(inspection.footprint_bytes, width, plain=plain)
    at = next(k for k in range(len(bars)) if (k + 1) * len(inspection.footprint_bytes) // len(bars) > peak.step)
    lines += ["", "footprint over the own order:", f"|{bars}|", " " * (at + 1) + "^"]
    several = inspection.steps_at_peak > 1
    many = f"{inspection.steps_at_peak:,} steps reach the peak, the first is" if several else "the peak is at"
    lines.append(f"{many} step {peak.step:,}: {_op_text(peak.op, label)}")
    rows: list[tuple[str, ...]] = [
        ("bytes", "%", "live there", "made by", "kept alive by", "peak if halved", "if gone")
    ]
    for entry in peak.live[:MOST_LIVE]:
        maker = "graph input" if entry.made_by is None else _op_text(entry.made_by, label)
        who = (_live_text(entry, label), maker, _kept_text(entry, label))
        rows.append(
            (
                f"{entry.counted_bytes:,}", f"{entry.percent:.1f}", *who,
                f"{entry.peak_if_halved_bytes:,}", f"{entry.peak_if_gone_bytes:,}",
            )
        )  # fmt: skip
    if peak.workspace_bytes:
        share = 100 * peak.workspace_bytes / peak.footprint_bytes
        rows.append((f"{peak.workspace_bytes:,}", f"{share:.1f}", "workspace", "", "in use by this op"))
    rest = peak.live[MOST_LIVE:]
    if rest:
        counted = sum(entry.counted_bytes for entry in rest)
        share = 100 * counted / peak.footprint_bytes if peak.footprint_bytes else 0.0
        rows.append((f"{counted:,}", f"{share:.1f}", f"{len(rest):,} more"))
    lines += ["", columns(rows, right=[0, 1, 5, 6])]
    if peak.live and all(entry.peak_if_gone_bytes == inspection.own_order_peak_bytes for entry in peak.live):
        lines += ["", "no one of them lowers the peak: other steps reach it too"]
    if inspection.runners_up:
        highest = inspection.runners_up
        rows_up = [(f"{r.footprint_bytes:,} B", f"step {r.step:,}", _op_text(r.op, label)) for r in highest]
        lines += ["", "next highest:", columns(rows_up, right=[0])]
    return "\n".join(lines)


def _fission_text(inspection: Inspection, label: Mapping[str, str]) -> str:
    """The floor of any cut beside the best peak, and what stands in the way of cuts at the peak."""
    bound = inspection.fission
    assert bound is not None
    where = "the graph's own inputs or outputs" if bound.floor_op is None else _op_text(bound.floor_op, label)
    gain = change(inspection.peak_bytes, bound.floor_bytes) if bound.floor_bytes < inspection.peak_bytes else "nothing"
    text = f"at most {gain}: none goes below {format_size(bound.floor_bytes)}, for {where}"
    for op, reason in bound.opaque[:1]:
        more = f" (and {len(bound.opaque) - 1:,} more)" if len(bound.opaque) > 1 else ""
        text += f"; none passes {_op_text(op, label)} at the peak{more}: {reason}"
    return text


def _names(inspection: Inspection) -> list[str]:
    """Every name that is shown."""
    live = () if inspection.peak is None else inspection.peak.live[:MOST_LIVE]
    ops = [r.op for r in inspection.runners_up]
    ops += [op for entry in live for op in (entry.made_by, *entry.kept_by[-1:]) if op is not None]
    ops += [] if inspection.peak is None else [inspection.peak.op]
    if inspection.fission is not None:
        ops += [op for op, _ in inspection.fission.opaque[:1]]
        ops += [] if inspection.fission.floor_op is None else [inspection.fission.floor_op]
    return [_op_name(op) for op in ops] + [n for e in live for n in (e.name, e.over) if n is not None]


def _op_name(op: OpName) -> str:
    return op.name or f"op {op.op}"


def _op_text(op: OpName, label: Mapping[str, str]) -> str:
    name = label[_op_name(op)]
    return (f"{name} ({op.type})" if op.type else name).replace("\n", "\\n")


def _live_text(entry: Live, label: Mapping[str, str]) -> str:
    name = label[entry.name]
    if entry.shares:
        name += f" and {format_count(len(entry.shares), 'alias')}".replace("aliass", "aliases")
    return f"{name} over {label[entry.over]}" if entry.over else name


def _kept_text(entry: Live, label: Mapping[str, str]) -> str:
    if entry.graph_output:
        return "graph output"
    if not entry.kept_by:
        return "in use by this op" if entry.in_use else "kept to the end"
    name = label[_op_name(entry.kept_by[-1])]
    return name if len(entry.kept_by) == 1 else f"{name}, last of {len(entry.kept_by)}"


def report_text(report: Report, *, held: bool = True) -> str:
    """Every check that held, and what proving and running showed; `held`: whether all did."""
    rows = [(check.name.replace("_", " "), check.result) for check in report.checks]
    rows += [(name.strip(), text.strip()) for name, _, text in (note.partition(":") for note in report.notes)]
    if report.proof is not None:
        proof = report.proof
        rows.append(("proof", f"{proof.result}: {proof.reason} ({proof.seconds:.2f} s)"))
    if report.arena_proof is not None:
        proof = report.arena_proof
        rows.append(("arena proof", f"{proof.result}: {proof.reason} ({proof.seconds:.2f} s)"))
    lines = [columns(rows)]
    if report.run is not None:
        from lowtide.report.tflite import tflite_run_text
        from lowtide.report.torch import torch_run_rows
        from lowtide.run_reports import TfliteRunReport, TorchRunReport

        ran = report.run
        if isinstance(ran, TfliteRunReport):
            lines += ["", tflite_run_text(ran)]
        else:
            lines += ["", columns(torch_run_rows(ran)) if isinstance(ran, TorchRunReport) else run_text(ran)]
    verdict = "the plan holds" if held else "what was said does not hold, but these"
    lines += ["", f"{verdict}: {format_count(len(report.checks), 'check')}"]
    return "\n".join(lines)


def run_text(run: RunReport) -> str:
    """Whether the outputs are equal, and the memory that the runtime measured beside the plan's."""
    n = len(run.outputs)
    vacuous = [o for o in run.outputs if o.vacuous]
    if run.equal:
        verdict = f"{format_count(n, 'output')}: equal bit by bit, {run.runs} random inputs"
    else:
        verdict = "outputs differ, and so do two runs of the original: nothing can be said"
    if run.vacuous:
        verdict += "; vacuous: no output depends on the inputs"
    elif vacuous:
        verdict += f"; vacuous for {len(vacuous)} of them, which do not depend on the inputs"
    rows = [("outputs", verdict)]
    if not (run.original.nodes and run.planned.nodes):
        return columns(
            [
                *rows,
                ("measured", "not told: by onnxruntime before 1.24, or where it takes functions of the model apart"),
            ]
        )
    before, after, shipped = run.original.peak_bytes, run.planned.peak_bytes, run.shipped.peak_bytes
    rows.append(("measured before", f"{format_size(before)} in onnxruntime, the file's order, without graph inputs"))
    rows.append(("by its defaults", f"{format_size(shipped)}, onnxruntime's own order, optimisations and memory reuse"))
    rows.append(("measured after", f"{format_size(after)}, {_against(before, shipped, after)}"))
    planned = [(m.planned_bytes, m.in_use_bytes) for m in run.planned.nodes if m.planned_bytes is not None]
    if planned and all(expected == measured for expected, measured in planned):
        rows.append(("planned", f"{format_size(max(p for p, _ in planned))}: equal to the byte at every op"))
    elif planned:
        rows.append(("planned", f"{format_size(max(p for p, _ in planned))}, under the rules of the plan's target"))
    if run.exact is not None:
        off = run.exact.held_bytes - (run.arena_bytes or 0)
        as_planned = "as planned" if not off else f"{abs(off):,} B {'more' if off > 0 else 'less'} than planned"
        rows.append(("with workspace", f"{format_size(run.exact.mark_bytes)} in use at once, in steps of 256 bytes"))
        rows.append(
            ("arena", f"{format_size(run.exact.held_bytes)} taken from the system, weights apart: {as_planned}")
        )
    rows.append(("graph inputs", f"{format_size(run.input_bytes)}, the caller's"))
    if run.stands is not None:
        rows.append(("arena today", f"{format_size(run.stands.held_bytes)} for the file as it stands, optimiser off"))
    rows += timing_rows(run.timing, "onnxruntime's defaults; one thread each")
    if not run.order_kept:
        rows.append(("order", "onnxruntime ran the nodes in another order than the plan's"))
    return columns(rows)


def _against(before: int, shipped: int, after: int) -> str:
    """What the plan gains over the file's order and over onnxruntime's defaults."""
    if shipped <= after:
        return f"{change(before, after)}; onnxruntime's own order is as good here"
    return f"{change(before, after)}; against the defaults {change(shipped, after)}"


def target_text(target: Target) -> str:
    """A target as TOML that `--target` reads, and what it knows of op types as comments."""
    if target.rule:
        return "\n".join([to_toml(target), *_rule_lines(target.rule)]) + "\n"
    lines = [to_toml(target), "# Op types by kind; one that is in no row is neither a view nor elementwise.", "#"]
    for kind in TABLE:
        says = [word for word, holds in (("view", kind.view), ("elementwise", kind.elementwise)) if holds]
        if kind.overwrites != "none":
            says.append(f"in place over {'any input' if kind.overwrites == 'any' else 'the first input'}")
        lines.append(f"# {kind.family}: {', '.join(says)}")
        lines += textwrap.wrap(", ".join(kind.types), 116, initial_indent="#   ", subsequent_indent="#   ")
    return "\n".join(lines) + "\n"


def _rule_lines(name: str) -> list[str]:
    """What a runtime's own rule says, as comments: its module's text, and its tables of op types if it has any."""
    rule = RULES[name]
    doc = inspect.getdoc(inspect.getmodule(type(rule))) or ""
    lines = [f"# {line}".rstrip() for line in doc.splitlines()]
    tables: Mapping[str, Sequence[str]] = getattr(rule, "tables", {})
    for title, types in tables.items():
        lines += ["#", f"# {title}:"]
        lines += textwrap.wrap(", ".join(types), 116, initial_indent="#   ", subsequent_indent="#   ")
    return lines
