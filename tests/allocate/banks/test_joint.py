"""Memory and offset at once, against every choice of both."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from lowtide.allocate.banks.bank import Bank, Demand
from lowtide.allocate.banks.memories import MOST_BUFFERS, place_jointly
from lowtide.allocate.buffers import Pair, Problem, block
from lowtide.stop import Limits, clock

pytest.importorskip("ortools", reason="pip install '.[solvers]'")


def _least(problem: Problem, banks: list[Bank]) -> int | None:
    """Fewest bytes in the second memory, by every assignment and all offsets."""
    best = None
    for chosen in product(range(2), repeat=len(problem.buffers)):
        rooms = [range(banks[k].capacity - b.size + 1) for b, k in zip(problem.buffers, chosen, strict=True)]
        for offsets in product(*rooms):
            boxes = list(zip(problem.buffers, chosen, offsets, strict=True))
            if all(
                k != other or a.end <= b.start or b.end <= a.start or x + a.size <= y or y + b.size <= x
                for i, (a, k, x) in enumerate(boxes)
                for b, other, y in boxes[:i]
            ):
                slow = sum(b.size for b, k in zip(problem.buffers, chosen, strict=True) if k)
                best = slow if best is None else min(best, slow)
                break
    return best


def test_as_brute_force_on_tiny_instances():
    """Where there is one it is found, with the fewest bytes in slow memory; where there is none that is said."""
    rng, none = Random(3), 0
    for _ in range(12):
        buffers = tuple(
            block(f"b{i}", start, start + rng.randint(1, 3), rng.randint(1, 3))
            for i in range(rng.randint(1, 4))
            for start in (rng.randint(0, 3),)
        )
        problem, banks = Problem(buffers), [Bank("a", rng.randint(2, 4)), Bank("b", rng.randint(2, 5))]
        demands = [Demand((0, 1), b.size) for b in buffers]
        joint = place_jointly(problem, banks, demands, Limits(20.0))
        least = _least(problem, banks)
        assert joint is not None
        assert joint.impossible == (least is None)
        none += least is None
        if joint.bank_of is not None:
            slow = sum(b.size for b, k in zip(buffers, joint.bank_of, strict=True) if k)
            assert slow == least == joint.lower_bound
    assert 0 < none < 12


def test_what_it_is_not_asked():
    """Pairs, too many buffers, and no time left."""
    two = (block("a", 0, 2, 4), block("b", 1, 3, 4))
    banks, demand = [Bank("a", 8)], Demand((0,), 4)
    assert place_jointly(Problem(two, (Pair(0, 1, 0),)), banks, [demand] * 2, Limits(5.0)) is None
    assert place_jointly(Problem(two), banks, [demand] * 2, Limits(5.0, started=clock() - 9)) is None
    many = tuple(block(f"b{i}", i, i + 1, 1) for i in range(MOST_BUFFERS + 1))
    assert place_jointly(Problem(many), banks, [demand] * len(many), Limits(5.0)) is None
