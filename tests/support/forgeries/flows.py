"""Flows that show more than any order needs, each wrong in one place.

From a flow that holds, by the tests' own maximum flow, one arc more makes one that shows more: through a storage that
is not there then, out of nothing, along a precedence that is none. `docs/contract.md` says what an arc is.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Kind
from lowtide.target import resolve
from support.brute import must_run_before
from support.forgeries.bases import Base
from support.plan_builder import cut_certificate

Arc = list[int | None]


def false_cuts(base: Base, random: Random, known: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Certificates of more than `known` bytes, each with its flaw: at any op, and where this order needs most."""
    graph, target = resolve(base.target).as_seen(base.graph), resolve(base.target)
    order = base.plan.order
    footprint = profile(memory_model(graph, target), [graph.index_of[u] for u in order]).footprint
    yield from _false_cuts_at(base, random, random.choice(graph.ops).id, known)
    yield from _false_cuts_at(base, random, order[footprint.index(max(footprint))], max(footprint) - 1)


def _false_cuts_at(base: Base, random: Random, v: int, known: int) -> Iterator[tuple[dict[str, Any], str]]:
    graph, target = resolve(base.target).as_seen(base.graph), resolve(base.target)
    needs = must_run_before(graph)
    honest = msgspec.to_builtins(cut_certificate(graph, target, v))
    before, behind = _reach(needs, v), {o for o in needs if v in _reach(needs, o)}
    value, more = honest["value_bytes"], known + 1 - honest["value_bytes"]
    if more <= 0:
        return
    apart = sorted(set(needs) - before - behind - {v})
    sizes = [t for t in graph.tensors if t.size and t.kind is not Kind.CONSTANT]
    users = {t.id: [op.id for op in graph.ops if t.id in (*op.inputs, *op.outputs)] for t in sizes}

    def cut(arcs: list[Arc], **keys: Any) -> dict[str, Any]:
        cases = [{**case, "flow": [*case["flow"], *arcs]} for case in honest.get("cases", ())]
        flow = {"flow": [*honest["flow"], *arcs], "value_bytes": value + more}
        return {**honest, **flow, **({"cases": cases} if cases else {}), **keys}

    downsets = [honest["downset"], sorted(before), sorted({*before, *apart}), sorted(needs), []]
    for downset in downsets:
        yield cut([], downset=downset), "the flow shows less"
    ahead = [*before, v]
    for downset in _reaching(base, needs, v, value + more, random):
        yield cut([], downset=downset), "the flow shows less, and the downset needs more than the cheapest"
        for z in random.sample(sorted(behind), min(2, len(behind))) or [None]:
            for a in random.sample(ahead, min(2, len(ahead))):
                yield cut([[None, a, z, more]], downset=downset), "op does not wait for what it leads to"
            for t in random.sample(sizes, min(4, len(sizes))):
                u = random.choice(users[t.id] or [v])
                amount = min(more, t.size)
                yield cut([[t.id, v, z, more]], downset=downset), "more than a storage has"
                yield cut([[t.id, None, z, amount]], downset=downset), "from where the storage is not"
                yield cut([[t.id, random.choice(ahead), None, amount]], downset=downset), "to where the storage is not"
                yield cut([[t.id, u, z, amount]], downset=downset), "through a storage that is not there then"
                if z is not None:
                    yield (
                        cut([[t.id, v, z, more + t.size], [t.id, z, z, -more - t.size]], downset=downset),
                        "less than nothing makes room",
                    )
            for u in random.sample(apart, min(3, len(apart))):
                for a in (None, v, *before):
                    for t in sizes:
                        if u in users[t.id] and (a in users[t.id] or (a is None and t.kind is Kind.INPUT)):
                            yield (
                                cut([[t.id, a, u, min(more, t.size)]], downset=downset),
                                "what goes in does not come out",
                            )
        yield cut([[2**40, None, None, more]], downset=downset), "through a tensor that is not there"
        constants = [t.id for t in graph.tensors if t.kind is Kind.CONSTANT]
        yield cut([[t, v, None, more] for t in constants[:1]], downset=downset), "through a constant"
        yield cut([], downset=downset, cases=[], in_place=None), "a case is left out"
        yield cut([], downset=downset, in_place=random.choice(sizes).id), "a case of what is not overwritten"
    yield cut([], op=2**40), "at an op that is not there"


def _reach(needs: dict[int, set[int]], v: int) -> set[int]:
    found: set[int] = set()
    todo = [v]
    while todo:
        new = needs[todo.pop()] - found
        found |= new
        todo += new
    return found


def _reaching(base: Base, needs: dict[int, set[int]], v: int, value: int, random: Random) -> list[list[int]]:
    """Downsets behind which the op needs so many bytes or, if there are none, any."""
    target = resolve(base.target)
    graph = target.as_seen(base.graph)
    model = memory_model(graph, target)
    before = _reach(needs, v)
    found: list[list[int]] = []
    for more in range(30):
        done = [] if more else [*base.plan.order]
        left = [op.id for op in graph.ops] if more else []
        while left:
            ready = [u for u in left if needs[u] <= set(done)]
            done.append(random.choice(ready))
            left.remove(done[-1])
        k = done.index(v)
        if profile(model, [graph.index_of[u] for u in done]).footprint[k] == value and set(done[:k]) >= before:
            found.append(sorted(done[:k]))
    return found[:2] or [sorted(before)]
