"""Bounds by what is live at once: never above brute force, refuted again, and refused where they say too much."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import pytest

import lowtide
from lowtide.certificates import CutCertificate
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.spill.phases import live_too_much
from lowtide.spill.problem import Memory, SpillProblem, least_peak, spill_problem
from lowtide.spill_plan import TrafficPart, TrafficProof
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from lowtide.verify.prove.search import prove
from lowtide_research import zoo
from support.spill_brute import least_traffic
from support.spill_plans import plan_of
from support.spill_problems import EVERY_SEMANTICS, STRICT, TARGETS, small_problem

FEW_STATES = {"states": "50", "window_states": "5"}


def wide(method: str = "belady") -> tuple[Graph, Plan, int]:
    """A wide graph, a plan of it in the memory of its largest op, and the bytes that no order's peak is below."""
    graph = zoo.build("random_width:width=8,n=32,seed=0").graph()
    problem = spill_problem(graph, STRICT, (Memory("fast", 1),))
    need, options = problem.largest_op[0], FEW_STATES if method == "exact" else {}
    made = lowtide.research.plan(graph, target=STRICT, memories={"fast": need}, method=method, options=options, seed=0)
    return graph, made, least_peak(problem, Limits(20)).lower_bound


def crossing(rng: Random) -> SpillProblem:
    """Ops that make something of nothing, and ops that read pairs of it, in the memory of the largest op."""
    makers, readers = rng.randint(4, 5), rng.randint(4, 5)
    tensors = [Tensor(k, rng.randint(2, 4), Kind.ACTIVATION, f"t{k}") for k in range(makers)]
    tensors += [Tensor(makers + k, 1, Kind.ACTIVATION, f"t{makers + k}") for k in range(readers)]
    ops = [Op(k, (), (k,), f"make{k}", "X") for k in range(makers)]
    ops += [Op(makers + k, tuple(rng.sample(range(makers), 2)), (makers + k,), f"read{k}", "X") for k in range(readers)]
    problem = spill_problem(Graph("crossing", tuple(tensors), tuple(ops)), STRICT, (Memory("fast", 1),))
    return replace(problem, memories=(Memory("fast", problem.largest_op[0]),))


def claim(plan: Plan, bound: int, peak: int, cut: CutCertificate | None = None) -> Plan:
    """The plan with another bound, which a peak is said to show."""
    proof = TrafficProof(kind="peak", parts=[TrafficPart(bytes=bound, peak=peak, cut=cut)])
    return msgspec.structs.replace(
        plan, traffic_proof=proof, traffic_lower_bound_bytes=bound, optimal=bound == plan.traffic_bytes
    )


@pytest.mark.slow
def test_nothing_above_the_least_traffic_is_proved():
    """Whatever a move costs and whatever peak is named: brute force's least traffic and a byte more is refused."""
    rng = Random(5)
    refused = proved = 0
    for k in range(120):
        target = TARGETS[k % 3] if k % 4 else STRICT
        semantics = EVERY_SEMANTICS[k % len(EVERY_SEMANTICS)]
        problem = small_problem(rng, semantics, target, n_ops=6) if k % 4 else crossing(rng)
        plan = plan_of(problem, target)
        least = least_traffic(problem, addresses=False)
        if plan is None or least is None:
            continue
        graph, peak = problem.model.graph, least_peak(problem, Limits(20)).lower_bound
        with pytest.raises(VerificationError, match="but this one has not"):
            prove(graph, claim(plan, least + 1, 1 << 40), target)
        refused += 1
        bound = live_too_much(problem, peak)
        if bound:
            assert bound <= least
            assert prove(graph, claim(plan, bound, peak), target).result == "re-proved"
            proved += 1
    assert refused > 80
    assert proved > 3


@pytest.mark.slow
def test_the_peak_of_a_plan_is_refuted_again():
    """Where the search does not end; without states the peak is not refuted, and the report says so."""
    graph, plan, peak = wide("exact")
    proof = plan.traffic_proof
    assert proof is not None
    assert proof.kind == "peak"
    assert [(p.bytes, p.peak) for p in proof.parts] == [(plan.traffic_lower_bound_bytes, peak)]
    assert "the bytes live at once" in verify_plan(graph, plan, STRICT).notes[0]
    assert prove(graph, plan, STRICT).result == "re-proved"
    found = prove(graph, plan, STRICT, max_states=0)
    assert found.result == "not re-proved"
    assert "is not refuted" in found.reason


def test_a_peak_that_is_too_low_for_the_bound_is_refused():
    """By every `verify`: a byte more than the peak gives, a lower peak, no peak, or parts that are none."""
    graph, plan, peak = wide()
    problem = spill_problem(graph, STRICT, (Memory("fast", (plan.memories or [])[0].capacity_bytes),))
    bound = live_too_much(problem, peak)
    assert bound
    verify_plan(graph, claim(plan, bound, peak), STRICT)
    with pytest.raises(VerificationError, match="leaves"):
        verify_plan(graph, claim(plan, bound + 1, peak), STRICT)
    with pytest.raises(VerificationError, match="leaves"):
        verify_plan(graph, claim(plan, bound, peak - 1), STRICT)
    part = TrafficPart(bytes=bound, peak=peak)
    claimed = claim(plan, bound, peak)
    broken = [
        TrafficProof(kind="peak"),
        TrafficProof(kind="peak", parts=[part, part]),
        TrafficProof(kind="peak", parts=[TrafficPart(bytes=bound)]),
        TrafficProof(kind="peak", parts=[msgspec.structs.replace(part, ops=[0])]),
        TrafficProof(kind="windows", parts=[part]),
    ]
    for proof in broken:
        with pytest.raises(VerificationError) as caught:
            verify_plan(graph, msgspec.structs.replace(claimed, traffic_proof=proof), STRICT)
        assert caught.value.failure == "traffic"


@pytest.mark.slow
def test_a_flow_shows_the_peak():
    """Of RandWire: checked by every `verify`, without a search; a flow that says more than it carries is refused."""
    graph = zoo.build("randwire_cifar10").graph()
    problem = spill_problem(graph, STRICT, (Memory("fast", 1),))
    problem = replace(problem, memories=(Memory("fast", problem.largest_op[0]),))
    plan = lowtide.research.plan(graph, target=STRICT, memories={"fast": problem.capacity}, method="belady")
    found = least_peak(problem, Limits(20))
    cut, bound = found.certificate, live_too_much(problem, found.lower_bound)
    assert isinstance(cut, CutCertificate)
    assert bound
    good = claim(plan, bound, found.lower_bound, cut)
    assert "proved by flow" in verify_plan(graph, good, STRICT).notes[0]
    assert prove(graph, good, STRICT, max_states=0).result == "checked"
    more = msgspec.structs.replace(cut, value_bytes=cut.value_bytes + 1)
    with pytest.raises(VerificationError, match="the flow"):
        verify_plan(graph, claim(plan, bound, found.lower_bound, more), STRICT)
    less = msgspec.structs.replace(cut, value_bytes=cut.value_bytes - 1)
    with pytest.raises(VerificationError, match="does not show"):
        verify_plan(graph, claim(plan, bound, found.lower_bound, less), STRICT)


def test_sizes_that_are_rounded_up_have_no_such_bound():
    """The bytes that are live are then more than those that move."""
    graph, plan, _ = wide()
    with pytest.raises(VerificationError, match="rounded up"):
        prove(graph, claim(plan, 2, 1 << 40), BUILT_IN["generic"])
