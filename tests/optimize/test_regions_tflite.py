"""Regions of .tflite models: the core counts padding and groups of joins as the part graph has them."""

from __future__ import annotations

import random

import pytest

from lowtide import _core
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.optimize.regions import cut_model
from lowtide.target import BUILT_IN
from lowtide.transform.cut import PACES, RECOMPUTED_HALO, Cutter
from lowtide.transform.parts import apply

pytest.importorskip("ai_edge_litert", reason="networks are built with its schema, which is not installed")
from support.tflite_nets import graph_with_file, random_tflite

STRICT = BUILT_IN["strict"]


@pytest.mark.slow
def test_the_core_counts_as_the_part_graph() -> None:
    """Bytes of the highest step and how many ops run, for every axis, both ways, in few stripes and in many."""
    compared = padded = grouped = 0
    for seed in range(120):
        rng = random.Random(seed)
        graph = graph_with_file(random_tflite(rng.choice, rng.choice((2, 4, 6))).bytes())
        cutter, ids = Cutter(graph), list(graph.own_order)
        model = cut_model(cutter, memory_model(graph, STRICT), range(len(ids)))
        for _ in range(12):
            begin = rng.randrange(len(ids))
            end = rng.randint(begin + 1, len(ids))
            ways = cutter.axes(ids[end - 1])
            if not ways:
                continue
            axis, stripes, pace = rng.choice(ways), rng.choice((2, 3, 5, 13)), rng.choice((*PACES, *RECOMPUTED_HALO))
            cost = _core.region_cost(model, begin, end, end - 1, axis, stripes, pace)
            axes = cutter.grow(ids[begin:end], ids[end - 1], axis)
            assert (cost is None) == (axes is None)
            if cost is None or axes is None:
                continue
            parts = apply(cutter, [cutter.region(ids[begin:end], axes, stripes, pace)])
            steps = profile(memory_model(parts.graph, STRICT), range(len(parts.graph.ops)))
            ops = [i for i, op in enumerate(parts.graph.ops) if op.id in parts.parts or op.id in ids[begin:end]]
            assert cost[:2] == (max(steps.footprint[i] for i in ops), len(ops)), (seed, axis, stripes, pace)
            compared += 1
            padded += any(p.role == "pad" for p in parts.parts.values())
            grouped += any(t.name.find("/joined_") >= 0 for t in parts.graph.tensors)
    assert compared > 400
    assert padded > 50
    assert grouped > 5
