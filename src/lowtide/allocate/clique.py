"""Buffers that never share a byte, each with each of the others: a bound that sees more than one step.

Two buffers never share a byte if they are there at the same step, or if they are kept apart. Of buffers each two of
which never share one, each is above the one before it, so together they take the sum of their sizes. Without any
kept apart that is the load at a step (intervals that meet pairwise have a step in common); with them it is more:

    bytes ^  +---+
          |  | a |        +---+       a and b, b and c are there at once; a and c are kept apart:
          |  +---+----+---| c |       the load is 2, and no placement is lower than 3
          |      |  b     +---+
          +------+--------+------> steps

The search is the plain one for a heaviest clique: branch over the buffers, largest first, and cut where a colouring
says that what is left is not heavy enough (each colour class shares pairwise, so a clique has one of it at most). It
counts its nodes; stopped early, what it has found is a clique all the same, and a bound.

Source: Carraghan and Pardalos, "An exact algorithm for the maximum clique problem", Operations Research Letters 9
(1990); the bound by colouring is Tomita and Seki's (DMTCS 2003), with weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

from lowtide.allocate.buffers import Problem
from lowtide.allocate.greedy import Packing, Portfolio
from lowtide.sizes import round_up
from lowtide.stop import Limits

MOST_BUFFERS = 2_000
NODES = 50_000
"""Of a search for a clique; a node is a few microseconds for each buffer that is left."""


@dataclass(frozen=True)
class Cliques:
    """Engine that raises the bound where buffers are kept apart, and places nothing itself."""

    name: ClassVar[str] = "cliques"
    nodes: int = NODES

    def supports(self, problem: Problem) -> str | None:
        """Blocks of one rectangle, some of them kept apart; without those the load bound is the same."""
        if not problem.apart:
            return "no buffers kept apart"
        if problem.pairs or any(p.low or p.size != b.size for b in problem.buffers for p in b.rectangles):
            return "buffers that may overlap"
        return "too many buffers" if len(problem.buffers) > MOST_BUFFERS else None

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack from the best of the greedies."""
        return self.improve(problem, limits, Portfolio().pack(problem, limits))

    def improve(self, problem: Problem, limits: Limits, best: Packing) -> Packing:
        """The placement as it is, with a bound that is no lower."""
        bound = max(best.lower_bound_bytes, min(best.height_bytes, clique_bound(problem, self.nodes)))
        return replace(best, lower_bound_bytes=bound)


def clique_bound(problem: Problem, nodes: int = NODES) -> int:
    """Bytes that buffers which never share one take together: the most that is found. Offsets are multiples of the
    alignments' greatest common divisor, so each buffer but the topmost takes its size rounded up to that."""
    buffers = problem.buffers
    unit = gcd(*(b.alignment for b in buffers)) if buffers else 1
    weights = [round_up(b.size, unit) if b.rectangles else 0 for b in buffers]
    members = heaviest_clique(weights, never_share(problem), nodes)
    slack = max((weights[i] - buffers[i].size for i in members), default=0)
    return sum(weights[i] for i in members) - slack


def never_share(problem: Problem) -> list[int]:
    """Of each buffer those that it never shares a byte with, as bits: there at the same step, or kept apart."""
    buffers = problem.buffers
    neighbours = [0] * len(buffers)
    ends: list[tuple[int, int]] = []
    for start, end, i in sorted((p.start, p.end, i) for i, b in enumerate(buffers) for p in b.rectangles):
        ends = [(until, j) for until, j in ends if until > start]
        for _, j in ends:
            neighbours[i] |= 1 << j
            neighbours[j] |= 1 << i
        ends.append((end, i))
    for i, j in problem.apart:
        if buffers[i].rectangles and buffers[j].rectangles:
            neighbours[i] |= 1 << j
            neighbours[j] |= 1 << i
    return neighbours


def heaviest_clique(weights: Sequence[int], neighbours: Sequence[int], nodes: int) -> list[int]:
    """Indices each two of which are concurrently live, of the largest weight that is found; ascending."""
    rank = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    place = {i: k for k, i in enumerate(rank)}
    rows = [sum(1 << place[j] for j in bits_of(neighbours[i])) for i in rank]
    heavy = [weights[i] for i in rank]
    best: list[int] = []
    most = left = 0
    stack: list[tuple[int, int, list[int]]] = [((1 << len(rank)) - 1, 0, [])]
    while stack and left < nodes:
        candidates, weight, chosen = stack.pop()
        left += 1
        if weight > most:
            most, best = weight, chosen
        if not candidates or weight + _coloured(candidates, rows, heavy) <= most:
            continue
        first = (candidates & -candidates).bit_length() - 1
        stack.append((candidates & ~(1 << first), weight, chosen))
        stack.append((candidates & rows[first], weight + heavy[first], [*chosen, first]))
    return sorted(rank[k] for k in best)


def bits_of(bits: int) -> list[int]:
    """The places of the ones, ascending."""
    result: list[int] = []
    while bits:
        low = bits & -bits
        result.append(low.bit_length() - 1)
        bits ^= low
    return result


def _coloured(candidates: int, rows: Sequence[int], heavy: Sequence[int]) -> int:
    """What no clique among the candidates outweighs: of each class of a colouring the heaviest, which comes first."""
    total = 0
    while candidates:
        free = candidates
        total += heavy[(candidates & -candidates).bit_length() - 1]
        while free:
            low = free & -free
            candidates ^= low
            free &= ~(low | rows[low.bit_length() - 1])
    return total
