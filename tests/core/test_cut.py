from __future__ import annotations

from random import Random

import pytest

from lowtide import _core
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.schedule.exact import cut_certificate
from lowtide.schedule.method import core_model
from lowtide.target import BUILT_IN
from lowtide.verify.check.cut import check_cut
from lowtide.verify.check.memory import work_out
from stress_exact import SWITCHES, least_footprint, sample
from support.random_graphs import random_graph, random_order


@pytest.mark.slow
def test_cut_is_the_least_footprint_and_its_flow_proves_it() -> None:
    """At every op of small graphs: equal to brute force, certificate accepted, reached by the downset."""
    cases = 0
    for index in range(250):
        _, graph, target = sample(31, index)
        if len(graph.ops) > 8:
            continue
        model, memory = memory_model(graph, target), work_out(graph, target)
        core = core_model(model)
        for position, op in enumerate(graph.ops):
            certificate = cut_certificate(core, model, position)
            assert certificate.value_bytes == least_footprint(graph, target, op.id)
            check_cut(graph, memory, certificate)
            assert memory.footprint(op.id, set(certificate.downset)) == certificate.value_bytes
            cases += bool(certificate.cases)
    assert cases > 3


@pytest.mark.slow
def test_cut_certificates_of_larger_graphs_are_accepted() -> None:
    """On 60 ops the flow is checked, and no order seen goes below it."""
    for seed in range(12):
        rng = Random(seed)
        graph = random_graph(rng, 60)
        target = BUILT_IN[("strict", "hmcos", "generic")[seed % 3]]
        model, memory = memory_model(graph, target), work_out(graph, target)
        core = core_model(model)
        orders = [[graph.index_of[v] for v in random_order(rng, graph)] for _ in range(5)]
        for position in range(0, len(graph.ops), 4):
            certificate = cut_certificate(core, model, position)
            check_cut(graph, memory, certificate)
            for order in orders:
                assert profile(model, order).footprint[order.index(position)] >= certificate.value_bytes


def test_cut_without_proof_has_the_same_value() -> None:
    """The core's bound on a graph is the largest of the cuts that it made."""
    for index in range(200):
        _, graph, target = sample(41, index)
        core, n = core_model(memory_model(graph, target)), len(graph.ops)
        if not n:
            continue
        switches = {name: name == "cut" for name in SWITCHES}
        result = _core.solve(
            core,
            start=list(range(n)),
            switches=switches,
            seconds=10.0,
            memory_bytes=1 << 30,
            seed=0,
            budget=-1,
            until_decided=False,
            until_impossible=False,
            first_slice=1,
            report=None,
        )
        most = max(_core.cut_at(core, v).value for v in range(n))
        assert result.lower_bound == min(most, result.peak)
