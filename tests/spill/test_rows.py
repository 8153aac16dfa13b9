"""Partial residency against brute force over rows: never above whole tensors, never below the linear program."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from lowtide.spill.core_problem import core_problem
from lowtide.spill.problem import Memory, Semantics, SpillProblem, spill_problem, timeline
from lowtide.spill.rows import by_rows, fits, rows_of, traffic_by_rows
from lowtide.target import BUILT_IN
from support.spill_problems import search, skips

pytest.importorskip("ortools")


def least_in_parts(problem: SpillProblem, order: tuple[int, ...], parts: int) -> int | None:
    """Least traffic if each gap's storage may leave in so many equal parts."""
    line = timeline(problem, order)
    steps = [Fraction(k, parts) for k in range(parts + 1)]
    best = None
    for chosen in product(steps, repeat=len(line.gaps)):
        leaving = list(zip(line.gaps, chosen, strict=True))
        if fits(problem, line, leaving):
            traffic = traffic_by_rows(problem, leaving)
            best = traffic if best is None else min(best, traffic)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("write_once", [True, False])
def test_rows_lie_between_the_linear_program_and_whole_tensors(write_once: bool):
    """LP <= any number of parts <= whole; the rounded fractions fit, and cost at most a row of each gap more."""
    rng = Random(write_once)
    partial = 0
    for _ in range(60):
        problem = spill_problem(skips(rng, 7), BUILT_IN["strict"], (Memory("fast", 1),), Semantics(write_once))
        order = tuple(range(problem.steps))
        line = timeline(problem, order)
        if not 1 <= len(line.gaps) <= 5:
            continue
        problem = replace(problem, memories=(Memory("fast", max(line.forced)),))
        found = by_rows(problem, order)
        assert found is not None
        whole = search(core_problem(problem, order, chain=True)).cost
        halves, thirds = (least_in_parts(problem, order, parts) for parts in (2, 3))
        assert halves is not None
        assert thirds is not None
        assert found.bound_bytes <= min(halves, thirds) <= whole
        assert least_in_parts(problem, order, 1) == whole
        assert fits(problem, line, found.leaving)
        row = sum(2 * Fraction(g.read_bytes + g.write_bytes, rows_of(problem, g.storage)) for g, _ in found.leaving)
        assert found.bound_bytes <= found.traffic_bytes <= found.bound_bytes + row + 1
        partial += found.bound_bytes < whole
    assert partial > 3


def test_ops_that_do_not_fit_have_no_residency():
    """None, not a solver's error."""
    problem = spill_problem(skips(Random(0), 5), BUILT_IN["strict"], (Memory("fast", 1),))
    assert by_rows(problem, range(problem.steps)) is None
