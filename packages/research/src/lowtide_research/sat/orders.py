"""Whether an order has a peak of at most a given number of bytes, as a formula: unsatisfiable proves that none has.

Memory is counted as the checker of plans counts it (`lowtide.verify.check.memory`: the footprint at op v when exactly
the ops of D ran before it). Two formulas:

    at one op     x_i: op i ran before op v. What v needs ran, what needs v did not; the live bytes at v fit.
                  Unsatisfiable: v alone takes more in every order. Small, and enough for many graphs.
    of an order   x_i,t: op i ran before step t, for each of as many steps as there are ops; in each step one op runs,
                  what it needs ran before, and the live bytes fit. Satisfiable exactly if such an order exists.

A storage is live if an op that touches it has begun and one has not ended:

    begun_b  <-  x of any toucher (or the op that runs)      needed_b  <-  not x of any toucher      live_b <- both
"""

from __future__ import annotations

from collections.abc import Mapping

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.target import Target
from lowtide.verify.check.memory import CheckedMemory, work_out
from lowtide_research.sat.formula import Formula

Literal = int | bool


class OrderProblem:
    """A graph under a target: who runs before whom, and what is live. Raises `InputError`: the target lets an op write
    over its input, which the formulas do not describe."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.memory: CheckedMemory = work_out(graph, target)
        if any(self.memory.overwritable.values()):
            raise InputError("ops may write over their inputs under this target; formulas are made under `strict`")
        self.ops = [op.id for op in graph.ops]
        makers = {t: op.id for op in graph.ops for t in op.outputs}
        known = set(self.ops)
        self.before = {
            op.id: {makers[t] for t in op.inputs if t in makers} | (known & set(op.after)) for op in graph.ops
        }
        self.earlier = _closure(self.ops, self.before)
        self.later = {o: {p for p in self.ops if o in self.earlier[p]} for o in self.ops}

    def at_one_op(self, op: int, limit_bytes: int) -> Formula:
        """Whether some set of ops can have run before an op so that at most a limit is live while it runs."""
        formula = Formula()
        fixed = dict.fromkeys(self.earlier[op], True) | dict.fromkeys({*self.later[op], op}, False)
        ran: dict[int, Literal] = {o: fixed[o] if o in fixed else formula.variable() for o in self.ops}
        for o, needs in self.before.items():
            for needed in needs:
                _imply(formula, [ran[o]], ran[needed])
        begun = {o: ran[o] if o != op else True for o in self.ops}
        terms = self._live(formula, begun, ran)
        formula.at_most(terms[0], limit_bytes - terms[1] - self.memory.workspace[op])
        return formula

    def of_an_order(self, limit_bytes: int) -> Formula:
        """Whether an order has at most a limit live in each of its steps."""
        formula, steps = Formula(), len(self.ops)
        ran: list[dict[int, Literal]] = []
        for t in range(steps + 1):
            ran.append({})
            for o in self.ops:
                late, early = t <= len(self.earlier[o]), t >= steps - len(self.later[o])
                ran[t][o] = False if late else True if early else formula.variable()
        for t in range(steps):
            running = {o: _and(formula, ran[t + 1][o], _not(ran[t][o])) for o in self.ops}
            possible = [x for x in running.values() if x is not False]
            for i, x in enumerate(possible):
                for y in possible[i + 1 :]:
                    _imply(formula, [x], _not(y))
            for o in self.ops:
                _imply(formula, [ran[t][o]], ran[t + 1][o])
                for needed in self.before[o]:
                    _imply(formula, [ran[t + 1][o]], ran[t][needed])
            terms, always = self._live(formula, ran[t + 1], ran[t])
            for o, x in running.items():
                always += self.memory.workspace[o] if x is True else 0
                terms += [(x, self.memory.workspace[o])] if not isinstance(x, bool) else []
            formula.at_most(terms, limit_bytes - always)
        return formula

    def _live(
        self, formula: Formula, begun: Mapping[int, Literal], ended: Mapping[int, Literal]
    ) -> tuple[list[tuple[int, int]], int]:
        """The storages that may be live, as literals with their bytes, and the bytes that are live in any case."""
        terms: list[tuple[int, int]] = []
        always = 0
        for storage in self.memory.storages:
            users = sorted(storage.users)
            start = True if storage.at_start else _or(formula, [begun[o] for o in users])
            end = True if storage.at_end else _or(formula, [_not(ended[o]) for o in users])
            live = _and(formula, start, end)
            if live is True:
                always += storage.size
            elif live is not False:
                terms.append((live, storage.size))
        return terms, always


def _closure(ops: list[int], before: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """What runs before each op in every order."""
    found: dict[int, set[int]] = {}

    def of(op: int) -> set[int]:
        if op not in found:
            found[op] = set(before[op]).union(*(of(o) for o in before[op]))
        return found[op]

    for op in ops:
        of(op)
    return found


def _not(x: Literal) -> Literal:
    return not x if isinstance(x, bool) else -x


def _imply(formula: Formula, given: list[Literal], then: Literal) -> None:
    """What is given implies a literal; constants are left out."""
    if then is True or any(x is False for x in given):
        return
    formula.add(*(-x for x in given if x is not True), *(() if then is False else (then,)))


def _or(formula: Formula, literals: list[Literal]) -> Literal:
    """A literal that holds if one of these does; where none does, it may hold or not."""
    open_ones = [x for x in literals if not isinstance(x, bool)]
    if any(x is True for x in literals) or not open_ones:
        return any(x is True for x in literals)
    if len(open_ones) == 1:
        return open_ones[0]
    either = formula.variable()
    for x in open_ones:
        formula.add(-x, either)
    return either


def _and(formula: Formula, x: Literal, y: Literal) -> Literal:
    """A literal that holds if both do; where one does not, it may hold or not."""
    if isinstance(x, bool):
        return y if x else False
    if isinstance(y, bool):
        return x if y else False
    both = formula.variable()
    formula.add(-x, -y, both)
    return both
