"""What a plan says of parts, sections, sums and tensors in others, wrong in one place that no other word bears out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

from lowtide.graph import Kind
from lowtide.ops.meaning import meaning
from support.forgeries.bases import Base
from support.forgeries.families import Family, changed
from support.forgeries.leaves import Document, put
from support.writing_graphs import reads

Found = Iterator[tuple[Document, str]]

NOT_PROVED: dict[str, Any] = {
    "lower_bound_bytes": 0, "optimal": False, "certificate": {"kind": "none"}, "region_bound": None, "profile": None,
    "proved_over": "orders",
}  # fmt: skip


def parts_wrong(base: Base, random: Random) -> Found:
    """Parts with the ids of ops that they are of, of no rows, of rows that are not there; joins and padding of what
    cannot be joined or padded."""
    document = base.document
    ops, order = document["ops"], base.plan.order
    parts = [(k, op["part"]) for k, op in enumerate(ops) if op.get("part")]
    place = {t["id"]: k for k, t in enumerate(document["tensors"])}
    cuts = {c["op"]: (i, j) for i, r in enumerate(document.get("rewrites") or [])
            if r["kind"] in ("cut", "seams") for j, c in enumerate(r["ops"])}  # fmt: skip
    if not parts or not cuts:
        return
    for k, part in random.sample(parts, min(4, len(parts))):
        old, new = ops[k]["id"], next(iter(cuts))
        renamed = put(put(document, ("ops", k, "id"), new), ("order", order.index(old)), new)
        yield renamed | NOT_PROVED, f"op {old} has the id of op {new}, which it is a part of"
        yield from _part_wrong(document, k, part, cuts, place)
    for t in document["tensors"]:
        if t.get("numbers"):
            yield put(document, ("tensors", place[t["id"]], "numbers"), [2**63]), "numbers that are too large"
            break
    fresh = 1 + max(op["id"] for op in ops)
    tensor = 1 + max(place)
    held = [t for t in document["tensors"] if t["kind"] == "activation" and t.get("piece")]
    for t in random.sample(held, min(4, len(held))):
        partial = t["piece"].get("terms") or t["piece"].get("sure")
        piece = {"of": t["piece"]["of"], "box": t["piece"]["box"]}
        made = {"id": tensor, "name": "more", "size": t["size"], "kind": "activation", "piece": piece}
        for role, kind in (("join", "Concat"), ("pad", "Pad")):
            op = {
                "id": fresh,
                "name": "more",
                "type": kind,
                "part": {"role": role, "inputs": [t["id"]], "outputs": [tensor]},
            }
            more = {"ops": [*ops, op], "order": [*order, fresh], "tensors": [*document["tensors"], made]}
            if role == "pad" or partial:
                yield changed(base, **more, **NOT_PROVED), f"a {role} of tensor {t['id']}"


def _part_wrong(
    document: Document, k: int, part: dict[str, Any], cuts: dict[int, tuple[int, int]], place: dict[int, int]
) -> Found:
    """One part in all wrong ways."""
    role, ops = part["role"], document["ops"]
    box = ("tensors", place[part["outputs"][0]], "piece", "box")
    if role in ("slice", "pad"):
        here = document["tensors"][box[1]]["piece"]["box"]
        yield put(document, box, [*here, [0, 1]]), "of one dimension more"
    if role != "part":
        return
    for key in ("axis", "rows"):
        yield put(document, ("ops", k, "part"), {x: y for x, y in part.items() if x != key}), f"without {key}"
    i, j = cuts[ops[k]["origin"][0]]
    cut = document["rewrites"][i]["ops"][j]
    last = cut["ends"][-1]
    beyond = [a if a < last else a + 1 for a in cut["ends"]]
    grown = put(document, ("rewrites", i, "ops", j, "ends"), beyond)
    if part["rows"][1] == last:
        yield put(grown, ("ops", k, "part", "rows"), [part["rows"][0], last + 1]), "a row more than there is"
    yield put(document, ("rewrites", i, "ops", j, "axis"), cut["axis"] + 1), "cut along another axis"
    if document["rewrites"][i]["kind"] == "seams":
        yield put(document, ("rewrites", i, "ops", j, "into"), not cut.get("into", False)), "added up otherwise"
    first = part["rows"][0] + 1
    if cut.get("begins") is None and first < part["rows"][1]:
        yield put(document, ("ops", k, "part", "rows"), [first, part["rows"][1]]), "a row less"


def seams_wrong(base: Base, random: Random) -> Found:
    """Parts that are added to what is no sum."""
    document = base.document
    for k, op in enumerate(document["ops"]):
        part = op.get("part")
        if part and part["role"] == "part" and len(part["inputs"]) == 4:
            for t in (part["inputs"][0], part["inputs"][1], None):
                yield put(document, ("ops", k, "part", "inputs", 3), t), f"op {op['id']} adds to tensor {t}"


def split_wrong(base: Base, random: Random) -> Found:
    """Tensors that are said to stay in pieces: one that is put together, and one that is none."""
    rewrites, listed = base.document.get("rewrites") or [], {t["id"] for t in base.document["tensors"]}
    cut = [c["op"] for r in rewrites if r["kind"] == "cut" for c in r["ops"] if c["op"] in base.graph.op_by_id]
    whole = [t for op in cut for t in base.graph.op_by_id[op].outputs if t in listed]
    for t in (*whole[:2], 2**40) if cut else ():
        split = {"kind": "split", "tensors": [t]}
        yield changed(base, rewrites=[*rewrites, split]), f"tensor {t} does not stay in pieces"


def rounds_wrong(base: Base, random: Random) -> Found:
    """A round that does more than cut, or has an op that it does not run."""
    for k, one in enumerate(base.document.get("rounds") or []):
        alias = {
            "kind": "alias",
            "tensor": one["tensors"][0]["id"],
            "of": one["tensors"][1]["id"],
            "op": 0,
            "offset": 0,
        }
        yield put(base.document, ("rounds", k, "rewrites"), [*one["rewrites"], alias]), "a round does more than cut"
        more = {"id": 2**40, "name": "idle", "type": "Relu"}
        yield put(base.document, ("rounds", k, "ops"), [*one["ops"], more]), "an op is listed, and does not run"
        for i, op in enumerate(one["ops"]):
            if not op.get("part"):
                yield put(base.document, ("rounds", k, "ops", i, "name"), "another"), "an op has another name"
                yield put(base.document, ("rounds", k, "ops", i, "type"), "Another"), "an op is of another type"
                break


def bounds_wrong(base: Base, random: Random) -> Found:
    """A certificate of no op, or of too few cases; halos and bounds over regions where none are; what runs again said
    to be as exact as it is not."""
    certificate = base.document["certificate"]
    if certificate["kind"] == "cut":
        yield changed(base, certificate=certificate | {"op": 2**40}), "at no op"
        yield changed(base, certificate=certificate | {"op": 2**40, "in_place": None, "cases": []}), "at no op"
        if certificate.get("in_place") is not None:
            cases = {k: v for k, v in certificate.items() if k not in ("in_place", "cases")}
            yield changed(base, certificate=cases), "a case is left out"
    kinds = {r["kind"] for r in base.document.get("rewrites") or []}
    if base.document.get("halos"):
        yield changed(base, halos=None), "nothing is said of rows that run again"
        yield changed(base, halos=base.document["halos"] | {"extra_macs": 0}), "no row runs again"
    overlaps = "overlap=in_place" in base.target
    if "sections" in kinds or (overlaps and "cut" in kinds and base.plan.allow == ["tile"]):
        yield changed(base, region_bound={"bytes": 1, "op": None}), "in no plan by sections, or that overlaps"
    if kinds == {"recompute"}:
        for word in ("bits", "kernel", "sum"):
            yield changed(base, exactness=word), "each run makes the same"


def sections_wrong(base: Base, random: Random) -> Found:
    """Columns of weights of which a part alone is known; two ops of one id; more ops that go."""
    document = base.document
    for i, r in enumerate(document.get("rewrites") or []):
        if r["kind"] == "sections":
            twice = [r["ops"][1], *r["ops"][1:]] if len(r["ops"]) > 1 else []
            yield put(document, ("rewrites", i, "ops"), twice), "two ops are one"
            for k, t in enumerate(document["tensors"]):
                if t["id"] in r["tensors"] and t.get("piece"):
                    for key in ("terms", "sure"):
                        yield put(document, ("tensors", k, "piece"), t["piece"] | {key: [[0, 1]]}), f"of some {key}"
                    break
        if r["kind"] == "sums" and len(r["gone"]) == 1:
            for op in base.graph.ops:
                if op.id != r["op"]:
                    yield put(document, ("rewrites", i, "gone"), [r["op"], op.id]), f"op {op.id} goes too"
        if r["kind"] == "sums" and base.document.get("recomputation"):
            again = base.document["recomputation"]
            price = {"op": base.graph.ops[0].id, "price": [0, 1], "scale": 1.0, "flow": []}
            for more in ({"lower_bound": again["once"] + 1}, {"certificate": price}):
                yield changed(base, recomputation=again | more), "nothing is proved"


def aliases_wrong(base: Base, random: Random) -> Found:
    """Rows that are none, or wrap; a tensor that has a place of its own; two results in one place."""
    document, sizes = base.document, {t.id: t.size for t in base.plan.tensors}
    names = {t.id: t.name for t in base.plan.tensors}
    made = {t: op.id for op in base.graph.ops for t in op.outputs}
    listed = [(i, r) for i, r in enumerate(document.get("rewrites") or []) if r["kind"] == "alias"]
    for i, r in listed:
        size, whole = sizes[r["tensor"]], sizes[r["of"]]
        run, pitch = r.get("run", size), r.get("pitch", whole)
        edits: list[dict[str, int]] = [{"run": 0, "pitch": pitch}, {"run": size - 1, "pitch": whole}]
        edits += [
            {"offset": -size},
            {"run": size + 1, "pitch": pitch},
            {"run": size, "pitch": size - 1},
            {"run": run, "pitch": 0},
        ]
        if size % 2 == 0:
            edits += [{"run": size // 2, "pitch": size // 2}, {"run": size // 2, "pitch": 0}]
            edits += [{"run": size // 2, "pitch": size // 2 + 1}, {"run": size // 2, "pitch": whole // 2 + 4}]
        if "run" in r:
            edits += [{"run": run, "pitch": pitch, "offset": pitch - run // 2}, {"run": run, "pitch": pitch + 4}]
        for edit in edits:
            if r | edit != r:
                yield put(document, ("rewrites", i), r | edit), f"rows of tensor {r['tensor']}: {edit}"
        for t in (r["tensor"], r["of"]):
            yield changed(base, fixed={**(document.get("fixed") or {}), names[t]: 0}), f"{names[t]} lies elsewhere"
            yield changed(base, persistent=[names[t]]), f"{names[t]} has memory of its own"
        for _, other in listed:
            if other["of"] == r["of"] and other is not r and made.get(other["tensor"]) == made.get(r["tensor"]):
                yield put(document, ("rewrites", i, "offset"), other["offset"]), "two results in one place"


def results_together(base: Base, random: Random) -> Found:
    """A result that nobody reads in the memory of the next one of its op."""
    document, graph = base.document, base.graph
    offsets = document.get("offsets") or {}
    for op in graph.ops if not document.get("rewrites") else ():
        for dead, t in itertools.pairwise(op.outputs):
            ours = {str(dead), str(t)} <= offsets.keys() and dead not in graph.consumers
            if ours and graph.tensor_by_id[dead].size <= graph.tensor_by_id[t].size:
                alias = {"kind": "alias", "tensor": dead, "of": t, "op": op.id, "offset": 0}
                tensors = [x | {"alias_of": t} if x["id"] == dead else x for x in document["tensors"]]
                places = offsets | {str(dead): offsets[str(t)]}
                more = {"rewrites": [alias], "allow": ["alias"], "tensors": tensors, "offsets": places}
                yield changed(base, **more), "two results in one place"


def written_too_early(base: Base, random: Random) -> Found:
    """Ops that write over what others still read: their order, where reads differ from those of the file's."""
    graph, order = base.graph, list(base.plan.order)
    if base.kind != "writes":
        return
    own = reads(graph, graph.own_order)
    for _ in range(20):
        other = random.sample(order, len(order))
        made = {t: k for k, v in enumerate(other) for t in graph.op_by_id[v].outputs}
        runs = all(made.get(t, -1) < k for k, v in enumerate(other) for t in graph.op_by_id[v].inputs)
        if runs and reads(graph, tuple(other)) != own:
            yield changed(base, order=other), "an op reads what was written over"


def dead_ends(base: Base, random: Random) -> Found:
    """A part that begins or ends within rows that belong together, of an op whose result nobody reads."""
    graph, document = base.graph, base.document
    dead = [op for op in graph.ops if op.type == "DepthToSpace" and op.outputs[0] not in graph.consumers]
    if base.plan.rewrites or not dead or base.document.get("offsets") is None:
        return
    blocks, t = dead[0], graph.tensor_by_id[dead[0].outputs[0]]
    rows = list(t.shape or ())[2]
    known = meaning(graph, blocks)
    axis = None if known is None else known.access.outputs[0][2]

    def parted(first: int, end: int) -> Document:
        box = [[0, size] for size in t.shape or ()]
        box[2] = [first, end]
        part = {"role": "part", "inputs": list(blocks.inputs), "outputs": [91], "axis": axis, "rows": [first, end]}
        op = {"id": 90, "name": "part", "type": blocks.type, "origin": [blocks.id], "part": part}
        piece = {"id": 91, "name": "piece", "kind": "activation", "piece": {"of": t.id, "box": box}}
        cut = {"op": blocks.id, "axis": axis, "ends": [end]} | ({"begins": [first]} if first else {})
        return changed(
            base, version=2, rewrites=[{"kind": "cut", "ops": [cut]}], allow=["tile"], exactness="bits",
            ops=[op if own["id"] == blocks.id else own for own in document["ops"]],
            tensors=[piece | {"size": t.size * (end - first) // rows} if own["id"] == t.id else own
                     for own in document["tensors"]],
            order=[90 if v == blocks.id else v for v in document["order"]],
            offsets={"91" if k == str(t.id) else k: at for k, at in document["offsets"].items()},
            halos={"macs": 0, "extra_macs": 0} if first else None, **NOT_PROVED,
        )  # fmt: skip

    one = next(t.id for t in graph.tensors if t.shape == ())
    part = {"role": "join", "inputs": [one], "outputs": [93]}
    number = {"id": 93, "name": "two", "size": 4, "kind": "activation", "piece": {"of": one, "box": []}}
    whole = parted(0, rows)
    whole["ops"] = [*whole["ops"], {"id": 92, "name": "join", "type": "Concat", "part": part}]
    yield whole | {"order": [*whole["order"], 92], "tensors": [*whole["tensors"], number]}, "one number is joined"
    yield parted(1, rows), "a part begins within rows that belong together"
    yield parted(0, rows - 1), "a part ends within rows that belong together"


def joined_at_once(base: Base, random: Random) -> Found:
    """More pieces of what is there at the start than TFLM's kernel joins."""
    graph, document = base.graph, base.document
    if graph.dialect != "tflite" or not any(r["kind"] == "cut" for r in document.get("rewrites") or []):
        return
    x = next(t for t in graph.tensors if t.kind is Kind.INPUT)
    shape = x.shape or ()
    dim = max(range(len(shape)), key=lambda d: shape[d])
    if shape[dim] < 11:
        return
    new = itertools.count(1 + max(t["id"] for t in document["tensors"]))
    ids = itertools.count(1 + max(op["id"] for op in document["ops"]))
    ops: list[dict[str, Any]] = []
    tensors: list[dict[str, Any]] = []
    for k in range(11):
        rows = [k, k + 1 if k < 10 else shape[dim]]
        begin, size = [0] * len(shape), list(shape)
        begin[dim], size[dim] = rows[0], rows[1] - rows[0]
        numbers = [{"id": next(new), "name": "", "size": 4 * len(shape), "kind": "constant", "numbers": n}
                   for n in (begin, size)]  # fmt: skip
        box = [rows if d == dim else [0, n] for d, n in enumerate(shape)]
        made = {"id": next(new), "name": "", "size": x.size * size[dim] // shape[dim], "kind": "activation",
                "piece": {"of": x.id, "box": box}}  # fmt: skip
        tensors += [*numbers, made]
        part = {"role": "slice", "inputs": [x.id, *(n["id"] for n in numbers)], "outputs": [made["id"]]}
        ops.append({"id": next(ids), "name": "", "type": "SLICE", "part": part})
    piece = {"of": x.id, "box": [[0, n] for n in shape]}
    whole = {"id": next(new), "name": "", "size": x.size, "kind": "activation", "piece": piece}
    part = {"role": "join", "inputs": [op["part"]["outputs"][0] for op in ops], "outputs": [whole["id"]]}
    ops.append({"id": next(ids), "name": "", "type": "CONCATENATION", "part": part})
    more = {"ops": [*document["ops"], *ops], "tensors": [*document["tensors"], *tensors, whole]}
    more |= {"order": [*(op["id"] for op in ops), *document["order"]]}
    yield changed(base, **more, **NOT_PROVED), "eleven pieces are joined at once"


IN_PARTS: dict[str, Family] = {
    "parts wrong": parts_wrong,
    "seams wrong": seams_wrong,
    "split wrong": split_wrong,
    "rounds wrong": rounds_wrong,
    "proofs left out": bounds_wrong,
    "sections wrong": sections_wrong,
    "aliases wrong": aliases_wrong,
    "results together": results_together,
    "written too early": written_too_early,
    "dead ends": dead_ends,
    "joined at once": joined_at_once,
}
"""What is forged of parts and of what lies where, in lists that go together."""
