"""The second search for a placement: bounds above the load are proved again, and those that one beats are refuted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import msgspec
import pytest

import lowtide
from lowtide.allocate.buffers import Buffer, Problem, block
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from lowtide.verify.prove.arena import prove_arena
from support.random_graphs import random_graph
from support.small_problems import FULL, least_height

STRICT = BUILT_IN["strict"]


def as_graph(buffers: Sequence[Buffer]) -> Graph:
    """Ops in a row, each of which makes the buffers that begin at its step and reads those that end behind it."""
    steps = max(b.end for b in buffers)
    tensors = tuple(Tensor(i, b.size, Kind.ACTIVATION, b.name) for i, b in enumerate(buffers))
    ops = tuple(
        Op(
            step,
            tuple(i for i, b in enumerate(buffers) if b.end == step + 1 and b.start < step),
            tuple(i for i, b in enumerate(buffers) if b.start == step),
            after=(step - 1,) if step else (),
        )
        for step in range(steps)
    )
    return Graph("row", tensors, ops, sha256="1" * 64)


@pytest.mark.slow
def test_what_no_placement_reaches_is_proved_again() -> None:
    """16 bytes are live at every step, and no placement has 16: the bound is 17; 18 is refuted."""
    graph = as_graph(FULL.buffers)
    plan = lowtide.research.plan(graph, target="strict")
    assert (plan.peak_bytes, plan.arena_lower_bound_bytes) == (16, 17)
    proof = prove_arena(graph, plan, STRICT)
    assert proof is not None
    assert proof.result == "re-proved"
    report = lowtide.verify(graph, plan, prove=True)
    assert report.arena_proof is not None
    few = prove_arena(graph, plan, STRICT, max_states=5)
    assert few is not None
    assert few.result == "not re-proved"
    with pytest.raises(VerificationError, match="there is a placement in 17 B"):
        prove_arena(graph, msgspec.structs.replace(plan, arena_lower_bound_bytes=18), STRICT)


@pytest.mark.slow
@pytest.mark.parametrize("alignment", [1, 4])
def test_it_says_what_brute_force_says(alignment: int) -> None:
    """Random rectangles, and every bound around the least height: proved if none is lower, else refuted."""
    target = replace(STRICT, name="steps", alignment=alignment)
    rng = Random(alignment)
    for _ in range(60):
        buffers = []
        for i in range(rng.randint(2, 6)):
            start = rng.randrange(6)
            buffers.append(block(f"b{i}", start, rng.randint(start + 1, 6), rng.randint(1, 4)))
        graph = as_graph(buffers)
        plan = lowtide.research.plan(graph, target=target)
        whole = [block(b.name, b.start, b.end, -(-b.size // alignment) * alignment, alignment) for b in buffers]
        least = least_height(Problem(tuple(whole)))
        for bound in (least, least + alignment):
            claim = msgspec.structs.replace(plan, arena_lower_bound_bytes=bound)
            if bound > least:
                with pytest.raises(VerificationError, match="there is a placement"):
                    prove_arena(graph, claim, target)
                continue
            proof = prove_arena(graph, claim, target)
            assert proof is not None
            assert proof.result in ("checked", "re-proved")


@pytest.mark.slow
def test_plans_in_place_are_checked_or_left_open() -> None:
    """Whatever shares memory: no true bound is refuted; one above the arena is, where piles are of rectangles."""
    results = set[str]()
    for seed in range(60):
        graph = replace(random_graph(Random(seed), 9), sha256="1" * 64)
        plan = lowtide.research.plan(graph, target="generic")
        verify_plan(graph, plan, BUILT_IN["generic"])
        proof = prove_arena(graph, plan, BUILT_IN["generic"])
        results.add("" if proof is None else proof.result)
        if plan.arena_bytes:
            claim = msgspec.structs.replace(plan, arena_lower_bound_bytes=plan.arena_bytes + 64)
            try:
                again = prove_arena(graph, claim, BUILT_IN["generic"])
            except VerificationError as error:
                results.add(error.failure)
            else:
                assert again is not None
                assert again.result == "not re-proved"
    assert {"checked", "arena"} <= results


def test_a_plan_that_spills_has_no_such_bound() -> None:
    """Nor has one without an arena."""
    graph = as_graph(FULL.buffers)
    plan = lowtide.research.plan(graph, target="strict", memories={"fast": 40})
    assert prove_arena(graph, plan, STRICT) is None
