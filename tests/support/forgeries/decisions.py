"""Decisions that cannot be: where things lie, what moves, what runs again, what is cut."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from support.forgeries.bases import Base
from support.forgeries.families import Family, changed
from support.forgeries.leaves import Document


def _lives(base: Base) -> dict[int, tuple[int, int]]:
    """Steps from the first to behind the last in which each tensor with bytes is read or made, or there at an end."""
    order = base.plan.order
    lives: dict[int, tuple[int, int]] = {}
    if any(v not in base.graph.op_by_id for v in order):
        return lives
    for step, v in enumerate(order):
        op = base.graph.op_by_id[v]
        for t in (*op.inputs, *op.outputs):
            first, last = lives.get(t, (step, step))
            lives[t] = (first, max(last, step))
    return lives


def offsets_overlap(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A tensor on the bytes of another that the same op touches, or that is there at the same time."""
    offsets = base.document.get("offsets")
    if not offsets or base.document.get("rewrites"):
        return
    lives = _lives(base)
    over = {tuple(sorted(pair[:2])) for pair in [*base.plan.in_place, *(base.plan.overlap or ())]}
    above = {t.id: t.alias_of for t in base.plan.tensors}
    size = {t.id: t.size for t in base.plan.tensors}

    def root(t: int) -> int:
        while (up := above.get(t)) is not None:
            t = up
        return t

    there = [t for t in lives if str(t) in offsets and size[t] and root(t) == t]
    pairs = [
        (a, b) for a in there for b in there
        if a != b and max(lives[a][0], lives[b][0]) <= min(lives[a][1], lives[b][1])
        and not any({root(x), root(y)} == {a, b} for x, y in over)
    ]  # fmt: skip
    for a, b in random.sample(pairs, min(4, len(pairs))):
        for at in (offsets[str(b)], offsets[str(b)] + size[b] - 1, offsets[str(b)] - size[a] + 1):
            move = at - offsets[str(a)]
            moved = {t: o + move if root(int(t)) == a else o for t, o in offsets.items()}
            arena = base.document["arena_bytes"] + abs(move) + size[a]
            why = f"tensors {a} and {b} are there at once"
            if moved != offsets and min(moved.values()) >= 0:
                yield changed(base, offsets=moved), why
                larger = {"arena_bytes": arena, "required_bytes": base.plan.required_bytes + abs(move) + size[a]}
                if base.plan.runtime_arena_bytes is None:
                    yield changed(base, offsets=moved, **larger, arena_optimal=False), why


def offsets_wrong(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An offset below nothing, beyond the arena, off the alignment, missing, of nothing, or of no number; everything
    moved; a workspace on what its op reads."""
    offsets = base.document.get("offsets")
    if not offsets:
        return
    t = random.choice(list(offsets))
    size = {t.id: t.size for t in base.plan.tensors}
    arena, unit = base.document["arena_bytes"], base.plan.alignment
    for at, why in ((-unit, "below 0"), (arena + unit, "beyond the arena"), (arena - size[int(t)] + unit, "beyond")):
        if size[int(t)]:
            yield changed(base, offsets=offsets | {t: at}), f"tensor {t} lies {why}"
    if unit > 1 and size[int(t)]:
        yield changed(base, offsets=offsets | {t: offsets[t] + 1}), "off the alignment"
    for move in (-unit, unit, arena):
        moved = {t: o + move for t, o in offsets.items()}
        if any(size[int(t)] and (o < 0 or o + size[int(t)] > arena) for t, o in moved.items()):
            yield changed(base, offsets=moved), "everything is moved, beyond an end"
    if size[int(t)]:
        yield changed(base, offsets={k: o for k, o in offsets.items() if k != t}), f"tensor {t} lies nowhere"
    for key in (f"0{t}", f"+{t}", "x", "9" * 30, "-1", str(2**40)):
        yield changed(base, offsets=offsets | {key: 0}), f"{key} is no tensor"
    works = base.document.get("workspace_offsets") or {}
    for key in ("x", str(2**40)):
        yield changed(base, workspace_offsets=works | {key: 0}), f"{key} is no op"
    for v in works:
        op = base.graph.op_by_id.get(int(v))
        yield changed(base, workspace_offsets={k: o for k, o in works.items() if k != v}), "a workspace lies nowhere"
        yield changed(base, workspace_offsets=works | {v: -unit}), "a workspace below 0"
        yield changed(base, workspace_offsets=works | {v: arena}), "a workspace beyond the arena"
        if unit > 1:
            yield changed(base, workspace_offsets=works | {v: works[v] + 1}), "a workspace off the alignment"
        for t in (*op.inputs, *op.outputs) if op else ():
            if str(t) in offsets and size[t] and offsets[str(t)] % unit == 0:
                yield (
                    changed(base, workspace_offsets=works | {v: offsets[str(t)]}),
                    "on what its op touches",
                )


def in_place_wrong(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Written over what is read later, over what the op does not read, by no op, twice."""
    pairs = base.document["in_place"]
    read_last: dict[int, int] = {}
    for step, v in enumerate(base.plan.order):
        for t in base.graph.op_by_id[v].inputs if v in base.graph.op_by_id else ():
            read_last[t] = step
    ops = [(k, base.graph.op_by_id[v]) for k, v in enumerate(base.plan.order) if v in base.graph.op_by_id]
    for step, op in random.sample(ops, min(6, len(ops))):
        for t in op.inputs:
            if op.outputs and read_last.get(t, step) > step:
                yield changed(base, in_place=[*pairs, [op.outputs[0], t]]), f"tensor {t} is read later"
        if op.outputs:
            yield changed(base, in_place=[*pairs, [op.outputs[0], op.outputs[0]]]), "over itself"
            yield changed(base, in_place=[*pairs, [op.outputs[0], 2**40]]), "over nothing"
            yield changed(base, overlap=[[op.outputs[0], 2**40, 4]]), "over nothing"
            yield changed(base, overlap=[[2**40, op.outputs[0], 4]]), "nothing over it"
    yield changed(base, in_place=[*pairs, [2**40, 2**40]]), "nothing over nothing"
    for pair in pairs[:2]:
        op = base.graph.op_by_id.get(base.graph.producer.get(pair[0], -1))
        for t in [t for t in op.inputs if t != pair[1]] if op else []:
            yield changed(base, in_place=[*pairs, [pair[0], t]]), "two at once"
        yield changed(base, in_place=[p for p in pairs if p != pair]), "its output lies there all the same"


def moves_wrong(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Moves left out with their bytes, so that traffic is less; of what is not there; to where there is no room."""
    moves = base.document.get("moves")
    if moves is None or base.document.get("streams"):
        return
    traffic, bound = base.document["traffic_bytes"], base.document["traffic_lower_bound_bytes"]

    def said(listed: list[dict[str, object]], **more: object) -> Document:
        total = sum(int(str(m["bytes"])) for m in listed)
        least = min(bound, total)
        keys = {"traffic_bytes": total, "traffic_lower_bound_bytes": least, "optimal": total == least}
        return changed(base, moves=listed, **(keys | more))

    for k, move in enumerate(moves):
        rest = moves[:k] + moves[k + 1 :]
        yield said(rest), "a move is left out"
        yield said(rest, traffic_proof=None), "a move is left out"
        same = [m for m in moves if m["tensor"] != move["tensor"]]
        yield said(same), "a tensor does not move, and is not there"
        half = [*moves[:k], move | {"bytes": move["bytes"] // 2}, *moves[k + 1 :]]
        yield said(half), "half of a tensor moves"
        for step in (-1, len(base.plan.order) + 1):
            yield said([*rest, move | {"step": step}]), "at a step that is not there"
        back = {"from": move["to"], "to": move["from"]}
        yield said([*moves[:k], move | back, *moves[k + 1 :]]), "the wrong way"
        kind = "fill" if move["kind"] == "spill" else "spill"
        yield said([*moves[:k], move | {"kind": kind}, *moves[k + 1 :]]), "the wrong way"
        yield said([*moves[:k], move | back | {"kind": kind}, *moves[k + 1 :]]), "what is not there"
        if move["kind"] == "fill":
            yield said([*moves[:k], move | {"step": move["step"] + 1}, *moves[k + 1 :]]), "too late"
        yield said([*moves[:k], move | {"from": "nowhere"}, *moves[k + 1 :]]), "from nowhere"
        yield said([*moves[:k], move | {"to": move["from"]}, *moves[k + 1 :]]), "to where it is"
        yield said([*moves[:k], move | {"to": "nowhere"}, *moves[k + 1 :]]), "to nowhere"
        yield said([*moves[:k], move | {"tensor": 2**40}, *moves[k + 1 :]]), "of nothing"
        for other in random.sample(base.document["tensors"], min(2, len(base.document["tensors"]))):
            if other["id"] != move["tensor"] and not other.get("alias_of") and other["size"]:
                at = move | {"tensor": other["id"], "bytes": other["size"]}
                yield said([*moves[:k], at, *moves[k + 1 :]]), "of another tensor"
    yield changed(base, traffic_bytes=traffic - 1), "less traffic than the moves carry"
    yield changed(base, traffic_bytes=0, traffic_lower_bound_bytes=0, optimal=True), "no traffic"
    for kind in ("none", "search", "windows", "phases", "peak", "solver", "a feeling"):
        proof = {"kind": kind, "states": 7, "parts": []}
        keys = {"traffic_lower_bound_bytes": traffic + 1, "optimal": False, "traffic_proof": proof}
        yield changed(base, **keys), "more than the moves carry"
        whole = {"bytes": traffic + 1, "ops": [op["id"] for op in base.document["ops"]]}
        yield changed(base, **keys | {"traffic_proof": proof | {"parts": [whole]}}), "more than the moves carry"


def residency_wrong(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A stretch left out, cut short, in no memory, beyond its end, on another's bytes; memories that hold less."""
    rows = base.document.get("residency")
    memories = base.document.get("memories") or []
    if not rows:
        return
    n = len(base.plan.order)
    size = {t.id: t.size for t in base.plan.tensors}

    def put(k: int, **keys: object) -> Document:
        return changed(base, residency=[*rows[:k], rows[k] | keys, *rows[k + 1 :]])

    for k in random.sample(range(len(rows)), min(6, len(rows))):
        r = rows[k]
        if not size.get(r["tensor"], 0):
            continue
        yield changed(base, residency=rows[:k] + rows[k + 1 :]), "a tensor is nowhere"
        yield put(k, memory="nowhere"), "in no memory"
        yield put(k, tensor=2**40), "nothing lies there"
        yield put(k, offset=-1), "below 0"
        yield put(k, offset=2**40), "beyond its memory"
        yield put(k, start=r["end"], end=r["start"]), "in no steps"
        yield put(k, start=-1), "before the start"
        yield put(k, end=n + 9), "behind the end"
        if base.plan.moves is None:
            yield changed(base, residency=[*rows, r | {"offset": r["offset"] + 1}]), "in two places"
            yield changed(base, offsets={str(r["tensor"]): 0}), "in two places"
        users = [s for s, v in enumerate(base.plan.order) if v in base.graph.op_by_id
                 and r["tensor"] in (*base.graph.op_by_id[v].inputs, *base.graph.op_by_id[v].outputs)]  # fmt: skip
        if users and r["start"] <= users[-1] < r["end"]:
            yield put(k, end=users[-1]), "gone while it is used"
        if users and r["start"] <= users[0]:
            yield put(k, start=users[0] + 1), "there after it is used"
        touch = [q for q in rows if q["memory"] == r["memory"] and q["tensor"] != r["tensor"]
                 and max(q["start"], r["start"]) < min(q["end"], r["end"]) and size.get(q["tensor"], 0)
                 and q["offset"] != r["offset"]]  # fmt: skip
        alias = {t.id for t in base.plan.tensors if t.alias_of is not None} | {t.alias_of for t in base.plan.tensors}
        tied = {t for pair in base.plan.in_place for t in pair} | alias
        for q in touch[:2]:
            if not tied & {q["tensor"], r["tensor"]}:
                yield put(k, offset=q["offset"]), f"on the bytes of tensor {q['tensor']}"
    for k, m in enumerate(memories):

        def memory(**keys: object) -> list[dict[str, object]]:
            return [*memories[:k], m | keys, *memories[k + 1 :]]  # noqa: B023

        if m.get("size_bytes"):
            arena = base.document["arena_bytes"] - 1
            yield changed(base, memories=memory(size_bytes=m["size_bytes"] - 1)), "more lies there"
            yield changed(base, memories=memory(size_bytes=m["size_bytes"] - 1), arena_bytes=arena), "more lies there"
            yield changed(base, memories=memory(size_bytes=m["size_bytes"] - 1), arena_bytes=arena,
                          required_bytes=base.plan.required_bytes - 1), "more lies there"  # fmt: skip
            small = memory(capacity_bytes=m["size_bytes"] - 1)
            yield changed(base, memories=small, status="ok"), "it does not fit"
            yield changed(base, memories=memory(size_bytes=-m["size_bytes"])), "less than nothing"
        yield changed(base, memories=memory(name="host")), "the host is no memory"
        there = [r | {"memory": "host"} if r["memory"] == m["name"] else r for r in rows]
        works = {v: "host" if w == m["name"] else w for v, w in (base.plan.workspace_memories or {}).items()}
        host = changed(base, memories=memory(name="host"), residency=there, workspace_memories=works or None)
        yield host, "the host is no memory"
        yield changed(base, memories=memory(capacity_bytes=0)), "of no bytes"
        yield changed(base, memories=[*memories, dict(m)]), "twice"
        yield changed(base, memories=memories[:k] + memories[k + 1 :]), "it is left out"


DECIDED: dict[str, Family] = {
    "offsets overlap": offsets_overlap,
    "offsets wrong": offsets_wrong,
    "in place wrong": in_place_wrong,
    "moves wrong": moves_wrong,
    "residency wrong": residency_wrong,
}
"""What is forged of what a plan decides."""
