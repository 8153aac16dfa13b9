"""Formulas of orders and placements against searches that try everything; proofs by programs of others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lowtide.allocate.buffers import Problem, block
from lowtide.errors import InputError
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from lowtide_research import zoo
from lowtide_research.sat import refute as programs
from lowtide_research.sat.formula import Formula
from lowtide_research.sat.orders import OrderProblem
from lowtide_research.sat.placements import fits
from lowtide_research.sat.refute import find_programs, is_accepted, refute
from support.brute import every_downset, must_run_before, optimum
from support.random_graphs import random_graph
from support.small_problems import least_height

STRICT = BUILT_IN["strict"]


def is_satisfiable(clauses: list[tuple[int, ...]]) -> bool:
    """By unit propagation and trying both values of a variable; slow and obvious."""
    while True:
        if any(not clause for clause in clauses):
            return False
        unit = next((clause[0] for clause in clauses if len(clause) == 1), None)
        if unit is None:
            break
        clauses = given_that(clauses, unit)
    if not clauses:
        return True
    literal = clauses[0][0]
    return any(is_satisfiable(given_that(clauses, x)) for x in (literal, -literal))


def given_that(clauses: list[tuple[int, ...]], literal: int) -> list[tuple[int, ...]]:
    """The clauses that are left where a literal holds."""
    return [tuple(x for x in clause if x != -literal) for clause in clauses if literal not in clause]


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(-1, 40), st.booleans())
def test_a_sum_is_within_its_limit(weights: list[int], limit: int, negated: bool) -> None:
    """Of all assignments exactly those within the limit satisfy the diagram."""
    formula = Formula()
    terms = [(-formula.variable() if negated else formula.variable(), w) for w in weights]
    formula.at_most(terms, limit)
    for values in product((False, True), repeat=len(weights)):
        chosen = [x if value else -x for (x, _), value in zip(terms, values, strict=True)]
        total = sum(w for w, value in zip(weights, values, strict=True) if value)
        assert is_satisfiable([*formula.clauses, *((x,) for x in chosen)]) == (total <= limit)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**9))
def test_an_order_exists_exactly_if_its_formula_is_satisfiable(seed: int) -> None:
    """At the least peak the formula of an order is satisfiable, a byte below it is not."""
    graph = random_graph(Random(seed), 4)
    assume(graph.ops)
    problem, least = OrderProblem(graph, STRICT), optimum(graph, STRICT)
    assert is_satisfiable(problem.of_an_order(least).clauses)
    assert not is_satisfiable(problem.of_an_order(least - 1).clauses)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**9))
def test_one_op_takes_its_least_footprint(seed: int) -> None:
    """At the least bytes of an op over all sets that can have run before it the formula turns."""
    graph = random_graph(Random(seed), 7)
    problem, memory, needs = OrderProblem(graph, STRICT), work_out(graph, STRICT), must_run_before(graph)
    downsets = every_downset(graph)
    for op in problem.ops:
        least = min(memory.footprint(op, done) for done in downsets if op not in done and needs[op] <= done)
        assert is_satisfiable(problem.at_one_op(op, least).clauses)
        assert not is_satisfiable(problem.at_one_op(op, least - 1).clauses)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**9), st.sampled_from([(1,), (1, 2), (2, 3)]))
def test_buffers_fit_exactly_if_their_formula_is_satisfiable(seed: int, alignments: tuple[int, ...]) -> None:
    """At the least height of all placements the formula is satisfiable, a byte below it is not."""
    rng = Random(seed)
    lives = [(start, start + rng.randint(1, 3)) for start in (rng.randrange(4) for _ in range(4))]
    drawn = [block(f"b{i}", *live, rng.randint(1, 4), rng.choice(alignments)) for i, live in enumerate(lives)]
    problem = Problem(tuple(drawn))
    least = least_height(problem)
    assert is_satisfiable(fits(problem, least).clauses)
    assert not is_satisfiable(fits(problem, least - 1).clauses)


def test_buffers_that_are_no_blocks_are_refused() -> None:
    """Fixed offsets and other shapes are not in the formula."""
    with pytest.raises(InputError, match="one rectangle"):
        fits(Problem((replace(block("a", 0, 2, 8), offset=8),)), 16)


def test_an_op_that_writes_over_its_input_is_refused() -> None:
    """The formulas know no op in place."""
    with pytest.raises(InputError, match="write over their inputs"):
        OrderProblem(random_graph(Random(1), 8, in_place=1.0, views=0.0), BUILT_IN["generic"])


def test_a_file_has_its_counts() -> None:
    """DIMACS: comments, the counts, clauses that end in 0."""
    formula = Formula()
    a, b = formula.variable(), formula.variable()
    formula.add(a, -b)
    assert formula.dimacs(["two ops"]) == "c two ops\np cnf 2 1\n1 -2 0\n"


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that is missing, and where to get it."""
    monkeypatch.setattr(programs.shutil, "which", lambda _: None)
    with pytest.raises(InputError, match=r"cadical, drat-trim, cake_lpr not found on PATH; cadical is a package"):
        find_programs()


def test_a_proof_is_accepted_and_forged_ones_are_not(tmp_path: Path) -> None:
    """A byte below the least peak is refuted; that proof is none at the least peak, nor is half of it."""
    try:
        find_programs()
    except InputError as error:
        pytest.skip(str(error))
    problem = OrderProblem(zoo.build("swiftnet_cell_c").graph(), STRICT)
    least = 32_928
    assert refute(problem.of_an_order(least), tmp_path, 60).status == "satisfiable"
    refuted = refute(problem.of_an_order(least - 1), tmp_path, 60)
    assert (refuted.status, refuted.proof_bytes > 0) == ("refuted", True)
    proof = tmp_path / "proof.lrat"
    whole = proof.read_bytes()
    proof.write_bytes(whole[: len(whole) // 2])
    assert not is_accepted(tmp_path / "formula.cnf", proof)
    proof.write_bytes(whole)
    (tmp_path / "possible.cnf").write_text(problem.of_an_order(least).dimacs())
    assert not is_accepted(tmp_path / "possible.cnf", proof)
