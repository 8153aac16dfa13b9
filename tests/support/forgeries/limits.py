"""Numbers out of their range, and words of a version that does not have them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from support.forgeries.bases import Base
from support.forgeries.families import Family, changed
from support.forgeries.leaves import Document, put


def versions(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A version that does not know what the plan says, of the plan or of a body."""
    document = base.document
    if document.get("loops") or any(r["kind"] in ("cut", "seams", "sections") for r in document.get("rewrites") or []):
        yield changed(base, version=1), "what it changes is of version 2"
    for k, part in enumerate((document.get("fission") or {}).get("parts", [])):
        if part.get("body"):
            yield put(document, ("fission", "parts", k, "body", "version"), 7), "a body of no version"
            memories = [{"name": "a", "capacity_bytes": 2**40}]
            yield put(document, ("fission", "parts", k, "body"), part["body"] | {"memories": memories}), "no memories"


def memories_out_of_range(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Memories of nothing, or aligned to nothing; residencies before they begin, and off what they are aligned to."""
    aligned = {t.id for t in base.plan.tensors if t.alias_of is None} - {pair[0] for pair in base.plan.in_place}
    rows = [r for r in base.document.get("residency") or [] if r["tensor"] in aligned]
    for k, one in enumerate(base.document.get("memories") or []):
        held = [r["offset"] for r in rows if r["memory"] == one["name"]]
        for key, values in (("capacity_bytes", (0, -1)), ("alignment", (0, -8, 4096)), ("size_bytes", (-1,))):
            for value in values:
                if value != 4096 or (base.plan.moves is None and any(offset % value for offset in held)):
                    yield put(base.document, ("memories", k), one | {key: value}), f"{key} {value} of a memory"
    for k in range(min(4, len(base.document.get("residency") or []))):
        stay = base.document["residency"][k]
        yield put(base.document, ("residency", k), stay | {"offset": -1}), "before the memory begins"
        yield put(base.document, ("residency", k), stay | {"offset": -base.plan.alignment}), "before the memory begins"
        yield put(base.document, ("residency", k), stay | {"memory": "nowhere"}), "in no memory"


def streams_counted(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Tensors that are left on the host under rules that do not let them."""
    rules: dict[str, Any] = base.document.get("spilling") or {}
    if base.document.get("streams"):
        for more in ({"lead": 1}, {"outputs_end_fast": True}, {"inputs_have_copy": False},
                     {"outputs_written_early": False}):  # fmt: skip
            yield changed(base, spilling=rules | more), f"{more} leaves nothing on the host"


def times_out_of_range(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Seconds, rates and overheads that are none."""
    cost, swapping = base.document.get("cost"), base.document.get("swapping")
    if cost:
        for key in ("uncut_seconds", "predicted_seconds"):
            yield changed(base, cost=cost | {key: -1.0}), "less than no time"
            yield changed(base, cost=cost | {"uncut_seconds": 0.0, key: -1.0}), "less than no time"
        before = cost["uncut_seconds"]
        slower = {"predicted_seconds": 3 * before, "overhead": 2.0, "max_overhead": 0.5}
        yield changed(base, cost=cost | slower), "more than is allowed"
    if swapping:
        for key in ("to_host", "from_host"):
            for rate in (0.0, -1.0, 1e31):
                yield changed(base, swapping=swapping | {key: rate}), f"a rate of {rate}"
        for time in (-1, 2**53):
            times = [time, *swapping["op_nanoseconds"][1:]]
            yield changed(base, swapping=swapping | {"op_nanoseconds": times}), f"{time} ns"
        yield changed(base, swapping=swapping | {"op_nanoseconds": times[1:]}), "an op has no time"


def prices_wrong(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Prices by which a plan that is there would cost too much, of no op, in no scale, below nothing."""
    claim = base.document.get("recomputation")
    if (
        not claim
        or base.plan.fission is not None
        or any(r["kind"] == "cut" for r in base.document.get("rewrites") or [])
    ):
        return
    ops = [op.id for op in base.graph.ops]
    made = base.graph.ops[0].outputs[0]
    own = claim.get("certificate") or {"op": ops[-1], "price": [1, 1], "scale": 1.0, "flow": []}
    changes: list[dict[str, Any]] = [
        {"op": 2**40}, {"scale": 3.0}, {"price": [-1, 1]}, {"price": [1, 0]}, {"price": [1, -1]},
        {"waits": [5, 0]}, {"waits": [0, 5]}, {"price": [2**60, 1]}, {"flow": [[made, ops[0], ops[-1], -1]]},
        {"flow": [[None, None, own["op"], 1]]}, {"flow": [[None, None, 2**40, 1]]}, {"flow": [[None, None, ops[0], 1]]},
        {"flow": [[None, ops[0], ops[-1], 1]]}, {"flow": [[2**40, ops[0], ops[-1], 1]]},
        {"flow": [[made, ops[-1], None, 2**50]]}, {"flow": [[made, ops[0], ops[-1], 2**50]]},
    ]  # fmt: skip
    for more in changes:
        for bound in {claim["planned"] + 1, claim["lower_bound"]}:
            costs = claim | {"certificate": own | more, "lower_bound": bound}
            price = more.get("price", [1, 1])
            none = more.get("op") or more.get("scale") or price[0] < 0 or price[1] < 1
            fits = base.plan.status == "ok"  # where it does not fit, plans within the budget may cost more
            if (bound > claim["planned"] and fits) or none:
                keys = {} if base.plan.budget_bytes else {"budget_bytes": base.plan.required_bytes}
                yield changed(base, recomputation=costs, **keys), f"a price with {more}"


def profile_of_moves(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """What is where, said in a profile too."""
    profile = base.document.get("profile")
    if profile and base.plan.moves is not None:
        for more in ({"bytes": [1]}, {"storages": [0]}, {"starts": [0]}, {"ends": [1]}, {"used": {"0": [0]}}):
            yield changed(base, profile=profile | more), "residency says it"


LIMITED: dict[str, Family] = {
    "profile of moves": profile_of_moves,
    "versions": versions,
    "memories out of range": memories_out_of_range,
    "streams counted": streams_counted,
    "times out of range": times_out_of_range,
    "prices wrong": prices_wrong,
}
"""What is forged of numbers that have a range."""
