"""Lists of what is changed in a graph, each with something else in it: what is not there, what is there twice, nothing
at all; and ops left out with all that speaks of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from support.forgeries.bases import Base
from support.forgeries.families import Family, changed
from support.forgeries.leaves import Document, Path, pattern, put, true_still, walk

WHERE = ("rewrites", "loops", "streams", "rounds", "swapping")
"""Keys of what a plan changes in a graph."""

SETS = ("readers", "gone", "sums")
"""Lists in which the order says nothing."""

NOWHERE = 2**40
"""An id that is none."""


def _inside(base: Base) -> list[tuple[Path, Any]]:
    found = [(p, v) for key in WHERE for p, v in walk(base.document.get(key), (key,)) if v is not None]
    for k, op in enumerate(base.document["ops"]):
        for key in ("part", "origin"):
            found += [(p, v) for p, v in walk(op.get(key), ("ops", k, key)) if v is not None]
    for k, t in enumerate(base.document["tensors"]):
        for key in ("piece", "numbers"):
            found += [(p, v) for p, v in walk(t.get(key), ("tensors", k, key)) if v is not None]
    return found


def _others(path: Path, value: Any, random: Random) -> Iterator[Any]:
    """What a list may not be instead."""
    if isinstance(value, list):
        plain = all(isinstance(v, int) for v in value)
        yield []
        if value:
            yield value[1:]
            yield value[:-1]
            yield [*value, value[-1]]
        if plain:
            yield [*value, NOWHERE]
            if value:
                yield [NOWHERE, *value[1:]]
                yield [value[0] + 1, *value[1:]]
                yield [*value[:-1], value[-1] - 1]
            if len(value) > 1 and path[-1] not in SETS and value != value[::-1]:
                yield value[::-1]
    elif isinstance(value, int) and not isinstance(value, bool):
        yield NOWHERE
        yield -1
        yield value + 1


def surgery(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """One list or number of each kind, in every wrong way."""
    kinds: dict[str, list[tuple[Path, Any]]] = {}
    for path, value in _inside(base):
        if path[-1] not in ("cost_file", "name", "to_host", "from_host", "offset", "ends", "begins", "slots"):
            kinds.setdefault(pattern(path), []).append((path, value))
    for found in kinds.values():
        path, value = random.choice(found)
        for other in _others(path, value, random):
            if other != value and not true_still(base, pattern(path), path, value, other):
                yield put(base.document, path, other), f"{path}: {value} -> {other}"


def ops_left_out(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An op less, in the list and in the order; one that is listed and does not run; one that runs again."""
    ops = base.document["ops"]
    order = base.plan.order
    for k in random.sample(range(len(ops)), min(5, len(ops))):
        v = ops[k]["id"]
        if v not in order:
            continue
        made = (ops[k].get("part") or {}).get("outputs", [])
        rest = ops[:k] + ops[k + 1 :]
        less = [u for u in order if u != v]
        tensors = [t for t in base.document["tensors"] if t["id"] not in made]
        yield changed(base, ops=rest, order=less), f"op {v} is left out"
        yield changed(base, ops=rest, order=less, tensors=tensors), f"op {v} is left out, and what it makes"
        yield changed(base, ops=[*ops, ops[k] | {"id": NOWHERE}], order=[*order, NOWHERE]), f"op {v} is there twice"
        if ops[k].get("part"):
            for role in ("slice", "join", "merge", "pad", "part"):
                yield put(base.document, ("ops", k, "part", "role"), role), f"op {v} as a {role}"
            for u in random.sample(range(len(ops)), min(3, len(ops))):
                other = ops[u].get("part")
                if other and u != k:
                    swapped = put(base.document, ("ops", k, "part"), other)
                    yield put(swapped, ("ops", u, "part"), ops[k]["part"]), f"ops {v} and {ops[u]['id']} exchanged"


def kinds_mixed(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Rewrites of another kind beside those of the plan: a run again, a tensor that leaves, one in another, a cut."""
    document, graph = base.document, base.graph
    there = document.get("rewrites") or []
    op = random.choice(graph.ops)
    out, fresh = (op.outputs or (0,))[0], 1 + max([o["id"] for o in document["ops"]])
    new = 1 + max([t["id"] for t in document["tensors"]])
    readers = graph.consumers.get(out, ())[:1]
    again = {"kind": "recompute", "op": fresh, "of": op.id, "replaced": out, "outputs": [new], "readers": list(readers)}
    load = {"op": fresh + 1, "output": new, "instead": out, "readers": list(readers)}
    swap = {"kind": "swap", "tensor": out, "store": fresh, "loads": [load]}
    alias = {"kind": "alias", "tensor": out, "of": (op.inputs or (out,))[0], "op": op.id, "offset": 0}
    cut = {"kind": "cut", "ops": [{"op": op.id, "axis": 0, "ends": [1, 2]}]}
    seams = {"kind": "seams", "ops": [{"op": op.id, "axis": 0, "ends": [1, 2]}]}
    columns = [{"tensor": out, "columns": [0, 1]}]
    sections = {"kind": "sections", "op": op.id, "gone": [op.id], "sections": columns, "ops": [fresh], "tensors": [new]}
    for more in (again, swap, alias, cut, seams, sections):
        yield changed(base, rewrites=[*there, more]), f"a {more['kind']} that nothing else speaks of"
        yield changed(base, rewrites=[*there, more], version=2), f"a {more['kind']} that nothing else speaks of"
    if there:
        yield changed(base, rewrites=[]), "what is changed is not said"
        yield changed(base, rewrites=None), "what is changed is not said"
        yield changed(base, rewrites=[*there, *there]), "everything twice"
        if document["version"] == 2 and base.plan.fission is None:
            yield changed(base, version=1), "a plan with tiles has version 2"


def sums_elsewhere(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Sums in the place of ops that are no norms or means, alone or with those before and behind; and costs of them."""
    graph, rewrites = base.graph, base.document.get("rewrites") or []
    for k, r in enumerate(rewrites):
        for op in graph.ops if r["kind"] == "sums" else ():
            around = [graph.producer.get(op.inputs[0]) if op.inputs else None, op.id]
            around.append(next(iter(graph.consumers.get(op.outputs[0], ())), None))
            for gone in ([op.id], around, around[::-1], [*around[:2], op.id]):
                if op.id != r["op"] and None not in gone:
                    other = r | {"op": op.id, "gone": gone}
                    yield put(base.document, ("rewrites", k), other), f"op {op.id} is no such norm or mean"
        if r["kind"] == "sums":
            twice = [*rewrites[: k + 1], r | {"ops": [NOWHERE + n for n in range(len(r["ops"]))]}, *rewrites[k + 1 :]]
            yield changed(base, rewrites=twice), f"op {r['op']} is gone twice"
    costs = base.document.get("recomputation")
    if costs and any(r["kind"] == "sums" for r in rewrites):
        flow = {"op": graph.ops[0].id, "price": [0, 1], "scale": 1.0, "flow": []}
        for said in ({"lower_bound": 2 * costs["once"]}, {"certificate": flow}, {"least_peak_bytes": 1}):
            yield changed(base, recomputation=costs | said), "nothing is proved"
        yield changed(base, recomputation=costs | {"max_overhead": 0.0}), "more runs again"


OPERATED: dict[str, Family] = {
    "sums elsewhere": sums_elsewhere,
    "surgery": surgery,
    "ops left out": ops_left_out,
    "kinds mixed": kinds_mixed,
}
"""What is forged of what a plan changes in a graph."""
