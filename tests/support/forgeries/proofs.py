"""Proofs that show nothing, for bounds that are no larger than honest ones; and what is streamed between two plans."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from support.forgeries.bases import Base
from support.forgeries.families import Family, changed
from support.forgeries.leaves import Document, put


def of_another_model(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Plans that would be right if the model were another one."""
    yield from base.near


def proofs_of_nothing(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Windows and phases of ops that are not there or do not run in turn, and bounds where ops may run again."""
    traffic = base.plan.traffic_bytes
    if not traffic:
        return
    bound = base.plan.traffic_lower_bound_bytes or 1
    order, rules = base.plan.order, base.document.get("spilling") or {}
    first, last, nowhere = order[0], order[-1], 2**40
    proofs: list[tuple[str, list[dict[str, Any]], int]] = [
        ("phases", [{"bytes": bound, "end": nowhere}, {"bytes": 0, "begin": nowhere}], bound),
        ("phases", [{"bytes": bound}, {"bytes": 0}], bound),
        ("phases", [{"bytes": 1, "end": last}, {"bytes": 0, "begin": last, "end": first},
                    {"bytes": 0, "begin": first}], 1),
        ("windows", [{"bytes": bound, "ops": [nowhere]}], bound),
        ("search", [{"bytes": 0, "ops": [nowhere]}], bound),
        ("peak", [{"bytes": bound}], bound),
        ("peak", [{"bytes": bound, "peak": 2**40}], bound),
    ]  # fmt: skip
    for kind, parts, said in proofs:
        proof = {"kind": kind, "states": 1, "parts": parts}
        keys = {"traffic_lower_bound_bytes": said, "optimal": said == traffic, "traffic_proof": proof}
        yield changed(base, **keys), f"{kind} of {parts}"
    streamed = sum(s.stored_bytes + s.loaded_bytes for s in base.plan.streams or ())
    if (base.plan.traffic_lower_bound_bytes or 0) > streamed:
        yield changed(base, spilling=rules | {"rematerialise": True}), "of plans in which ops may run again"


def peaks_false(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Traffic by what is live at once: a peak that is too low for it or is not shown, of some ops, between some ops."""
    proof = base.document.get("traffic_proof") or {}
    if proof.get("kind") != "peak":
        return
    part, op = proof["parts"][0], base.plan.order[0]
    bare = {key: value for key, value in part.items() if key != "cut"}

    def said(part: dict[str, Any], bound: int | None = None) -> Document:
        keys = {} if bound is None else {"traffic_lower_bound_bytes": bound, "optimal": False}
        return changed(base, traffic_proof=proof | {"parts": [part]}, **keys)

    for key, value in (("ops", [op]), ("begin", op), ("end", op)):
        yield said(part | {key: value}), f"a peak of one {key}"
    for less in (part, bare):
        yield said(less | {"peak": part["peak"] - 2}), "less than fits, with what moves"
    more = base.document["traffic_lower_bound_bytes"] + 2
    yield said(part | {"bytes": more, "peak": part["peak"] + 1}, more), "more than flows"
    yield said(bare | {"bytes": more, "peak": part["peak"] + 1}, more), "an order needs less"
    if part.get("cut"):
        flow = part["cut"]["flow"]
        for arcs in (flow[1:], [[*flow[0][:3], flow[0][3] + 1], *flow[1:]]):
            yield said(part | {"cut": part["cut"] | {"flow": arcs}}), "a flow that does not show it"


def streams_from_streams(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """What is joined on the host comes from there, or is there from the start; a piece that is on the host itself."""
    streams, ops = base.document.get("streams"), base.document["ops"]
    if not streams:
        return
    said = {s["tensor"] for s in streams}
    parts = [op["part"] for op in ops if op.get("part")]
    rows = [p["outputs"][0] for p in parts if p["role"] == "slice" and p["inputs"][0] in said]
    given = [t.id for t in base.graph.tensors if t.id not in base.graph.producer and t.id not in said]
    for k, op in enumerate(ops):
        part = op.get("part") or {}
        if part.get("role") == "join" and part["outputs"][0] in said:
            for t in (*rows[:1], *sorted(said)[:1], *given[:1]):
                joined = [t, *part["inputs"][1:]]
                yield put(base.document, ("ops", k, "part", "inputs"), joined), f"tensor {t} goes from host to host"
        elif part.get("role") == "join":
            for j in range(len(streams)):
                yield put(base.document, ("streams", j, "tensor"), part["outputs"][0]), "a piece lies on the host"


def loads_for_stores(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """What is loaded is read by the op that has stored it."""
    for k, r in enumerate(base.document.get("rewrites") or []):
        for j, load in enumerate(r.get("loads", [])):
            readers = [*load["readers"], r["store"]]
            yield put(base.document, ("rewrites", k, "loads", j, "readers"), readers), "stored once it is loaded"


def bounds_of_other_plans(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Of a step in parts: bounds over plans that move tensors, or within no time, and cuts that show nothing."""
    claim = base.document.get("fission")
    if claim is None:
        return
    allow, bound = base.document["allow"], {"least_peak_bytes": 0}
    yield changed(base, fission=claim | bound, allow=None), "nothing says what plans may change"
    yield changed(base, fission=claim | bound, allow=[*allow, "offload"]), "plans that move tensors may need less"
    least = {k: v for k, v in (claim | bound).items() if k != "max_overhead"}
    yield changed(base, fission=least), "within no time"
    times = {"to_host": 1.0, "from_host": 1.0, "op_nanoseconds": [1 for _ in base.graph.ops], "cost_file": "0" * 64}
    yield changed(base, swapping=times, allow=None), "nothing says that tensors may leave memory"
    for k, cut in enumerate(claim.get("cuts", [])):
        wrong: dict[str, Any] = {"op": 2**40, "rows": 2**30, "fewest": 0, "most": 0, "price": [0, 1]}
        for key, value in wrong.items():
            cuts = [*claim["cuts"], cut | {key: value}]
            yield changed(base, fission=claim | bound | {"cuts": cuts}), f"a cut of {key} {value}"
        cuts = [*claim["cuts"][:k], *claim["cuts"][k + 1 :]]
        yield changed(base, fission=claim | bound | {"cuts": cuts}), "for some parts there is no cut"
    if claim.get("cuts"):
        cuts = [c | {"op": 2**40} for c in claim["cuts"]]
        yield changed(base, fission=claim | bound | {"cuts": cuts}), "cuts of no op"


SHOWN: dict[str, Family] = {
    "of another model": of_another_model,
    "proofs of nothing": proofs_of_nothing,
    "false peaks of traffic": peaks_false,
    "streams from streams": streams_from_streams,
    "loads for stores": loads_for_stores,
    "bounds of other plans": bounds_of_other_plans,
}
"""What is forged of proofs, and of models."""
