"""The one search: moves take turns on the incumbent, and what they reach is what all sequences of them reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from lowtide.search.driver import Incumbent, Key, Move, search
from lowtide.stop import Limits

Plan = frozenset[str]
"""A toy plan: the names of the moves that were made."""


@dataclass
class _Toy(Move[Plan]):
    """A move that adds its name, where it was not made yet."""

    name: str
    is_terminal: bool = False
    turns: list[Plan] = field(default_factory=list[Plan])
    stops: bool = False

    def propose(self, base: Plan, limits: Limits) -> Plan | None:
        self.turns.append(base)
        if self.stops:
            raise KeyboardInterrupt
        return None if self.name in base else base | {self.name}


@dataclass
class _Objective:
    """Fewer of what a plan costs, until it costs little enough."""

    costs: Callable[[Plan], int]
    enough: int = -1

    def key(self, plan: Plan) -> Key:
        return (self.costs(plan),)

    def is_enough(self, plan: Plan) -> bool:
        return self.costs(plan) <= self.enough


def _reached(costs: dict[Plan, int], closing: Plan, names: tuple[str, ...]) -> int:
    """The least cost of any sequence of moves each of which gains something, by brute force over greedy descents; what
    is terminal comes last."""
    best = costs[frozenset()]
    seen, todo = {frozenset[str]()}, [frozenset[str]()]
    while todo:
        plan = todo.pop()
        best = min(best, costs[plan])
        for name in names:
            after = plan | {name}
            best = min(best, costs[after])
            if name not in plan and name not in closing and costs[after] < costs[plan] and after not in seen:
                seen.add(after)
                todo.append(after)
    return best


_NAMES = ("tile", "halo", "alias")
_PLANS = [frozenset(n for k, n in enumerate(_NAMES) if bits >> k & 1) for bits in range(8)]


@given(st.lists(st.integers(1, 9), min_size=8, max_size=8))
def test_what_moves_reach_is_a_local_optimum(numbers: list[int]) -> None:
    """No move improves the base any more, what is terminal was tried on the last base, and nothing better was seen than
    what brute force over all descents finds."""
    costs = dict(zip(_PLANS, numbers, strict=True))
    moves = [_Toy("tile"), _Toy("halo"), _Toy("alias", is_terminal=True)]
    incumbent = Incumbent(_Objective(costs.__getitem__), frozenset[str]())
    assert not search(incumbent, moves, Limits())
    base, best = incumbent.base, incumbent.best
    assert "alias" not in base
    assert all(costs[base | {name}] >= costs[base] for name in ("tile", "halo"))
    assert costs[best] == min(costs[base], *(costs[plan | {"alias"}] for plan in moves[2].turns))
    assert base in moves[2].turns
    assert costs[best] >= _reached(costs, frozenset({"alias"}), _NAMES)


@given(st.lists(st.integers(1, 9), min_size=8, max_size=8))
def test_each_move_has_one_turn_on_an_incumbent(numbers: list[int]) -> None:
    """No turn is taken twice, and the same search gives the same turns."""
    costs = dict(zip(_PLANS, numbers, strict=True))
    runs = []
    for _ in range(2):
        moves = [_Toy("tile"), _Toy("halo"), _Toy("alias", is_terminal=True)]
        search(Incumbent(_Objective(costs.__getitem__), frozenset[str]()), moves, Limits())
        assert all(len(set(move.turns)) == len(move.turns) for move in moves)
        runs.append([move.turns for move in moves])
    assert runs[0] == runs[1]


def test_enough_ends_it() -> None:
    """Once a plan is good enough, no move has a turn."""
    move = _Toy("tile")
    incumbent = Incumbent(_Objective(lambda plan: 9 - len(plan), enough=9), frozenset[str]())
    assert not search(incumbent, [move], Limits())
    assert move.turns == []


def test_an_interrupt_keeps_the_best() -> None:
    """Ctrl-C in a move ends the search with what was found before."""
    incumbent = Incumbent(_Objective(lambda plan: 9 - len(plan)), frozenset[str]())
    assert search(incumbent, [_Toy("tile"), _Toy("halo", stops=True)], Limits())
    assert incumbent.best == {"tile"}


def test_what_is_terminal_may_be_best_and_is_no_base() -> None:
    """Other moves build on the plan without."""
    costs = {plan: 9 - len(plan) - 3 * ("alias" in plan) for plan in _PLANS}
    incumbent = Incumbent(_Objective(costs.__getitem__), frozenset[str]())
    search(incumbent, [_Toy("alias", is_terminal=True), _Toy("tile")], Limits())
    assert (incumbent.base, incumbent.best) == ({"tile"}, {"tile", "alias"})
