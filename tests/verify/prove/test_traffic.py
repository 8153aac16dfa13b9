"""Bounds on traffic searched again: exact against brute force, equal to the planner's parts, refused one byte above."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.spill.phases import phases, window_bound
from lowtide.spill.problem import spill_problem
from lowtide.spill_plan import TrafficPart, TrafficProof
from lowtide.stop import Limits
from lowtide.target import BUILT_IN, Target
from lowtide.verify.check.plan import verify_plan
from lowtide.verify.prove.search import prove
from lowtide.verify.prove.traffic import Replayed, prove_traffic
from support.spill_brute import least_traffic
from support.spill_plans import good, plan_of, skip_graph
from support.spill_problems import EVERY_SEMANTICS, STRICT, TARGETS, random_chain, random_problem, small_problem

LIMITS = Limits(100_000)


def again(graph: Graph, plan: Plan, target: Target, proof: TrafficProof, bound: int) -> Replayed:
    """What the second search says of a proof of `bound` bytes."""
    claimed = msgspec.structs.replace(plan, traffic_proof=proof, traffic_lower_bound_bytes=bound)
    return prove_traffic(graph, claimed, target, seconds=60, max_states=1_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("k", range(len(EVERY_SEMANTICS)))
def test_the_search_finds_the_least_traffic(k: int):
    """The bytes of brute force over all orders are proved, and one more is refuted, whatever a move costs."""
    rng = Random(k)
    moved = 0
    for j in range(32):
        target = TARGETS[j % 3]
        problem = small_problem(rng, EVERY_SEMANTICS[k], target, n_ops=6)
        plan = plan_of(problem, target)
        least = least_traffic(problem, addresses=False)
        assert (least is None) == (plan is None)
        if least is None or plan is None:
            continue
        graph, proof = problem.model.graph, TrafficProof(kind="search")
        assert again(graph, plan, target, proof, least).bytes == least
        with pytest.raises(VerificationError, match=f"but {least} are enough"):
            again(graph, plan, target, proof, least + 1)
        moved += least > 0
    assert moved > 1


@pytest.mark.slow
def test_windows_and_phases_cost_what_the_planner_says():
    """Random ones of larger graphs; one byte more is refuted."""
    rng = Random(3)
    tight = 0
    for _ in range(40):
        problem = random_problem(rng, 12, rng.choice(EVERY_SEMANTICS))
        graph, target = problem.model.graph, problem.model.target
        plan = plan_of(problem, target)
        if plan is None or problem.steps < 2:
            continue
        cut = rng.randint(1, problem.steps - 1)
        stretches = (range(cut), range(cut, problem.steps))
        found = [window_bound(problem, stretch, 300_000, LIMITS) for stretch in stretches]
        parts = [TrafficPart(bytes=w.bytes, ops=[graph.ops[i].id for i in w.ops]) for w in found]
        tight += _just(graph, plan, target, TrafficProof(kind="windows", parts=parts))
        summed = TrafficProof(kind="search", parts=parts)
        least = plan.traffic_lower_bound_bytes or 0
        assert again(graph, plan, target, summed, least).bytes == least
        split = phases(problem, random_chain(rng, problem), 300_000, LIMITS)
        ends = [None if p.end is None else graph.ops[p.end].id for p in split]
        pairs = zip([None, *ends], ends, split, strict=False)
        parts = [TrafficPart(bytes=p.bytes, begin=begin, end=end) for begin, end, p in pairs]
        tight += _just(graph, plan, target, TrafficProof(kind="phases", parts=parts))
    assert tight > 10


def _just(graph: Graph, plan: Plan, target: Target, proof: TrafficProof) -> bool:
    """See that the proof holds, and with a byte more in any part does not. Whether there is a byte in it."""
    total = sum(p.bytes for p in proof.parts)
    assert again(graph, plan, target, proof, total).bytes == total
    for k, part in enumerate(proof.parts):
        more = [*proof.parts]
        more[k] = msgspec.structs.replace(part, bytes=part.bytes + 1)
        with pytest.raises(VerificationError, match="are enough"):
            again(graph, plan, target, msgspec.structs.replace(proof, parts=more), total)
    return total > 0


def test_plans_are_proved_again():
    """Plans of random graphs under every target, with aligned sizes, too; all bounds hold."""
    rng = Random(12)
    moved = 0
    for k in range(30):
        target = (*TARGETS, BUILT_IN["generic"])[k % 4]
        problem = random_problem(rng, 14)
        need = spill_problem(problem.model.graph, target, problem.memories).largest_op[0]
        made = lowtide.research.plan(problem.model.graph, target=target, memories={"fast": need})
        if made.moves is None:
            continue
        proof = prove(problem.model.graph, made, target)
        assert proof.result == ("re-proved" if made.traffic_lower_bound_bytes else "checked")
        moved += bool(made.traffic_bytes)
    assert moved > 8


def test_a_search_that_does_not_end_says_what_it_has():
    """Without states nothing is proved; the report says so."""
    found = prove(skip_graph(), good(), STRICT, max_states=0)
    assert found.result == "not re-proved"
    assert "every order moves" in found.reason


BROKEN = {
    "nothing said": TrafficProof(kind="none"),
    "no such kind": TrafficProof(kind="faith"),
    "too few bytes": TrafficProof(kind="windows", parts=[TrafficPart(bytes=7, ops=[7, 8])]),
    "an op twice": TrafficProof(kind="search", parts=[TrafficPart(bytes=0, ops=[7]), TrafficPart(bytes=0, ops=[7])]),
    "an op of nowhere": TrafficProof(kind="search", parts=[TrafficPart(bytes=0, ops=[12])]),
    "less than nothing": TrafficProof(kind="search", parts=[TrafficPart(bytes=-1, ops=[7])]),
    "a hole": TrafficProof(kind="phases", parts=[TrafficPart(bytes=8, end=8), TrafficPart(bytes=0, begin=9)]),
    "no end": TrafficProof(kind="phases", parts=[TrafficPart(bytes=8, end=8)]),
    "to nowhere": TrafficProof(kind="phases", parts=[TrafficPart(bytes=8, end=12), TrafficPart(bytes=0, begin=12)]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_proof_is_refused(name: str):
    """By every `verify`, without a search."""
    with pytest.raises(VerificationError) as caught:
        verify_plan(skip_graph(), msgspec.structs.replace(good(), traffic_proof=BROKEN[name]), STRICT)
    assert caught.value.failure == "traffic"


def test_phases_that_do_not_run_in_turn_are_refused():
    """The second op of the chain is an ancestor of the first."""
    parts = [TrafficPart(bytes=8, end=9), TrafficPart(bytes=0, begin=9, end=8), TrafficPart(bytes=0, begin=8)]
    broken = msgspec.structs.replace(good(), traffic_proof=TrafficProof(kind="phases", parts=parts))
    with pytest.raises(VerificationError, match="in turn"):
        prove(skip_graph(), broken, STRICT)
