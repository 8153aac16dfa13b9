"""Forgeries of what one word alone does not forge: bounds raised above what is reached, figures that are altered
together, statuses with their budgets, and decisions that cannot be.

A family is a function of a base and of chance, which yields documents with why each is wrong. What is wrong is known
from the honest plans alone: the peak of a plan is reached, so no bound is above it; what a plan requires is enough, so
no such budget is impossible; bytes that were live together in the honest plan are so in the forged one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from support.forgeries.bases import Base
from support.forgeries.flows import false_cuts
from support.forgeries.leaves import Document, at, forgeable

Family = Callable[[Base, Random], Iterator[tuple[Document, str]]]

SEARCHED = "by a search"
"""Why only a second search can tell: such a plan is refused with `prove=True`, and may be accepted without."""


def changed(base: Base, **keys: Any) -> Document:
    """The document with other keys; those that are None are left out."""
    document = base.document | keys
    return {key: value for key, value in document.items() if value is not None}


def _plainly(base: Base) -> bool:
    """Whether a plan orders the user's own ops, and no more."""
    return not any(base.document.get(key) for key in ("rewrites", "loops", "fission", "moves", "memories"))


def known_peak(base: Base) -> int:
    """The least peak that is reached by an honest plan of the same ops."""
    besides = base.beside is not None and base.beside.rewrites is None and _plainly(base) and base.beside.moves is None
    return min(base.plan.peak_bytes, base.beside.peak_bytes) if besides and base.beside else base.plan.peak_bytes


def enough(base: Base) -> int:
    """Bytes in which an honest plan of the same model, within the same words, is known to fit."""
    required = [base.plan.required_bytes]
    if base.beside is not None and base.beside.status == "ok":
        required.append(base.beside.required_bytes + (base.plan.reserve_bytes or 0) - (base.beside.reserve_bytes or 0))
    return min(required)


def _search(bound: int) -> dict[str, Any]:
    return {"kind": "search", "refuted_bytes": bound - 1, "direction": "forward", "states": 3, "switches": {}}


def bound_raised(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """The bound above what is reached, with every certificate that might show it."""
    if base.plan.moves is not None:
        return
    known, peak = known_peak(base), base.plan.peak_bytes
    bounds = {peak, known + 1, (known + peak + 1) // 2} if peak > known else {peak + 1, peak + 64}
    for bound in bounds:
        why = f"an order of {known} bytes is known, and no less than {bound} is said"
        keys = {"lower_bound_bytes": bound, "optimal": bound == peak}
        yield changed(base, **keys), why
        yield changed(base, **keys, certificate={"kind": "none"}), why
        yield changed(base, **keys, certificate=_search(bound + random.choice((1, 8)) * (bound >= peak))), why
        yield changed(base, **keys, certificate=base.document["certificate"] | {"value_bytes": bound}), why
        if bound > peak:
            yield (
                changed(base, lower_bound_bytes=bound, peak_bytes=bound, optimal=True, certificate=_search(bound)),
                why,
            )


def bound_by_false_flow(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A flow that shows more than is reached, wrong in one place each."""
    known, peak = known_peak(base), base.plan.peak_bytes
    if not _plainly(base) or peak <= known or base.plan.runtime_arena_bytes is not None:
        return
    for certificate, flaw in false_cuts(base, random, known):
        value = certificate["value_bytes"]
        bound = min(value, peak)
        document = changed(base, lower_bound_bytes=bound, optimal=bound == peak, certificate=certificate)
        yield document, f"an order of {known} bytes is known; {flaw}"


def bound_by_search(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """All as a search would say that had refuted what is reached."""
    known, peak = known_peak(base), base.plan.peak_bytes
    if not _plainly(base) or peak <= known:
        return
    document = changed(base, lower_bound_bytes=peak, optimal=True, certificate=_search(peak))
    if document.get("budget_bytes") is None:
        yield document, f"an order of {known} bytes is known"


def arena_bound_raised(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """The arena's bound above the arena of a plan in the same order."""
    arena, bound = base.plan.arena_bytes, base.plan.arena_lower_bound_bytes
    if arena is None or bound is None:
        return
    for more in (1, 8, 64):
        yield changed(base, arena_lower_bound_bytes=arena + more), "the arena itself is smaller"
        yield changed(base, arena_lower_bound_bytes=arena + more, arena_optimal=True), "the arena itself is smaller"
        both = {"arena_lower_bound_bytes": arena + more, "arena_bytes": arena + more, "arena_optimal": True}
        yield changed(base, **both), "the arena is larger than it need be, and called least"
        required = base.plan.required_bytes + more
        yield changed(base, **both, required_bytes=required), "the arena is larger than it need be, and called least"


def status_turned(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Each status with the budgets, reserves and figures with which it is not true."""
    required, least = base.plan.required_bytes, enough(base)
    if base.plan.memories is not None:
        fits = all((m.size_bytes or 0) <= m.capacity_bytes for m in base.plan.memories)
        for status in ("over_budget", "impossible") if fits else ("ok", "unproved"):
            yield changed(base, status=status), f"it {'fits' if fits else 'does not fit'}"
        return
    words = [None, ["recompute"], ["offload"], ["tile"], ["alias"], base.document.get("allow")]
    for budget, status in (
        (least, "impossible"), (least + 1, "impossible"), (required, "impossible"), (2 * required, "impossible"),
        (required, "over_budget"), (4 * required, "over_budget"), (required - 1, "ok"), (required - 1, "unproved"),
        (required // 2, "ok"), (None, "impossible"), (None, "over_budget"),
    ):  # fmt: skip
        why = f"{status} within {budget}, where {least} is enough and {required} is required"
        yield changed(base, budget_bytes=budget, status=status), why
        yield changed(base, budget_bytes=budget, status=status, conflict=None), why
        for allow in words:
            yield changed(base, budget_bytes=budget, status=status, conflict=None, allow=allow), why
        if status == "impossible":
            bound = base.plan.peak_bytes
            keys = {"budget_bytes": budget, "status": status, "conflict": None}
            cost = base.document.get("recomputation")
            if cost and cost.get("certificate"):
                yield changed(base, **keys, recomputation=cost | {"certificate": None}), why
            for said in ({"kind": "none"}, _search(bound)):
                yield changed(base, **keys, lower_bound_bytes=bound, optimal=True, certificate=said), why
            if budget is not None:
                tight = {"available_bytes": max(0, budget - (base.plan.reserve_bytes or 0)), "minimal": True}
                tight |= {"tensors": [t["id"] for t in base.document["tensors"] if t["kind"] != "constant"]}
                for step in (None, 0):
                    claim = {
                        "workspaces": [],
                        "step": step,
                        "needed_bytes": 2 * required,
                        **tight,
                    }
                    yield changed(base, budget_bytes=budget, status=status, conflict=claim), why


def budget_turned(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """What is required said to be less, or the reserve to be there for less than nothing, so that a budget is met."""
    required = base.plan.required_bytes
    if base.plan.memories is not None:
        return
    less = random.choice((1, 2, 16)) * base.plan.alignment
    budget = required - less
    yield changed(base, budget_bytes=budget, status="ok", required_bytes=budget), f"{required} are required"
    yield (
        changed(base, budget_bytes=budget, status="ok", required_bytes=budget, reserve_bytes=-less),
        "a reserve below 0",
    )
    arena = base.plan.arena_bytes
    if arena is not None:
        keys = {"required_bytes": budget, "arena_bytes": arena - less, "budget_bytes": budget, "status": "ok"}
        yield changed(base, **keys), f"everything ends at {arena}"
        yield changed(base, **keys, arena_lower_bound_bytes=None, arena_optimal=None), f"everything ends at {arena}"
        yield changed(base, **keys, reserve_bytes=None), f"everything ends at {arena}"
    block = base.plan.runtime_arena_bytes
    if block is not None:
        keys = {"required_bytes": budget, "runtime_arena_bytes": block - less, "budget_bytes": budget, "status": "ok"}
        yield changed(base, **keys), f"the runtime takes {block}"


def arena_off_the_alignment(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An arena that another one cannot follow, though everything ends within it."""
    arena, required = base.plan.arena_bytes, base.plan.required_bytes
    if arena is None or base.plan.alignment == 1 or base.plan.memories or base.plan.runtime_arena_bytes is not None:
        return
    less = random.randrange(1, base.plan.alignment)
    keys = {"arena_bytes": arena - less, "required_bytes": required - less if required >= arena else required}
    least = base.plan.arena_lower_bound_bytes or 0
    yield changed(base, **keys, arena_lower_bound_bytes=None, arena_optimal=None), "an arena is rounded up"
    least = min(least, arena - less)
    yield changed(base, **keys, arena_lower_bound_bytes=least, arena_optimal=least == arena - less), "rounded up"


def figures_together(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """The same number everywhere that it stands, by as much less or more; and several figures at once. What TFLM keeps
    beside the head is on trust (`judge.PENDING`), and so is what follows from it."""
    spots = [(p, v) for found in forgeable(base).values() for p, v in found if isinstance(v, int) and v > 1]
    spots = [(p, v) for p, v in spots if not isinstance(v, bool) and p[-1] != "id" and p[0] != "runtime_parts"]
    sums = ("peak_bytes", "own_order_peak_bytes", "arena_bytes", "required_bytes", "traffic_bytes")
    for key in sums:
        value = base.document.get(key)
        if not value:
            continue
        less = random.choice((1, 2, 16)) * base.plan.alignment
        document = copy.deepcopy(base.document)
        for path, v in [*spots, *[((k,), base.document.get(k)) for k in base.document if k.endswith("_bytes")]]:
            if v == value and not (path[0] == "budget_bytes" or path[0] == "fission"):
                at(document, path[:-1])[path[-1]] = v - less
        yield document, f"{value} is {key}, and {value - less} is said throughout"
    for more in (2, 3):
        several = random.sample(spots, min(more, len(spots)))
        document = copy.deepcopy(base.document)
        figures = [p for p, _ in several if p[0] in ("profile", "tensors", *sums) and p[-1] != "alias_of"]
        for path, v in several:
            if path in figures:
                at(document, path[:-1])[path[-1]] = v + random.choice((-1, 1, 16))
        if len(figures) > 1:
            yield document, f"{figures} are other than the graph has them"


def peak_lowered(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Peak, bound, profile and own order lower together."""
    peak = base.plan.peak_bytes
    for lower in {peak - 1, peak - 16, peak // 2, base.plan.lower_bound_bytes} - {peak}:
        if lower < 0:
            continue
        clipped = copy.deepcopy(base.document.get("profile"))
        if clipped and clipped.get("bytes"):
            clipped["bytes"] = [min(lower, b) for b in clipped["bytes"]]
        why = f"the order needs {peak}"
        keys = {"peak_bytes": lower, "optimal": lower == base.plan.lower_bound_bytes}
        yield changed(base, **keys), why
        yield changed(base, **keys, profile=clipped), why
        bound = min(lower, base.plan.lower_bound_bytes)
        every = {**keys, "profile": clipped, "lower_bound_bytes": bound, "optimal": lower == bound}
        yield changed(base, **every), why
        yield changed(base, **every, certificate={"kind": "none"}), why


def sizes_lowered(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A tensor smaller than the graph has it, wherever that is said, and all sums with it."""
    tensors = [k for k, t in enumerate(base.document["tensors"]) if t["size"] > 1 and t["kind"] != "constant"]
    if not tensors:
        return
    k = random.choice(tensors)
    size = base.document["tensors"][k]["size"]
    less = random.choice((1, size // 2, size - 1))
    document = copy.deepcopy(base.document)
    document["tensors"][k]["size"] -= less
    yield document, f"tensor {k} has {size} bytes"
    document = copy.deepcopy(document)
    for key in ("peak_bytes", "arena_bytes", "required_bytes"):
        if document.get(key):
            document[key] -= less
    if document.get("profile"):
        document["profile"]["bytes"] = [b - less for b in document["profile"].get("bytes", [])]
    yield document, f"tensor {k} has {size} bytes"


def order_broken(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An op before what it reads, left out, twice, or of no graph; two neighbours exchanged with all figures kept."""
    order = base.plan.order
    made = {t: op.id for op in base.graph.ops for t in op.outputs}
    for op in random.sample(base.graph.ops, min(4, len(base.graph.ops))):
        before = [made[t] for t in op.inputs if t in made and made[t] in order]
        if op.id in order and before and _plainly(base):
            moved = [v for v in order if v != op.id]
            moved.insert(moved.index(random.choice(before)), op.id)
            yield changed(base, order=moved), f"op {op.id} runs before what it reads"
    k = random.randrange(len(order))
    yield changed(base, order=order[:k] + order[k + 1 :]), "an op does not run"
    yield changed(base, order=[*order[:k], order[k], *order[k:]]), "an op runs twice"
    yield changed(base, order=[*order, 2**40]), "an op is not there"
    yield changed(base, order=[*order[:k], 2**40, *order[k + 1 :]]), "an op is not there"
    yield changed(base, order=order[::-1] if len(order) > 1 else []), "everything runs before what it reads"


def figures_of_another(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """The figures of a better plan on the order of a worse one, and the other way round."""
    beside = base.beside
    if beside is None or beside.rewrites is not None or not _plainly(base) or beside.memories is not None:
        return
    other = Base(base.kind, base.seed, base.graph, beside).document
    if base.document["peak_bytes"] != other["peak_bytes"]:
        for keys in (("peak_bytes",), ("peak_bytes", "profile"), ("peak_bytes", "lower_bound_bytes", "optimal"),
                     ("peak_bytes", "lower_bound_bytes", "optimal", "certificate", "profile")):  # fmt: skip
            yield changed(base, **{k: other.get(k) for k in keys}), "the figures are those of another order"
        yield changed(base, order=other["order"]), "the figures are those of another order"
        yield changed(base, order=other["order"], offsets=other.get("offsets")), "figures of another order"


GENERAL: dict[str, Family] = {
    "bound raised": bound_raised,
    "bound by a false flow": bound_by_false_flow,
    f"bound {SEARCHED}": bound_by_search,
    "arena's bound raised": arena_bound_raised,
    "status turned": status_turned,
    "budget turned": budget_turned,
    "figures together": figures_together,
    "arena off the alignment": arena_off_the_alignment,
    "peak lowered": peak_lowered,
    "sizes lowered": sizes_lowered,
    "order broken": order_broken,
    "figures of another plan": figures_of_another,
}
"""What is forged of every plan."""
