"""Models with all that forbids a change at once, each flaw at an op of its own; and plans of models without that flaw.

Such a plan is right of the other model, and wrong of this one in just what the flaw forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import msgspec

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.labels import word_of
from lowtide.plan import Plan, from_json
from lowtide.rewrites import Recompute
from lowtide.spill_plan import TrafficPart, TrafficProof
from lowtide.target import resolve
from lowtide.transform.fission import Region, access_of
from support.decisions import drawn_plan, plan_in_parts
from support.plan_builder import cut_certificate
from support.sequences import costly_graph
from support.steps import labelled_graph, random_sibling_step

Near = list[tuple[dict[str, Any], str]]
"""Documents of plans that are wrong, and why."""

WIDE = ("x", "a", "b", "c", "e", "f", "g", "h", "i", "r", "u", "v", "y")
SHAPES = {**dict.fromkeys(WIDE, (6, 4)), "w": (4,), **dict.fromkeys(("s", "j", "k", "l", "q"), (4, 4))}
STEP = [
    ("relu", ["x"], "a", "n d -> n d"),
    ("scale", ["a", "w"], "b", "n d, d -> n d"),
    ("relu", ["a"], "c", "n d -> n d"),
    ("softmax", ["a"], "e", "n m -> n m"),
    ("relu", ["a"], "f", "n d -> n d"),
    ("relu", ["a"], "g", "n d -> n d"),
    ("relu", ["a"], "h", "n d -> n d"),
    ("relu", ["a"], "i", "n d -> n d"),
    ("relu", ["s"], "j", "n m -> n m"),
    ("relu", ["s"], "k", "n m -> n m"),
    ("relu", ["s"], "l", "n m -> n m"),
    ("relu", ["k"], "q", "n m -> n m"),
    ("relu", ["a"], "r", "n d -> n d"),
    ("relu", ["x"], "u", "n d -> n d"),
    ("relu", ["u"], "v", "n d -> n d"),
    ("relu", ["x"], "y", "n d -> n d"),
]
"""Ops that could run in parts, if nothing were wrong with them."""

FLAWS: dict[int, tuple[str, dict[str, Any], str]] = {
    1: ("n", {"labels": "n d -> n d"}, "the labels lack an operand"),
    2: ("n", {"labels": "n d -> n d, n d"}, "the labels have a result too many"),
    3: ("m", {"labels": "n . -> n ."}, "each row needs all of the dimension"),
    15: ("n", {"after": (13,)}, "the op stands behind one of which it reads nothing"),
    5: ("n", {"random": True}, "each part would be random"),
    6: ("n", {"labels": "n -> n"}, "the labels are for fewer dimensions"),
    7: ("n", {"shape": None}, "the result has no shape"),
    8: ("n", {"labels": "n n -> n n"}, "the rows are two dimensions"),
}
"""By op the word along which it would run in parts, what is wrong with it, and in words."""

UNDONE: tuple[tuple[dict[int, str], str], ...] = (
    ({0: "n", 9: "n"}, "some have 6 rows, others 4"),
    ({9: "m", 10: "n"}, "a tensor is read along two dimensions"),
    ({9: "n", 11: "m"}, "a part has other rows than are read"),
)
"""Regions that need what a part has not."""


def _with(graph: Graph, number: int) -> Graph:
    """The graph with the flaw of an op."""
    flaw, op = FLAWS[number][1], graph.op_by_id[number]
    if "shape" in flaw:
        tensors = tuple(replace(t, shape=None) if t.id in op.outputs else t for t in graph.tensors)
        return replace(graph, tensors=tensors)
    op = replace(op, after=flaw["after"]) if "after" in flaw else replace(op, attributes={**op.attributes, **flaw})
    return replace(graph, ops=tuple(op if other.id == number else other for other in graph.ops))


def region(graph: Graph, words: Mapping[int, str]) -> Region:
    """Ops along these words, whether a part has what it needs or not."""
    axes: dict[int, int] = {}
    sliced: dict[int, int] = {}
    made: dict[int, int] = {}
    whole: dict[int, None] = {}
    for v, word in sorted(words.items()):
        op = graph.op_by_id[v]
        access = access_of(graph, op)
        axes[v] = next(a for a in range(len(access.sizes)) if word_of(op, access, a) == word)
        for t, indices in zip(op.inputs, access.inputs, strict=True):
            along = [d for d, index in enumerate(indices or ()) if index is not None and index.axis == axes[v]]
            if t not in made and along:
                sliced.setdefault(t, along[0])
            elif t not in made:
                whole[t] = None
        made |= {t: along.index(axes[v]) for t, along in zip(op.outputs, access.outputs, strict=True)}
    first = graph.op_by_id[min(axes)]
    rows = access_of(graph, first).sizes[axes[first.id]]
    outside = {t for op in graph.ops if op.id not in axes for t in op.inputs}
    outside |= {t.id for t in graph.tensors if t.kind is Kind.OUTPUT}
    joined = tuple([(t, dim) for t, dim in made.items() if t in outside])
    return Region(tuple(axes.items()), rows, tuple(sliced.items()), tuple(whole), joined, ())


def step_by_hand(seed: int) -> tuple[Graph, Sequence[Plan], Near]:
    """A step in which no op with a flaw may run in parts, and plans in which each of them does."""
    whole = labelled_graph(STEP, SHAPES)
    flawed = whole
    for number in FLAWS:
        flawed = _with(flawed, number)
    near: Near = []
    for number, (word, flaw, why) in FLAWS.items():
        other = whole
        for further in FLAWS.keys() - {number}:
            other = _with(other, further)
        behind = dict.fromkeys(flaw.get("after", ()), word)
        near.append((_in_parts(other, behind | {number: word}), why))
    near[2][0]["fission"]["parts"][0]["ops"] = [[3, "."]]
    near += [(_in_parts(flawed, words), why) for words, why in UNDONE]
    near.append((_waiting(flawed), "each of two regions waits for the other"))
    near.append((_twice(flawed), "an op runs in the tiles of two regions"))
    return flawed, [plan_in_parts(flawed, None, ())], near


def _in_parts(graph: Graph, words: Mapping[int, str]) -> dict[str, Any]:
    found = region(graph, words)
    return msgspec.json.decode(plan_in_parts(graph, found, (found.rows // 2, found.rows)).to_json())


def _waiting(graph: Graph) -> dict[str, Any]:
    """Two regions, of which each reads what the other makes."""
    document, other = _in_parts(graph, {0: "n", 14: "n"}), _in_parts(graph, {12: "n", 13: "n"})
    first, second = document["fission"]["parts"][0], other["fission"]["parts"][0]
    document["fission"]["parts"] = [first, second | {"op": second["op"] + 1}]
    return document


def _twice(graph: Graph) -> dict[str, Any]:
    """One region that is listed twice, of which the second one runs."""
    document = _in_parts(graph, {12: "n"})
    part = document["fission"]["parts"][0]
    fresh = part["op"] + 1
    document["fission"]["parts"].append(part | {"op": fresh})
    document["order"] = [fresh if v == part["op"] else v for v in document["order"]]
    for op in document["ops"]:
        op["id"] = fresh if op["id"] == part["op"] else op["id"]
    works = document.get("workspace_offsets") or {}
    document["workspace_offsets"] = {str(fresh) if k == str(part["op"]) else k: v for k, v in works.items()}
    return document


def siblings_by_hand(seed: int) -> tuple[Graph, Sequence[Plan]]:
    """A step whose sibling products are one, whether that is worth it or not."""
    for k in range(40):
        graph = random_sibling_step(100 * seed + k)
        plan = drawn_plan(graph, 4)
        if plan.fission is not None and plan.fission.merged:
            return graph, [plan]
    raise AssertionError("no siblings are drawn")


def again_by_hand(seed: int) -> tuple[Graph, Sequence[Plan], Near]:
    """A model in which an op stands behind one that a plan without that runs again."""
    how: dict[str, Any] = {"target": "strict", "allow": "recompute", "time": 0.6}
    for k in range(200):
        graph = replace(costly_graph(Random(f"after {seed} {k}"), 9), sha256=f"{seed:064x}")
        graph = replace(graph, ops=tuple(replace(op, after=()) for op in graph.ops))
        peak = lowtide.research.plan(graph, target="strict").peak_bytes
        plan = lowtide.research.plan(graph, budget=max(1, int(peak * 0.8)), **how)
        for a, b in _behind(graph, plan) if plan.status == "ok" else ():
            ops = tuple(replace(op, after=(a,)) if op.id == b else op for op in graph.ops)
            flawed = replace(graph, ops=ops)
            honest = lowtide.research.plan(flawed, budget=64 * peak, **how)
            return flawed, [honest], [(msgspec.json.decode(plan.to_json()), f"op {a} runs again, and op {b} behind it")]
    raise AssertionError("no such graph")


def _behind(graph: Graph, plan: Plan) -> Iterator[tuple[int, int]]:
    """Ops that run again, with ops that already stand behind them in the file and in the plan, and run once."""
    again = {r.of for r in plan.rewrites or () if isinstance(r, Recompute)} & graph.op_by_id.keys()
    clones = {r.of: r.op for r in plan.rewrites or () if isinstance(r, Recompute)}
    for a in sorted(again):
        for op in graph.ops[graph.index_of[a] + 1 :]:
            if op.id not in clones and plan.order.index(a) < plan.order.index(op.id):
                yield a, op.id


def live_at_once(aligned: bool) -> tuple[Graph, Sequence[Plan], Near]:
    """A skip of which too much is live at once in every order, as a flow shows, with the bound on traffic by that; and
    a plan in which an op is said to be a transfer, so that it takes no memory."""
    sizes, target = (1, 10, 12, 10, 1), "generic,alignment=8" if aligned else "strict"
    kinds = (Kind.INPUT, Kind.ACTIVATION, Kind.ACTIVATION, Kind.ACTIVATION, Kind.OUTPUT)
    tensors = tuple(Tensor(k, size, kind, f"t{k}") for k, (size, kind) in enumerate(zip(sizes, kinds, strict=True)))
    ops = (Op(0, (0,), (1,), "A"), Op(1, (1,), (2,), "B"), Op(2, (2,), (3,), "C"), Op(3, (3, 1), (4,), "D"))
    graph = Graph("skip", tensors, ops, sha256="0" * 64)
    rules = resolve(target)
    capacity = 40 if aligned else 23
    plan = lowtide.research.plan(graph, target=target, memories=[f"fast={capacity}"])
    if aligned:
        return graph, [plan], []
    cut = cut_certificate(graph, rules, 2)
    bound = 2 * (cut.value_bytes - capacity - sizes[0] - sizes[-1])
    parts = [TrafficPart(bytes=bound, peak=cut.value_bytes, cut=cut)]
    proof = TrafficProof(kind="peak", parts=parts)
    keys = {"traffic_lower_bound_bytes": bound, "optimal": bound == plan.traffic_bytes, "traffic_proof": proof}
    honest = msgspec.structs.replace(plan, **keys)
    return graph, [honest], [(_as_a_load(graph, honest), "an op is said to be a load of what it reads")]


def _as_a_load(graph: Graph, plan: Plan) -> dict[str, Any]:
    """The plan of a skip whose second op takes no memory: what it reads is stored, what it makes is loaded."""
    kinds = {1: Kind.OUTPUT, 2: Kind.INPUT}
    tensors = tuple(replace(t, kind=kinds.get(t.id, t.kind)) for t in graph.tensors)
    first, second, third, fourth = graph.ops
    second = replace(second, inputs=(), outputs=(), after=(first.id,))
    ops = (first, second, replace(third, after=(second.id,)), replace(fourth, after=(first.id,)))
    memories = [f"{m.name}={m.capacity_bytes}" for m in plan.memories or ()]
    without = lowtide.research.plan(replace(graph, tensors=tensors, ops=ops), target=plan.target, memories=memories)
    document, less = (msgspec.json.decode(p.to_json()) for p in (plan, without))
    keys = (
        "order",
        "residency",
        "moves",
        "memories",
        "peak_bytes",
        "lower_bound_bytes",
        "arena_bytes",
        "required_bytes",
    )
    document |= {key: less[key] for key in keys}
    document["ops"][1]["part"] = {"role": "slice", "inputs": [1], "outputs": [2]}
    stored, loaded = graph.tensors[1].size, graph.tensors[2].size
    document["streams"] = [{"tensor": 1, "stored_bytes": stored, "loaded_bytes": loaded}]
    document |= {"traffic_bytes": less["traffic_bytes"] + stored + loaded, "traffic_lower_bound_bytes": stored + loaded}
    document |= {"optimal": not less["traffic_bytes"], "traffic_proof": {"kind": "none"}}
    return {key: value for key, value in document.items() if key not in ("profile", "search")}


def two_results(seed: int) -> tuple[Graph, Sequence[Plan]]:
    """An op that makes something else, of which nobody reads, before one that needs more."""
    sizes = (8, 8, 16 * (1 + seed), 64 * (1 + seed))
    kinds = (Kind.INPUT, Kind.ACTIVATION, Kind.ACTIVATION, Kind.OUTPUT)
    tensors = tuple(Tensor(k, size, kind, f"t{k}") for k, (size, kind) in enumerate(zip(sizes, kinds, strict=True)))
    ops = (Op(0, (0,), (1, 2), type="TopK"), Op(1, (2,), (3,), type="Conv"))
    graph = Graph("two", tensors, ops, sha256=f"{seed:064x}")
    return graph, [lowtide.research.plan(graph, target="generic,pieces=contiguous", method="own")]


CACHED: Sequence[tuple[int, tuple[int, ...], int, int]] = (
    (0, (0,), 1, 64), (1, (1,), 2, 8), (2, (1, 2), 3, 16), (3, (3,), 4, 8), (4, (2,), 5, 200), (5, (5,), 6, 8),
    (6, (1, 4, 6), 7, 8),
)  # fmt: skip
"""Ops, what they read and make, and its size: the third writes over a part of what the first makes, which the last one
reads."""


@cache
def written_over() -> tuple[Graph, Sequence[Plan], Near]:
    """A tensor that leaves memory, or is made again, between an op that writes over it and one that reads it."""
    kinds = {7: Kind.OUTPUT}
    made = [Tensor(t, size, kinds.get(t, Kind.ACTIVATION), f"t{t}") for _, _, t, size in CACHED]
    ops = tuple(Op(v, read, (t,), f"op {v}", cost=1) for v, read, t, _ in CACHED)
    apart = Graph("apart", (Tensor(0, 8, Kind.INPUT, "x"), *made), ops, sha256="0" * 64)
    tensors = tuple(replace(t, alias_of=1) if t.id == 3 else t for t in apart.tensors)
    graph = replace(apart, tensors=tensors, ops=tuple(replace(op, writes=None if op.id == 2 else ()) for op in ops))

    def over(word: str, budget: int) -> dict[str, Any]:
        plan = lowtide.research.plan(apart, target="strict", allow=word, budget=budget, time=20)
        document = msgspec.json.decode(plan.to_json())
        document["tensors"] = [t | {"alias_of": 1} if t["id"] == 3 else t for t in document["tensors"]]
        document["offsets"]["3"] = document["offsets"]["1"]
        costs = document["recomputation"]
        document["recomputation"] = {key: costs[key] for key in ("counted", "once", "planned")}
        document["recomputation"]["lower_bound"] = costs["once"]
        document |= {"budget_bytes": 400, "lower_bound_bytes": 0, "optimal": False, "certificate": {"kind": "none"}}
        left_out = ("profile", "arena_lower_bound_bytes", "arena_optimal", "search")
        return {key: value for key, value in document.items() if key not in left_out}

    honest, again = over("offload", 220), over("recompute", 240)
    store = next(op["id"] for op in honest["ops"] if op["type"] == "StoreToHost")
    rest = [v for v in honest["order"] if v != store]
    late, early = ([*rest[:k], store, *rest[k:]] for k in (rest.index(2) + 1, rest.index(2)))
    why = "an op reads what was there before it was written over"
    return (
        graph,
        [from_json(msgspec.json.encode(honest | {"order": late}))],
        [
            (honest | {"order": early}, why),
            (again, why),
        ],
    )


KINDS: dict[str, Callable[[int], tuple[Graph, Sequence[Plan]] | tuple[Graph, Sequence[Plan], Near]]] = {
    "step by hand": step_by_hand,
    "siblings by hand": siblings_by_hand,
    "again by hand": again_by_hand,
    "two results": two_results,
    "written over": lambda seed: written_over(),
    "live at once": lambda seed: live_at_once(aligned=False),
    "live at once, aligned": lambda seed: live_at_once(aligned=True),
}
"""What is forged of them, as `bases.KINDS`."""
