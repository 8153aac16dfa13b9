"""The second, plain search refutes what is impossible and nothing else."""

from __future__ import annotations

from dataclasses import replace as remake
from random import Random

import msgspec
import pytest

from lowtide.certificates import CutCertificate, NoCertificate, SearchCertificate
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from lowtide.verify.prove.search import prove, refute
from support.brute import optimum, peak_of
from support.plan_builder import make_plan
from support.random_graphs import random_graph

GENERIC = BUILT_IN["generic"]
TARGETS = [
    *BUILT_IN.values(),
    remake(GENERIC, name="overwriting", overwrite_inputs=True),
    remake(GENERIC, name="pinned", keep_inputs=True, constants="always"),
    remake(BUILT_IN["strict"], name="streamed", constants="while_used"),
]
change = msgspec.structs.replace


@pytest.mark.slow
@pytest.mark.parametrize("one_op_rule", [True, False])
@pytest.mark.parametrize("directions", [(True,), (False,), (True, False)])
def test_refutes_exactly_what_brute_force_says(directions: tuple[bool, ...], one_op_rule: bool) -> None:
    """One byte below the optimum there is no order; at it there is one; with and without the one-op rule."""
    for seed in range(50):
        rng = Random(seed)
        graph = random_graph(rng, rng.randint(1, 8))
        if not graph.ops:
            continue
        for target in TARGETS:
            memory, least = work_out(graph, target), optimum(graph, target)
            for budget in (least - 1, least, least + 2):
                found = refute(graph, memory, budget, directions=directions, one_op_rule=one_op_rule)
                assert found.complete
                assert (found.order is None) == (budget < least), (seed, target.name, budget)
                if found.order is not None:
                    assert peak_of(graph, target, found.order, memory) <= budget


@pytest.mark.slow
def test_each_kind_of_certificate_has_its_answer() -> None:
    """A search is re-proved; a flow and a single op are checked."""
    answers = {SearchCertificate: set(), CutCertificate: set(), NoCertificate: set()}
    for seed in range(60):
        graph = random_graph(Random(seed), 8)
        plan = make_plan(graph, GENERIC)
        answers[type(plan.certificate)].add(prove(graph, plan, GENERIC).result)
    assert answers == {
        SearchCertificate: {"re-proved"},
        CutCertificate: {"checked"},
        NoCertificate: {"checked"},
    }


@pytest.mark.slow
def test_a_refutation_that_is_false_is_found_out() -> None:
    """A plan above the optimum that says a search refuted less is refused with an order that does better."""
    found = 0
    for seed in range(80):
        graph = random_graph(Random(seed), 8)
        least = optimum(graph, GENERIC)
        own = peak_of(graph, GENERIC, graph.own_order)
        if own == least:
            continue
        found += 1
        plan = make_plan(graph, GENERIC, graph.own_order)
        lie = SearchCertificate(refuted_bytes=own - 1, direction="backward", states=9, switches={})
        plan = change(plan, certificate=lie, lower_bound_bytes=own, optimal=True)
        with pytest.raises(VerificationError, match="this order needs no more"):
            prove(graph, plan, GENERIC)
    assert found > 20


def products(width: int) -> Graph:
    """Every pair of two groups of tensors is multiplied, and the products are summed: hard for any search."""
    rng = Random(1)
    tensors = [Tensor(0, 4, Kind.INPUT)]
    ops: list[Op] = []

    def add(inputs: tuple[int, ...], size: int, kind: Kind = Kind.ACTIVATION) -> int:
        tensors.append(Tensor(len(tensors), size, kind))
        ops.append(Op(len(ops), inputs, (len(tensors) - 1,)))
        return len(tensors) - 1

    left = [add((0,), rng.randint(20, 60)) for _ in range(width)]
    right = [add((0,), rng.randint(20, 60)) for _ in range(width)]
    add(tuple(add((a, b), rng.randint(1, 9)) for a in left for b in right), 1, Kind.OUTPUT)
    return Graph("products", tuple(tensors), tuple(ops), (), "", "w")


def test_says_when_it_gives_up() -> None:
    """Out of states or of time, the answer is that nothing was proved."""
    graph = products(6)
    memory = work_out(graph, GENERIC)
    budget = 380
    found = refute(graph, memory, budget, max_states=1000)
    assert not found.complete
    assert found.order is None
    assert "1000 states" in found.why
    assert "s are over" in refute(graph, memory, budget, seconds=0.0).why
