"""What a graph itself says an op may write over: honoured by planner and checker alike, least over all orders."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

import lowtide
from lowtide.read.graph_json import parse_graph_json
from support.small_models import op, tensor


def _graph(**ops: Any) -> lowtide.Graph:
    """x -> a (100), b (100) -> c (100) over whichever is allowed -> y (1); `ops` are keys of the op that makes c."""
    document = {
        "name": "g",
        "tensors": [tensor(0, 4, "input"), tensor(1, 100), tensor(2, 100), tensor(3, 100), tensor(4, 1, "output")],
        "ops": [op(0, [0], [1]), op(1, [0], [2]), op(2, [1, 2], [3], **ops), op(3, [3], [4])],
    }
    return parse_graph_json(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("target", "keys", "peak"),
    [
        ("generic,alignment=1", {}, 300),
        ("generic,alignment=1", {"overwrites": [1]}, 204),
        ("generic,alignment=1", {"overwrites": [2, 1]}, 204),
        ("generic,alignment=1", {"overwrites": []}, 300),
        ("generic,alignment=1", {"type": "Add"}, 204),
        ("generic,alignment=1", {"type": "Add", "overwrites": []}, 300),
        ("hmcos", {"overwrites": [2]}, 204),
        ("strict", {"overwrites": [1, 2]}, 300),
        ("generic,alignment=1,in_place=never", {"overwrites": [1, 2]}, 300),
    ],
)
def test_an_op_overwrites_what_the_graph_lets_it(target: str, keys: dict[str, Any], peak: int) -> None:
    """Whatever its type is, under targets that write in place; and the plan says which it was."""
    graph = _graph(**keys)
    plan = lowtide.research.plan(graph, target=target)
    assert (plan.peak_bytes, plan.optimal) == (peak, True)
    allowed = keys.get("overwrites")
    assert all(allowed is None or read in allowed for _, read in plan.in_place)
    assert bool(plan.in_place) == (peak == 204)
    assert lowtide.verify(graph, plan, prove=True).proof.result in ("checked", "re-proved")


def _least(sizes: list[int], ops: list[tuple[list[int], int, list[int]]], ends: set[int]) -> int:
    """Least peak over all orders, where each op may take the place of one input that it is the last to read."""
    best = sum(sizes) * 2
    for order in permutations(range(len(ops))):
        live, at, made = {0}, {}, {0}
        peaks = [0]
        for step, i in enumerate(order):
            reads, out, over = ops[i]
            if not made.issuperset(reads):
                break
            made.add(out)
            later = {t for j in order[step + 1 :] for t in ops[j][0]} | ends
            dying = [t for t in over if t not in later and t != 0]
            peaks.append(sum(sizes[t] for t in live | {out}) - (sizes[out] if dying else 0))
            live = {t for t in live | {out} if t in later}
            at[i] = step
        else:
            best = min(best, max(peaks))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_the_peak_is_least_over_all_orders_and_rights(seed: int) -> None:
    """Against plain enumeration on random graphs of six ops, each with rights to some of its inputs of equal size."""
    from random import Random

    rng = Random(seed)
    sizes = [rng.choice((8, 16, 24)) for _ in range(7)]
    ops = []
    for i in range(6):
        reads = sorted(rng.sample(range(i + 1), min(i + 1, rng.randint(1, 2))))
        equal = [t for t in reads if sizes[t] == sizes[i + 1]]
        ops.append((reads, i + 1, [t for t in equal if rng.random() < 0.7]))
    read = {t for reads, _, _ in ops for t in reads}
    ends = {t for t in range(1, 7) if t not in read}
    kinds = ["input", *("output" if t in ends else "activation" for t in range(1, 7))]
    document = {
        "name": "r",
        "tensors": [tensor(t, sizes[t], kinds[t]) for t in range(7)],
        "ops": [op(i, reads, [out], overwrites=over) for i, (reads, out, over) in enumerate(ops)],
    }
    graph = parse_graph_json(json.dumps(document).encode())
    plan = lowtide.research.plan(graph, target="generic,alignment=1")
    assert (plan.peak_bytes, plan.optimal) == (_least(sizes, ops, ends), True)


def test_rights_are_written_back_and_follow_a_tensor_that_is_read_in_place_of_another() -> None:
    """By the writer of graph JSON, and by what changes a graph."""
    from lowtide.transform.rename import reading
    from lowtide.write.graph_json import graph_json_bytes

    graph = _graph(overwrites=[2, 1])
    assert parse_graph_json(graph_json_bytes(graph)).ops == graph.ops
    assert reading(graph.ops[2], {2: 9}).overwrites == (9, 1)
