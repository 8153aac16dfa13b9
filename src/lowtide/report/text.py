"""What a person reads in a terminal: plain text, aligned with blanks, no colour, the same piped or not."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lowtide.certificates import CutCertificate, SearchCertificate
from lowtide.ops.kinds import TABLE
from lowtide.plan import Plan, RuntimeArenas, RuntimeParts, least_required
from lowtide.report.columns import CUT_SHORT, above_text, change, columns
from lowtide.report.conflict import conflict_text
from lowtide.report.cuts import alias_rows, aliases_of, cut_text, fission_rows, loop_rows, not_cut_text
from lowtide.report.figures import figures_rows
from lowtide.rewrites import COUNTED, PlanCost, Recomputation, Recompute, Swap, Swapping, in_parts, recomputes_ops
from lowtide.rules import RULES
from lowtide.rules.onnxruntime.rule import EXTEND_BYTES
from lowtide.rules.tflm.libraries import KERNEL_WORDS, libraries_text
from lowtide.sizes import format_count, format_size
from lowtide.spill_plan import PlanMemory
from lowtide.target import Target, to_toml

RUNTIME_ARENA = {
    "tflite": "what LiteRT's own planner makes of it, no delegates",
    "onnxruntime": "one block in which onnxruntime's own best fit succeeds",
}


def plan_text(plan: Plan, *, verbose: bool = False) -> str:
    """Before and after, the bound, the arena, and how they were found; the moves of a plan with spilling."""
    if plan.moves is not None:
        from lowtide.report.spilling import spilling_text

        return spilling_text(plan, verbose=verbose)
    rows = _size_rows(plan)
    folded = f" and {len(plan.folded):,} folded" if plan.folded else ""
    head = [
        ("model", f"{plan.graph}, {format_count(len(plan.order), 'op')}{folded}"),
        ("target", f"{plan.target}, alignment {plan.alignment}"),
        ("method", f"{plan.method}, {_stopped_text(plan)}"),
    ]
    tail = _tail_rows(plan, verbose=verbose)
    width = max(len(row[0]) for row in (*head, *rows, *tail))
    return "\n".join(
        [
            columns([(key.ljust(width), text) for key, text in head]),
            "",
            *figures_rows(plan.runtime_figures, plan.target),
            columns([(key.ljust(width), *_size_cells(size), note) for key, size, note in rows], right=[1]),
            "",
            columns([(key.ljust(width), text) for key, text in tail]),
        ]
    )


def _size_rows(plan: Plan) -> list[tuple[str, int, str]]:
    """Peak, bound, arenas, and what is required of a budget: bytes, and a word on each."""
    better = change(plan.own_order_peak_bytes, plan.peak_bytes)
    unproved = "; not proved optimal, as --require-optimal asks" if plan.status == "unproved" else ""
    rows: list[tuple[str, int, str]] = [
        ("file order peak", plan.own_order_peak_bytes, ""),
        ("peak", plan.peak_bytes, better + unproved),
        ("lower bound", plan.lower_bound_bytes, proof_text(plan)),
        *_region_rows(plan),
    ]
    if plan.memories is not None:
        rows += _memory_rows(plan)
    if plan.arena_bytes is not None and (plan.memories is None or plan.runtime_arenas is not None):
        rows.append(("arena", plan.arena_bytes, _arena_text(plan)))
    if plan.runtime_parts is not None and plan.runtime_arena_bytes is not None:
        rows.append((_arenas_label(plan), plan.runtime_arena_bytes, parts_text(plan.runtime_parts)))
        own = plan.runtime_parts.own_planned
        if own is not None and plan.arena_bytes is not None and plan.runtime_figures is None:  # else it is above
            rows.append(
                ("TFLM's own head", own, f"of the unmodified file; {change(own, plan.arena_bytes)} with the plan")
            )
    elif plan.runtime_arena_bytes is not None:
        rows.append(("runtime arena", plan.runtime_arena_bytes, RUNTIME_ARENA[_runtime(plan)] + _at_least(plan)))
    return rows + _budget_rows(plan)


def _budget_rows(plan: Plan) -> list[tuple[str, int, str]]:
    """What is required, and what there is."""
    reserve = f"arena and a reserve of {format_size(plan.reserve_bytes)}" if plan.reserve_bytes else ""
    if plan.budget_bytes is None:
        return [("required", plan.required_bytes, reserve)] if reserve else []
    over = plan.required_bytes - plan.budget_bytes
    verdict = f"{format_size(over)} over budget" if over > 0 else f"{format_size(-over)} to spare"
    if plan.status == "impossible" and plan.fission is not None:
        verdict += ", and no plan can fit: inputs at the start, or results at the end, need more"
    elif plan.status == "impossible":
        alone = plan.least_required_bytes + (plan.reserve_bytes or 0) <= plan.budget_bytes
        why = "the lower bound is above the budget"
        if alone or plan.recomputation is not None:
            why = "one op needs more by itself" + (", sizes rounded up" if alone else "")
        elif plan.runtime_parts is not None:
            why = least_text(plan.lower_bound_bytes, plan.runtime_parts, plan.reserve_bytes or 0)
        verdict += f", and impossible without tiling: {why}"
    return [("required", plan.required_bytes, reserve), ("budget", plan.budget_bytes, verdict)]


def _tail_rows(plan: Plan, *, verbose: bool) -> list[tuple[str, str]]:
    """What was done to the graph and its order, and what that took."""
    search, figures = dict(plan.search or {}), plan.figures
    tail = alias_rows(plan, verbose=verbose)
    kept = plan.loops or plan.fission is not None or recomputes_ops(plan.rewrites)
    cut = in_parts(plan.rewrites) or (plan.exactness and not tail and not kept)
    tail += [("tiles", cut_text(plan))] if cut else []
    without = not_cut_text(plan)
    tail += [("not tiled", without)] if without is not None else []
    tail += loop_rows(plan)
    tail += fission_rows(plan)
    tail += [("time", _cost_text(plan.cost))] if plan.cost is not None else []
    tail += [("recomputed", recomputed_text(plan))] if plan.recomputation is not None else []
    if "among" in search:
        tail.append((plan.method, _among_text(search, plan.recomputation)))
    partly = f", {len(plan.overlap):,} in part, after the bytes already read" if plan.overlap else ""
    tail += [("in place", f"{format_count(len(plan.in_place), 'op')} written over an input{partly}")]
    search.pop("arena_lost", None)
    if figures.arena_lost is not None and not plan.memories:
        tail.append(("bytes lost", figures.arena_lost.text))
    if figures.ops_moved is not None:
        tail.append(("moved", f"{figures.ops_moved:,} of {format_count(len(plan.order), 'op')} out of file order"))
    if plan.runtime_arena_bytes is not None and plan.runtime_parts is None and _runtime(plan) == "onnxruntime":
        tail += _session_rows(plan.runtime_arena_bytes)
    why = conflict_text(plan)
    if why is not None:
        tail.append(("too much", why))
    s = plan.seconds
    parts = f"read {s.read:.2f}, schedule {s.schedule:.2f}, allocate {s.allocate:.2f}, verify {s.verify:.2f}"
    tail.append(("seconds", f"{parts}, total {s.total:.2f}"))
    if verbose:
        tail += [
            (key.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
            for key, value in search.items()
        ]
        tail.append(("certificate", _certificate_text(plan)))
    return tail


def _runtime(plan: Plan) -> str:
    """The runtime whose own planner makes a plan's arena: LiteRT where the target is called so, fields apart."""
    return "tflite" if plan.target.partition(",")[0] == "tflite" else "onnxruntime"


def _at_least(plan: Plan) -> str:
    """That a runtime's own arena may be larger, and by whose fault."""
    if not plan.runtime_unknown:
        return ""
    free = " where the file leaves sizes free" if plan.dims else ""
    return f"; a minimum: what the kernels of {', '.join(plan.runtime_unknown)} need is not known{free}"


def parts_text(parts: RuntimeParts) -> str:
    """What TFLM's smallest arena consists of, and how sure that is."""
    text = f"planned {parts.planned:,} + persistent {parts.persistent:,}"
    if parts.planning > parts.planned + parts.persistent:
        text = f"{parts.planning:,} while TFLM starts, more than {text}"
    if parts.scratch:
        text += f" (scratch of kernels: {parts.scratch:,} of the planned)"
    strange = f" (not known: {', '.join(parts.unknown)})" if parts.unknown else ""
    sure = "exact" if parts.exact else "at least" if parts.unknown else "enough, some bytes too many at most,"
    text += f"; {sure} for {parts.build or 'the pip build for x86-64'}{strange}"
    if not parts.arenas:
        return f"{text}; the plan holds with {KERNEL_WORDS.get(parts.kernels, parts.kernels)}"
    text += f"; the plan holds, and this is enough, with the kernels of {libraries_text(parts.arenas)}"
    more = f"; not enough for {libraries_text(parts.beyond)}: name those kernels to plan for them"
    return text + (more if parts.beyond else "")


def bodies_text(parts: RuntimeParts, names: Mapping[int, str]) -> str:
    """What the subgraphs that ops run take in TFLM's head; empty where there are none."""
    each = [f"{names.get(int(op), op)} runs a subgraph of {size:,} B" for op, size in parts.bodies.items() if size]
    return f"{', '.join(each)}, which TFLM places itself" if each else ""


def least_text(lower_bound_bytes: int, parts: RuntimeParts, reserve_bytes: int) -> str:
    """What TFLM and a reserve need at the least, in bytes, as it is compared with a budget: the sum, and of what."""
    least, tail = least_required(lower_bound_bytes, parts), parts.least_beside
    head = lower_bound_bytes if parts.least_head is None else min(lower_bound_bytes, parts.least_head)
    of = f"a head of {head:,} B{' (reference kernels)' if head < lower_bound_bytes else ''}"
    if tail is None:
        of = "the lower bound"
    elif least > head + tail:
        of = f"{least:,} B while TFLM starts"
    elif tail:
        of += f" and {tail:,} B for the tail" if tail > 0 else f" less {-tail:,} B that other kernels may spare"
    of += f" and a reserve of {reserve_bytes:,} B" if reserve_bytes else ""
    return f"{least + reserve_bytes:,} B at the least: {of}"


def _session_rows(arena_bytes: int) -> list[tuple[str, str]]:
    """How onnxruntime is configured to keep the order and the arena; `--snippet` writes the same as Python."""
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
        return f"search, {format_count(certificate.states, 'state')}; `lowtide verify --prove` repeats the search"
    return "none but the footprint of the largest single op"


def proof_text(plan: Plan) -> str:
    """How far the bound is from the peak."""
    if plan.optimal:
        return "the peak is proved optimal" + over_what(plan)
    gap = plan.peak_bytes - plan.lower_bound_bytes
    return f"gap {format_size(gap)}, {100 * gap / plan.peak_bytes:.1f} % of the peak"


def over_what(plan: Plan) -> str:
    """Over which orders the peak is least, where these are not simply all of the graph's."""
    if plan.proved_over == "orders_and_regions":
        return " over all orders and tilings"
    if plan.proved_over == "orders_and_joined_regions":
        return " over all orders and all tilings whose regions materialise their outputs"
    if plan.recomputation is not None:
        return " over all orders in which each op runs once"
    if not plan.exactness and not plan.loops:
        return ""
    if plan.fission is not None:
        return " over all orders of the ops outside the tiles" if plan.fission.parts else ""
    kind = "of these loops" if plan.loops else "with these aliases" if aliases_of(plan) else "of these tiles"
    return f" over all orders {kind}"


def _region_rows(plan: Plan) -> list[tuple[str, int, str]]:
    """What is needed whatever is cut, where that is less than the plan needs."""
    if plan.fission is not None:
        text = "inputs at the start, results at the end: no plan needs less, with any tiling or recomputation"
        least, most = plan.fission.least_peak_bytes or 0, 100 * (plan.fission.max_overhead or 0.0)
        if least > plan.fission.floor_bytes:
            return [("with any tiling", least, f"no plan within {most:g} % more time needs less, in any order")]
        return [("with any tiling", plan.fission.floor_bytes, text)]
    bound = plan.region_bound
    if bound is None or plan.proved_over != "orders":
        return []
    return [("with any tiling", bound.bytes, "no choice of regions needs less; whether one reaches this bound is open")]


def _cost_text(cost: PlanCost) -> str:
    """What the ops take, compared with the uncut model, and how that is known."""
    known = [
        (cost.measured, "measured"), (cost.between, "between measured ones"), (cost.roofline, "from a roofline"),
    ]  # fmt: skip
    ops = ", ".join(f"{many:,} {how}" for many, how in known if many)
    threads = "1 thread" if cost.threads == 1 else f"{cost.threads} threads"
    return (
        f"{1e3 * cost.predicted_seconds:,.2f} ms predicted, {100 * cost.overhead:+.1f} % compared with the untiled "
        f"model, on {cost.device}, {threads}; ops: {ops}"
    )


def recomputed_text(plan: Plan) -> str:
    """How many ops are recomputed, what that costs, and what it costs at least."""
    cost = plan.recomputation
    assert cost is not None, plan.graph
    recomputed = sum(isinstance(r, Recompute) for r in plan.rewrites or ())
    if plan.swapping is not None:
        return _swapped_text(plan, cost, plan.swapping, recomputed)
    if cost.least_peak_bytes is not None:
        return _lowest_text(plan, cost, recomputed)
    if not recomputed:
        over = "no plan that fits was found, and it is not proved that none exists"
        why = {"impossible": "no plan fits", "over_budget": over}
        return "no op: " + why.get(plan.status, "the best order fits without recomputation")
    added, least = 100 * cost.overhead, 100 * cost.least_overhead
    proof = "optimal" if cost.planned == cost.lower_bound else f"{least:.3f} % at least, in any order"
    proof = proof if plan.status in ("ok", "unproved") else f"within the budget {least:.3f} % at least"
    return f"{format_count(recomputed, 'op')}, {added:.3f} % more {COUNTED[cost.counted]}; {proof}"


def _swapped_text(plan: Plan, cost: Recomputation, swapping: Swapping, recomputed: int) -> str:
    """The same of a plan whose tensors may leave memory."""
    swaps = sum(isinstance(r, Swap) for r in plan.rewrites or ())
    away = f"{format_count(swaps, 'tensor')} {'leaves' if swaps == 1 else 'leave'} memory"
    moved = (
        f"{format_size(swapping.stored_bytes)} out, {format_size(swapping.loaded_bytes)} in" if swaps else "no transfer"
    )
    waits = f"ops wait {swapping.waiting_nanoseconds / 1e6:,.3f} ms" if swapping.waiting_nanoseconds else "no op waits"
    least = f"{100 * cost.least_overhead:.3f} % at least, in any order"
    if cost.least_peak_bytes is not None:
        least = f"no peak below {format_size(cost.least_peak_bytes)} within {100 * (cost.max_overhead or 0):g} %"
    added = f"{100 * cost.overhead:.3f} % more time than {cost.once / 1e6:,.3f} ms"
    return f"{format_count(recomputed, 'op')}; {away}: {moved}; {waits}; {added}; {least}"


def _lowest_text(plan: Plan, cost: Recomputation, recomputed: int) -> str:
    """The same of a plan of least peak within a bound on the cost."""
    added, most = f"{100 * cost.overhead:.3f} % more {COUNTED[cost.counted]}", f"{100 * (cost.max_overhead or 0):g} %"
    runs = f"{format_count(recomputed, 'op')}, {added}" if recomputed else "no op"
    proof = f"no plan within {most} has a peak below {format_size(cost.least_peak_bytes or 0)}, in any order"
    if plan.peak_bytes == cost.least_peak_bytes:
        proof = f"no plan within {most} has a lower peak, in any order"
    within = f"; the budget takes {100 * cost.least_overhead:.3f} % at least" if plan.budget_bytes is not None else ""
    return f"{runs}; {proof}{within}"


def _among_text(search: Mapping[str, Any], cost: Recomputation | None) -> str:
    """What a published method says of the sequences that it chooses among; as the solver reports, unchecked."""
    ended = {
        "optimal": "the least cost",
        "infeasible": "none is within the budget",
        "complete": "nothing is proved",
        "time": "the time limit was reached",
    }[search["ended"]]
    bound = search.get("among_bound")
    if search["ended"] == "time" and bound and cost is not None and cost.once:
        ended += f"; {100 * (bound / cost.once - 1):.3f} % at least"
    return f"{ended}, among: {search['among']}"


def _arena_text(plan: Plan) -> str:
    arena, bound = plan.arena_bytes or 0, plan.arena_lower_bound_bytes
    text = above_text(arena, plan.peak_bytes)
    parts = plan.runtime_parts
    bodies = "" if parts is None else bodies_text(parts, {op.id: f"{op.name} ({op.type})" for op in plan.ops})
    if bodies and arena > plan.peak_bytes:
        return f"{text}: {bodies}"
    if bound is None:
        return text
    return f"{text}; " + ("least for this order" if arena == bound else f"this order needs at least {bound:,} B")


def _memory_rows(plan: Plan) -> list[tuple[str, int, str]]:
    """All memories together, and each: what the plan takes of it, what there is, which of TFLM's arenas lie there."""
    arena_bytes = plan.arena_bytes if plan.runtime_arenas is None else plan.runtime_arena_bytes
    rows = [("memories", arena_bytes or 0, _slow_text(plan))]
    for m in plan.memories or ():
        rows.append((f"  {m.name}", m.size_bytes or 0, _memory_text(m) + _held(plan.runtime_arenas, m.name)))
    return rows


def _arenas_label(plan: Plan) -> str:
    return (
        "head and tail" if plan.runtime_arenas is not None and plan.runtime_arenas.has_two_arrays else "smallest arena"
    )


def _held(arenas: RuntimeArenas | None, memory: str) -> str:
    if arenas is None:
        return ""
    parts = (("head", arenas.head_memory), ("tail", arenas.tail_memory))
    held = " and ".join(part for part, name in parts if name == memory)
    return f"; TFLM's {held}" if held else ""


def arenas_text(arenas: RuntimeArenas | None) -> str:
    """What is declared for TFLM: one array, or two and the memory of each."""
    if arenas is None or not arenas.has_two_arrays:
        return "kTensorArenaSize"
    return f"head in {arenas.head_memory}, tail in {arenas.tail_memory}"


def _memory_text(memory: PlanMemory) -> str:
    left = memory.capacity_bytes - (memory.size_bytes or 0)
    return f"of {format_size(memory.capacity_bytes)}, " + (f"{left:,} B free" if left >= 0 else f"{-left:,} B too many")


def _slow_text(plan: Plan) -> str:
    """What is in slow memories, and whether that is the least."""
    slow, bound = plan.figures.slow_bytes, plan.figures.slow_lower_bound_bytes
    if plan.status in ("over_budget", "impossible"):
        never = ", and no order and no placement does" if plan.status == "impossible" else ""
        return f"does not fit{never}"
    if not slow:
        return "all in the first memory of its list"
    least = (
        "proved minimal for this order and what is in place"
        if plan.runtime_arenas is None
        else "the fewest of all ways"
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


def target_text(target: Target) -> str:
    """A target as TOML that `--target` reads, what its keys mean and what it knows of op types as comments."""
    lines = [*_explained(to_toml(target)), ""]
    if target.rule:
        return "\n".join([*lines, *_rule_lines(target.rule)]) + "\n"
    lines += ["# Op types by kind; one that is in no row is neither a view nor elementwise.", "#"]
    for kind in TABLE:
        says = [word for word, holds in (("view", kind.view), ("elementwise", kind.elementwise)) if holds]
        if kind.overwrites != "none":
            says.append(f"in place over {'any input' if kind.overwrites == 'any' else 'the first input'}")
        lines.append(f"# {kind.family}: {', '.join(says)}")
        lines += textwrap.wrap(", ".join(kind.types), 116, initial_indent="#   ", subsequent_indent="#   ")
    return "\n".join(lines) + "\n"


def _explained(toml: str) -> Iterator[str]:
    """A target's lines, each key below what `Target` says of it: the words that it takes are there."""
    meant: dict[str, list[str]] = {}
    names: list[str] = []
    for line in (inspect.getdoc(Target) or "").partition("----------\n")[2].splitlines():
        if line.startswith(" "):
            meant.setdefault(names[0], []).append(f"# {line.strip().replace('`', '')}")
        else:
            names = line.split(", ")
    for line in toml.splitlines():
        yield from meant.get(line.partition(" = ")[0], ())
        yield line


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
