"""Claims about all plans, which no plan at hand bears out; and keys that have no place in a plan."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from lowtide.analyse.storage import memory_model
from lowtide.sizes import round_up
from lowtide.target import resolve
from support.forgeries.bases import Base
from support.forgeries.families import Family, changed, enough
from support.forgeries.leaves import Document, put


def regions_false(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """More bytes over all regions than a plan that cuts needs, at any op, in any words."""
    least = min(p.peak_bytes for p in (base.plan, base.beside) if p is not None)
    if base.plan.recomputation is not None or base.plan.fission is not None or base.plan.moves is not None:
        return
    allow = base.document.get("allow") or ["tile"]
    ops = [None, *(op.id for op in base.graph.ops), 2**40]
    for said in {least + 1, base.plan.peak_bytes, base.plan.peak_bytes + 1} - set(range(least + 1)):
        for over in ("orders", "orders_and_regions", "orders_and_joined_regions"):
            for op in random.sample(ops, min(3, len(ops))):
                bound = {"bytes": said, "op": op, "joined": random.random() < 0.5}
                keys = {"region_bound": bound, "proved_over": over, "allow": allow}
                yield changed(base, **keys), f"a plan of {least} bytes is known"
    if base.beside is not None and base.beside.peak_bytes < base.plan.peak_bytes:
        yield changed(base, proved_over="orders_and_regions"), "a plan with cuts needs less"


def regions_of_moves(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A bound over regions in a plan with moves, which has none."""
    if base.plan.moves is not None:
        bound = {"bytes": 2**40, "op": None}
        yield changed(base, region_bound=bound), "the plan needs less"
        yield changed(base, region_bound=bound, proved_over="orders_and_regions"), "the plan needs less"
        yield changed(base, proved_over="orders_and_regions"), "nothing is proved over regions"


def again_false(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Costs and peaks below which no plan is said to be, where this one is, with prices to match."""
    claim = base.document.get("recomputation")
    if claim is None or base.plan.fission is not None:
        return

    def said(**keys: Any) -> Document:
        return changed(base, recomputation=claim | keys)

    planned = claim["planned"]
    fits = base.plan.status == "ok" and base.plan.budget_bytes is not None
    for key in ("certificate", "peak_certificate"):
        shown = claim.get(key)
        bounds: list[dict[str, Any]] = []
        if key == "certificate" and fits:
            bounds = [{"lower_bound": planned + 1}, {"lower_bound": 3 * planned + 1}]
        if key == "peak_certificate" and claim.get("max_overhead") is not None:
            bounds = [{"least_peak_bytes": base.plan.peak_bytes + 1}, {"least_peak_bytes": 2 * base.plan.peak_bytes}]
        for bound in bounds:
            why = f"the plan itself has {planned} and {base.plan.peak_bytes}"
            yield said(**bound), why
            yield said(**bound, **{key: None}), why
            for certificate in _prices(base, random, shown):
                yield said(**bound, **{key: certificate}), why
    if claim.get("max_overhead") is None:
        yield said(least_peak_bytes=1), "within no cost"
        yield said(max_overhead=-1.0), "within less than nothing"
        price = {"op": base.plan.order[0], "price": [1, 1], "scale": 1.0, "flow": []}
        yield said(peak_certificate=price), "within no cost"
    else:
        yield said(max_overhead=-0.5), "more runs again than that"
        if planned > claim["once"]:
            yield said(max_overhead=0.0), "more runs again than that"
    yield said(planned=claim["once"] - 1), "less than each op once"
    if planned > claim["once"]:
        yield said(planned=claim["once"], lower_bound=claim["once"]), "ops run again"
    for counted in ("cost", "flops", "bytes", "nanoseconds"):
        if counted != claim["counted"]:
            yield said(counted=counted), f"{claim['counted']} are counted"


def _prices(base: Base, random: Random, shown: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Certificates of prices that show much too much, each wrong in one place."""
    ops = base.graph.ops
    at = random.choice(ops)
    honest = shown or {"op": at.id, "price": [2**40, 1], "scale": 1.0, "flow": []}
    flow = honest["flow"]
    large = 2**60
    yield honest | {"price": [large, 1]}
    yield honest | {"price": [-1, 1]}
    yield honest | {"price": [1, 0]}
    yield honest | {"price": [1, -1]}
    yield honest | {"scale": honest["scale"] * 2}
    yield honest | {"op": 2**40}
    yield honest | {"waits": [1, 1]}
    yield honest | {"waits": [-1, 0]}
    yield honest | {"waits": [honest["price"][1] + 1, 0]}
    for k, arc in enumerate(flow[:6]):
        yield honest | {"flow": [*flow[:k], [*arc[:3], large], *flow[k + 1 :]]}
        yield honest | {"flow": [*flow[:k], [*arc[:3], -arc[3] - 1], *flow[k + 1 :]]}
    for op in random.sample(ops, min(3, len(ops))):
        for other in random.sample(ops, min(3, len(ops))):
            yield honest | {"flow": [*flow, [None, other.id, op.id, large]]}
            for t in (*op.inputs[:1], *op.outputs[:1]):
                yield honest | {"flow": [*flow, [t, other.id, op.id, large]]}
                yield honest | {"flow": [*flow, [t, None, op.id, large]]}
                yield honest | {"flow": [*flow, [t, op.id, None, large]]}
        yield honest | {"flow": [*flow, [None, None, op.id, large]]}
        yield honest | {"flow": [*flow, [None, op.id, None, large]]}


def steps_false(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Of a step in parts: floors, peaks and times that this plan is below; times that do not add up."""
    claim = base.document.get("fission")
    if claim is None:
        return

    def said(**keys: Any) -> Document:
        return changed(base, fission=claim | keys)

    peak = base.plan.peak_bytes
    yield said(floor_bytes=peak + 1), f"the plan needs {peak}"
    yield said(floor_bytes=2 * peak, least_peak_bytes=2 * peak), f"the plan needs {peak}"
    for cuts in (claim.get("cuts", []), [], claim.get("cuts", [])[:1], claim.get("cuts", [])[1:]):
        yield said(least_peak_bytes=peak + 1, cuts=cuts), f"the plan needs {peak}"
    for k, cut in enumerate(claim.get("cuts", [])[:4]):
        wrong = {"op": 2**40, "rows": cut["rows"] + 1, "fewest": 0, "most": 0}
        for key, value in (*wrong.items(), ("price", [0, 1]), ("price", [1, 0])):
            cuts = put(claim["cuts"], (k, key), value)
            yield said(least_peak_bytes=peak + 1, cuts=cuts), f"the plan needs {peak}"
    for key in ("predicted_seconds", "uncut_seconds"):
        yield said(**{key: claim[key] / 2 + 1}), "the ops add up to something else"
        yield said(**{key: -1.0}), "less than no time"
    yield said(overhead=claim["overhead"] - 1, max_overhead=claim["overhead"] - 0.5), "longer than is allowed"
    if base.plan.status == "ok":
        yield said(max_overhead=claim["overhead"] - 1), "longer than is allowed"
    for name in ("slice", "join", "merge", "other"):
        yield said(families={k: v for k, v in claim["families"].items() if k != name}), "of some ops nothing is known"
        for family in ({"launch_seconds": -1.0}, {"by_flops": [[2.0, 1.0], [1.0, 1.0]]}, {"by_bytes": [[1.0, 0.0]]}):
            odd = claim["families"][name] | family
            yield said(families=claim["families"] | {name: odd}), "no times"
    for key, value in (("version", 7), ("fission", claim), ("moves", []), ("memories", []), ("loops", []), ("ops", 3)):
        for k, _part in enumerate(claim["parts"][:1]):
            yield said(parts=put(claim["parts"], (k, "body", key), value)), "a body is a plan of ops that run whole"
    if claim["parts"]:
        yield said(parts=[*claim["parts"], claim["parts"][0]]), "ops run in the parts of two regions"
        yield said(parts=[]), "ops that run in parts run whole"
        ends = claim["parts"][0]["ends"]
        for other in ([*ends, ends[-1] + 1], ends[:-1], [0, *ends], ends[::-1], [ends[-1]], []):
            if other != ends:
                yield said(parts=put(claim["parts"], (0, "ends"), other)), "other rows"
        ops = claim["parts"][0]["ops"]
        for other in (ops[:-1], ops[1:], [], [*ops, ops[0]], [[v, "?"] for v, _ in ops], [*ops, [2**40, "n"]]):
            yield said(parts=put(claim["parts"], (0, "ops"), other)), "other ops"
    for k in range(len(claim.get("merged", []))):
        for key, value in claim["merged"][k].items():
            for other in (value[::-1], value[1:], [*value, 2**40]):
                if other != value:
                    yield said(merged=put(claim["merged"], (k, key), other)), "other ops as one"
        yield said(merged=claim["merged"][:k] + claim["merged"][k + 1 :]), "not merged"
        yield changed(base, allow=[w for w in base.document["allow"] if w != "merge"]), "merging is not allowed"


def seconds_false(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A time below which no plan within the budget is said to be, where this one is."""
    claim = base.document.get("fission")
    if claim is None or base.plan.status != "ok":
        return
    seconds = claim["predicted_seconds"]
    for cuts in (claim.get("cuts", []), [], claim.get("cuts", [])[1:]):
        for least in ({}, {"least_peak_bytes": None}):
            said = {
                k: v for k, v in (claim | {"least_seconds": 2 * seconds, "cuts": cuts} | least).items() if v is not None
            }
            yield changed(base, fission=said), f"the plan takes {seconds}"
            yield changed(base, fission=said, budget_bytes=base.plan.required_bytes), f"the plan takes {seconds}"


def conflict_false(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Members that are not there then, that fit, that are listed twice, or of which one is one too many."""
    conflict = base.document.get("conflict")
    if conflict is None:
        plain = {"tensors": [], "workspaces": [], "step": 0, "available_bytes": 0, "needed_bytes": 1, "minimal": False}
        if base.plan.status in ("ok", "unproved"):
            yield changed(base, conflict=plain), "the plan fits"
        return
    if conflict["step"] is None:  # proved by a search, which nobody does again
        return

    def said(**keys: Any) -> Document:
        return changed(base, conflict=conflict | keys)

    last = len(base.plan.order)
    for step in (-1, last, last + 5):
        yield said(step=step), "a step that is not there"
    works = [op.id for op in base.graph.ops if not op.workspace]
    if works:
        yield said(workspaces=[*conflict["workspaces"], works[0]]), "of no bytes"
    yield said(workspaces=[*conflict["workspaces"], 2**40]), "of nothing"
    yield said(tensors=[*conflict["tensors"], 2**40]), "of nothing"
    yield said(tensors=conflict["tensors"] * 2), "twice"
    yield said(tensors=conflict["tensors"][1:]), "less than is said"
    yield said(needed_bytes=conflict["needed_bytes"] * 2), "more than they have"
    yield said(needed_bytes=conflict["available_bytes"]), "it fits"
    yield said(available_bytes=conflict["available_bytes"] + 1), "there is less"
    lives = {t: k for k, v in enumerate(base.plan.order) if v in base.graph.op_by_id
             for t in base.graph.op_by_id[v].outputs}  # fmt: skip
    step = conflict["step"]
    later = [t for t, made in lives.items() if step is not None and made > step and t not in conflict["tensors"]
             and base.graph.tensor_by_id[t].size and base.graph.tensor_by_id[t].alias_of is None]  # fmt: skip
    for t in later[:2]:
        yield said(tensors=[*conflict["tensors"], t]), "made later"
    size, unit = {t.id: t.size for t in base.plan.tensors}, base.plan.alignment
    few = {"workspaces": [], "minimal": False}
    for t in base.plan.tensors:
        if base.plan.memories and t.id not in conflict["tensors"] and t.size and t.alias_of is None:
            more = {"needed_bytes": conflict["needed_bytes"] + round_up(t.size, unit), "minimal": True}
            yield said(tensors=[*conflict["tensors"], t.id], **more), "one is one too many"
    widest = max((m.capacity_bytes for m in base.plan.memories or ()), default=0)
    for step, v in enumerate(base.plan.order):
        less = {"step": step, "needed_bytes": conflict["needed_bytes"] - 1, "minimal": False}
        if base.plan.memories:
            yield said(**less), "less than they have"
        for t in base.graph.op_by_id[v].outputs[:1] if v in base.graph.op_by_id else ():
            if 0 < round_up(size[t], unit) <= widest:
                alone = {"tensors": [t], "step": step, "needed_bytes": round_up(size[t], unit)}
                yield said(**alone, **few), "it goes into a memory"
    for out, read in base.plan.in_place:
        step = base.plan.order.index(base.graph.producer[out])
        needed = round_up(size[out], unit) + round_up(size[read], unit)
        if needed > conflict["available_bytes"]:
            yield said(tensors=[out, read], step=step, needed_bytes=needed, **few), "they have the same bytes"


def nonsense(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """What has no place in a plan of this kind, or counts nothing."""
    yield changed(base, model_sha256="0" * 63 + "7"), "of another model"
    for key in ("states", "variables", "ops_moved", "slow_bytes", "stall_seconds"):
        yield changed(base, search={key: -1}), "counts nothing"
        yield changed(base, search={key: "many"}), "counts nothing"
    rules = base.document.get("rules")
    if rules:
        for key, value in rules.items():
            if isinstance(value, bool) and key not in ("overwrite_inputs", "pin_inputs", "keep_inputs"):
                yield changed(base, rules=rules | {key: not value}), "other rules than the target's"
        yield changed(base, target=f"{base.target},alignment=128"), "another target's"
    yield changed(base, folded=[*base.document["folded"], 2**40]), "no such op is computed beforehand"
    for keys, why in _misplaced(base):
        yield changed(base, **keys), why
    for key in ("arena_bytes", "offsets", "workspace_offsets", "arena_lower_bound_bytes", "arena_optimal"):
        rest = ("arena_bytes", "offsets", "workspace_offsets", "arena_lower_bound_bytes", "arena_optimal")
        if base.document.get(key) and base.plan.moves is None and base.plan.memories is None and key != "arena_bytes":
            keys = {k: None for k in rest if k != key} | {"required_bytes": base.plan.peak_bytes, "conflict": None}
            if base.plan.runtime_arena_bytes is None and base.plan.budget_bytes is None:
                yield changed(base, **keys), f"{key} of no arena"


def unread(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """What has its place in plans of other kinds, and is read there alone."""
    plan = base.plan
    if plan.rewrites is None and plan.loops is None:
        yield changed(base, halos={"macs": 7, "extra_macs": 0}), "rows that run again of no cuts"
        yield changed(base, exactness="bits"), "nothing is changed"
    yield changed(base, runtime_unknown=["Conv"]), "nothing is unknown"
    first, *others = base.document["ops"]
    if not any(op.get("part") for op in (first, *others)):
        yield changed(base, ops=[first | {"part": {"role": "slice", "inputs": [], "outputs": []}}, *others]), "no part"
    op = base.graph.ops[0].id
    sums = {"kind": "sums", "op": op, "gone": [op], "ops": [2**40], "tensors": [2**40]}
    yield changed(base, rewrites=[*base.document.get("rewrites", []), sums]), "sums that nothing else speaks of"
    again = {"counted": "bytes", "once": 1.0, "planned": 1.0, "lower_bound": 1.0}
    if plan.recomputation is None:
        yield changed(base, recomputation=again), "costs that do not add up"
    times = {"to_host": 1.0, "from_host": 1.0, "op_nanoseconds": [1 for _ in base.graph.ops], "cost_file": "0" * 64}
    if plan.swapping is None:
        yield changed(base, swapping=times), "nothing leaves memory"
    lies = {"kind": "alias", "tensor": (base.graph.ops[-1].outputs or (0,))[0], "of": 0, "op": op, "offset": 0}
    if plan.moves is None:
        yield changed(base, spilling={"write_once": False}), "nothing is moved"
        yield changed(base, traffic_bytes=1, traffic_lower_bound_bytes=1), "nothing is moved"
        yield changed(base, streams=[]), "nothing is moved"
    else:
        yield changed(base, loops=[]), "loops that nobody runs"
        yield changed(base, rewrites=[*base.document.get("rewrites", []), lies], allow=["alias"]), "it moves"
    if plan.memories is None:
        yield changed(base, residency=[]), "there is one memory"
        yield changed(base, workspace_memories={}), "there is one memory"
    else:
        yield changed(base, memories=None), "tensors in no memories"


def false_of_parts(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """What a runtime takes at least said to be more than it takes, so that a budget becomes impossible."""
    required, parts = base.plan.required_bytes, base.document.get("runtime_parts")
    if base.plan.memories is not None or base.plan.moves is not None:
        return
    block, peak, arena = base.plan.runtime_arena_bytes, base.plan.peak_bytes, base.plan.arena_bytes
    if block is not None:
        less = {"runtime_arena_bytes": peak - 1, "required_bytes": base.plan.required_bytes - (block - peak + 1)}
        yield changed(base, **less), f"the order needs {peak}"
    if parts and parts["kernels"] != "any" and arena is not None:
        more = arena + base.plan.alignment
        yield changed(base, arena_bytes=more, arena_optimal=None, arena_lower_bound_bytes=None), "the parts plan less"
    keys = {"budget_bytes": 2 * required, "status": "impossible", "conflict": None}
    if parts and parts.get("arenas") and not base.plan.rewrites:
        strange = parts.get("beyond", {}) | {"cmsis_nn,simd=none": 2**40}
        yield changed(base, runtime_parts=parts | {"beyond": strange}), "no such build"
    if parts:
        for key in ("least_planning", "least_beside"):
            yield changed(base, **keys, runtime_parts=parts | {key: 4 * required}), "twice as much is there"
        return
    said = {"planned": required, "planning": 1, "persistent": 1, "alignment": 16, "exact": False, "scratch": 0}
    least = {"least_planning": 4 * required, "least_beside": 4 * required}
    yield changed(base, **keys, runtime_parts=said | least), "no runtime with such parts"


def _misplaced(base: Base) -> Iterator[tuple[dict[str, Any], str]]:
    """Keys that speak of what is not there."""
    plan = base.plan
    figure = {"runtime": "onnxruntime", "what": "in use", "default_bytes": 1, "planned_bytes": 1, "sure": "exact"}
    yield {"runtime_figures": [figure | {"default_bytes": -1}]}, "less than nothing"
    yield (
        {"runtime_figures": [figure | {"runtime": "another", "planned_bytes": 2**50}]},
        "of no such model",
    )
    if plan.rewrites is None and plan.loops is None:
        yield {"rounds": [{"ops": [], "tensors": [], "order": [], "rewrites": []}]}, "rounds of no cuts"
    if plan.recomputation is None and plan.moves is None and plan.loops is None:
        again = {"counted": "bytes", "once": 1.0, "planned": 1.0, "lower_bound": 1.0}
        yield {"recomputation": again}, "costs that do not add up"
    if plan.runtime_arena_bytes is None:
        yield {"runtime_arena_bytes": 2**30}, "of no runtime"
    if plan.runtime_parts is None:
        parts = {"planned": 1, "scratch": 0, "persistent": 1, "planning": 1, "alignment": 16, "exact": True}
        yield {"runtime_parts": parts, "runtime_arena_bytes": 17}, "of no runtime"
    elif plan.runtime_arenas is None:
        yield {"runtime_parts": None}, "a block of no parts"
        yield {"runtime_arena_bytes": None}, "parts of no block"
    if plan.runtime_arenas is not None:
        yield {"runtime_arenas": None}, "arenas in no memories"
        yield {"runtime_parts": None}, "arenas of no parts"
        row = {"tensor": 0, "memory": "fast", "offset": 0, "start": 0, "end": 1}
        yield {"residency": [row]}, "tensors lie in the head"
        yield {"workspace_memories": {"0": "fast"}}, "tensors lie in the head"
    if plan.moves is not None:
        for key, value in {
            "offsets": {}, "overlap": [], "arena_lower_bound_bytes": 0, "arena_optimal": True, "budget_bytes": 2**40,
            "reserve_bytes": 0, "runtime_arena_bytes": 0, "runtime_figures": [],
        }.items():  # fmt: skip
            yield {key: value}, "said of a plan that moves"
        yield (
            {"certificate": {"kind": "search", "refuted_bytes": 0, "direction": "f", "states": 0, "switches": {}}},
            "?",
        )
        yield {"lower_bound_bytes": plan.peak_bytes + 1}, "more than is there"
        yield {"status": "impossible"}, "it is possible"
        if plan.optimal:
            yield {"status": "unproved"}, "it is proved"
        drawn = base.document.get("profile")
        for key, value in (("bytes", [1]), ("storages", [0]), ("starts", [0]), ("ends", [1]), ("used", {"0": [0, 1]})):
            if drawn:
                yield {"profile": drawn | {key: value}}, "residency says it"
    elif plan.memories is None:
        yield {"memories": [], "residency": []}, "no memories"
        yield {"moves": []}, "no memories to move between"
        stream = {"tensor": base.graph.tensors[0].id, "stored_bytes": 0, "loaded_bytes": 0}
        yield {"streams": [stream], "moves": [], "traffic_bytes": 0}, "nothing moves"


def fixed_false(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A tensor that is to lie at a place of its own, elsewhere where there is room."""
    fixed, offsets = base.document.get("fixed"), base.document.get("offsets")
    if not fixed or not offsets:
        return
    arena = base.document["arena_bytes"]
    for t in base.plan.tensors:
        if t.name in fixed and t.alias_of is None:
            keys = {"offsets": offsets | {str(t.id): arena}, "arena_bytes": arena + t.size, "arena_optimal": False}
            more = {"required_bytes": base.plan.required_bytes + t.size, "arena_lower_bound_bytes": 0}
            yield changed(base, **keys, **more), f"{t.name} is to lie at {fixed[t.name]}"


def overlap_too_far(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An output that begins higher over its input than its kernel may, by the runtime's own rule."""
    offsets, listed = base.document.get("offsets"), base.document.get("overlap")
    if not offsets or base.document.get("rewrites") or base.plan.loops:
        return
    target = resolve(base.target)
    model = memory_model(target.as_seen(base.graph), target)
    size = {t.id: t.size for t in base.plan.tensors}
    for row in model.overwrites:
        for over in row:
            if over.distance is None or str(over.output) not in offsets:
                continue
            low, start = offsets[str(over.output)], offsets[str(over.input)]
            if low >= start + size[over.input] or start >= low + size[over.output]:
                continue
            at = start - over.distance + base.plan.alignment
            shared = min(at + size[over.output], start + size[over.input]) - max(at, start)
            if at < 0 or shared <= 0:
                continue
            others = [p for p in listed or [] if p[:2] != [over.output, over.input]]
            same = (at, size[over.output]) == (start, size[over.input])
            pairs = [p for p in base.document["in_place"] if p != [over.output, over.input]]
            more = at + size[over.output]
            keys = {"offsets": offsets | {str(over.output): at}, "arena_bytes": max(more, base.document["arena_bytes"])}
            said = {"in_place": [*pairs, [over.output, over.input]]} if same else {"in_place": pairs}
            said |= {"overlap": others if same else [*others, [over.output, over.input, shared]]}
            yield changed(base, **keys, **said), "it reads what it has written over"


def proofs_false(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Traffic that no order is said to be without, above what a plan moves, with every kind of proof."""
    plan, beside = base.plan, base.beside
    if plan.moves is None:
        return
    least = min(p.traffic_bytes or 0 for p in (plan, beside) if p is not None and p.moves is not None)
    traffic = plan.traffic_bytes or 0
    ops = [op.id for op in base.graph.ops]
    for bound in {traffic, least + 1, traffic + 1} - set(range(least + 1)):
        for kind in ("none", "search", "windows", "phases", "peak", "solver", "a feeling"):
            for parts in ([], [{"bytes": bound}], [{"bytes": bound, "ops": ops}], [{"bytes": bound, "ops": ops * 2}],
                          [{"bytes": bound, "ops": [2**40]}], [{"bytes": -1}, {"bytes": bound + 1}],
                          [{"bytes": bound, "end": ops[0]}, {"bytes": 0, "begin": ops[0]}],
                          [{"bytes": bound, "end": ops[0]}, {"bytes": 0, "begin": ops[-1]}],
                          [{"bytes": bound, "end": 2**40}, {"bytes": 0, "begin": 2**40}], [{"bytes": bound, "peak": 1}],
                          [{"bytes": bound, "end": ops[0]}], [{"bytes": bound, "peak": 2**50, "begin": ops[0]}],
                          [{"bytes": bound, "peak": plan.peak_bytes + bound, "ops": ops}],
                          [{"bytes": bound, "peak": plan.peak_bytes + bound}]):  # fmt: skip
                proof = {"kind": kind, "states": 1, "parts": parts}
                keys = {"traffic_lower_bound_bytes": bound, "optimal": bound == traffic, "traffic_proof": proof}
                if kind != "solver" or bound > traffic:
                    yield changed(base, **keys), f"a plan that moves {least} bytes is known"
        yield changed(base, traffic_lower_bound_bytes=-1, optimal=False, traffic_proof=None), "less than nothing"
        keys = {"traffic_lower_bound_bytes": bound, "optimal": bound == traffic, "traffic_proof": None}
        yield changed(base, **keys), f"a plan that moves {least} bytes is known"


def arena_least(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An arena called least that is not: everything lies higher by a unit than it need."""
    plan, unit = base.plan, base.plan.alignment
    if (
        not plan.offsets
        or plan.memories is not None
        or plan.runtime_arena_bytes is not None
        or base.document.get("fixed")
    ):
        return
    offsets = {t: o + unit for t, o in plan.offsets.items()}
    works = {v: o + unit for v, o in (plan.workspace_offsets or {}).items()}
    arena = (plan.arena_bytes or 0) + unit
    keys = {"offsets": offsets, "workspace_offsets": works or None, "arena_bytes": arena, "arena_optimal": True}
    least = {"arena_lower_bound_bytes": arena, "required_bytes": plan.required_bytes + unit}
    if enough(base) <= plan.required_bytes and plan.peak_bytes and not plan.loops:
        yield changed(base, **keys, **least), f"it fits in {plan.arena_bytes}"


CLAIMED: dict[str, Family] = {
    "false over regions": regions_false,
    "regions of moves": regions_of_moves,
    "false of runs again": again_false,
    "false of steps": steps_false,
    "false of seconds": seconds_false,
    "false conflict": conflict_false,
    "out of place": nonsense,
    "unread": unread,
    "false of a runtime's parts": false_of_parts,
    "fixed elsewhere": fixed_false,
    "overlap too far": overlap_too_far,
    "false of traffic": proofs_false,
    "arena called least": arena_least,
}
"""What is forged of what a plan claims of others."""
