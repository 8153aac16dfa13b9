"""A formula in conjunctive normal form, with sums that are at most a limit, and its text in DIMACS format.

A sum `w1 x1 + w2 x2 + ... <= limit` becomes a decision diagram over its terms, largest weight first, whose nodes
stand for `the terms from here on fit into what is left`; a node serves an interval of limits (Abio et al., "A new look
at BDDs for pseudo-Boolean constraints", JAIR 2012). As no weight is negative, one direction of each node's definition
is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd, inf

TRUE = 0  # the node of a diagram that always holds; the one that never does is None


@dataclass
class Formula:
    """Clauses over variables 1, 2, ...; a negative literal is the negation of a variable."""

    variables: int = 0
    clauses: list[tuple[int, ...]] = field(default_factory=list)

    def variable(self) -> int:
        """A new variable."""
        self.variables += 1
        return self.variables

    def add(self, *literals: int) -> None:
        """One of these holds."""
        self.clauses.append(literals)

    def at_most(self, terms: Iterable[tuple[int, int]], limit: int) -> None:
        """The weights of the literals that hold sum up to at most a limit. `terms`: literals with their weights, none
        negative."""
        counted = sorted(((w, x) for x, w in terms if w), reverse=True)
        unit = gcd(*(w for w, _ in counted))
        scaled = [(w // unit, x) for w, x in counted] if unit else []
        root = _Diagram(self, scaled).node(0, limit // unit if unit else limit)[2]
        if root is None:
            self.add()
        elif root != TRUE:
            self.add(root)

    def dimacs(self, about: Sequence[str] = ()) -> str:
        """The formula as a file; `about`: lines of comment."""
        lines = [f"c {line}" for line in about]
        lines.append(f"p cnf {self.variables} {len(self.clauses)}")
        lines += [" ".join(map(str, (*clause, 0))) for clause in self.clauses]
        return "\n".join(lines) + "\n"


class _Diagram:
    """The nodes of one sum: of each term those that were made, by the limits that they serve."""

    def __init__(self, formula: Formula, terms: Sequence[tuple[int, int]]) -> None:
        self.formula, self.terms = formula, terms
        self.rest = [sum(w for w, _ in terms[i:]) for i in range(len(terms) + 1)]
        self.made: list[list[tuple[float, float, int]]] = [[] for _ in terms]

    def node(self, i: int, left: float) -> tuple[float, float, int | None]:
        """The node for terms from `i` on with `left` of the limit, and the least and largest limit that it serves."""
        if left < 0:
            return -inf, -1, None
        if self.rest[i] <= left:
            return self.rest[i], inf, TRUE
        for low, high, known in self.made[i]:
            if low <= left <= high:
                return low, high, known
        weight, literal = self.terms[i]
        low_without, high_without, without = self.node(i + 1, left)
        low_with, high_with, taken = self.node(i + 1, left - weight)
        low, high = max(low_without, low_with + weight), min(high_without, high_with + weight)
        here = self.formula.variable()
        if without != TRUE:
            self.formula.add(-here, *(() if without is None else (without,)))
        if taken != TRUE:
            self.formula.add(-here, -literal, *(() if taken is None else (taken,)))
        self.made[i].append((low, high, here))
        return low, high, here
