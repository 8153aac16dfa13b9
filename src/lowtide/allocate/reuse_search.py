"""Russian dolls: small components of `reuse.py` in which nearly everything has a price, searched to the end.

Buffers that never share pairwise are put together, and all ways to place such a group in the capacity are its values;
what two groups pay is then a table. Groups are added one after the other at the front of what is solved already:

    solve {D}, then {C, D}, then {B, C, D}, then {A, B, C, D}

The bound of a partial choice is what it pays, of each group still open the least that it pays to those chosen, and what
the open ones pay among themselves at least, which the smaller problem has proved; or, of the open ones put together in
twos, the least that each two pay to those chosen and to each other.

Two of a group that are alike (same size, same places, same prices with all others) can change places, so the one named
first is lower (docs/proofs.md, section 13). So can groups: where two of them, or two pairs of them at once,
change places and every table stays as it is, the value of the first is the lower one.

Source: Verfaillie, Lemaitre and Schiex, "Russian Doll Search for Solving Constraint Optimization Problems" (AAAI 1996).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.allocate.reuse_model import Grid, Part

MOST_VALUES = 1_500  # ways to place a group

MOST_GROUPS = 12

MOST_PAIRS = 30_000  # pairs of values of two groups that a bound may look at
NODES = 2_000_000  # partial choices that are gone on with, in all
NEVER = 1 << 40  # what it costs to share what never shares
Way = tuple[int, ...]  # a place for each of a group

Table = npt.NDArray[np.int64]


def search(part: Part, grid: Grid, start: Sequence[int], limits: Limits) -> tuple[int, list[int]] | None:
    """Least cost and a place in units for each buffer; None if it is too large, or not done in time. `start` is a
    placement in bytes: each doll begins with what it pays."""
    found = _groups(part, grid)
    if len(found) > MOST_GROUPS or part.total >= NEVER or not all(ways for _, ways in found):
        return None
    groups, values = [group for group, _ in found], [ways for _, ways in found]
    rank = sorted(range(len(groups)), key=lambda g: (-len(values[g]), groups[g]))
    groups, values = [groups[g] for g in rank], [values[g] for g in rank]
    tables = {
        (a, b): _table(part, grid, (groups[a], values[a]), (groups[b], values[b]))
        for a, b in combinations(range(len(groups)), 2)
    }
    known = [_as_ranked(part, grid, group, [start[i] // grid.unit for i in group]) for group in groups]
    begin = [ways.index(tuple(at)) if tuple(at) in ways else 0 for ways, at in zip(values, known, strict=True)]
    first = _unmirrored(part, grid, groups[0], values[0])
    dolls = _Dolls([len(v) for v in values], tables, begin, first, limits)
    chosen = dolls.solve()
    if chosen is None:
        return None
    places = [0] * len(part.problem.buffers)
    for group, ways, k in zip(groups, values, chosen, strict=True):
        for i, at in zip(group, ways[k], strict=True):
            places[i] = at
    return dolls.least[0], places


class _Dolls:
    """Groups by their numbers of values and what each two of them pay; `least[g]`: what those from g on pay."""

    def __init__(
        self,
        counts: list[int],
        tables: dict[tuple[int, int], Table],
        begin: list[int],
        first: Sequence[bool],
        limits: Limits,
    ) -> None:
        self.counts, self.tables, self.begin, self.limits = counts, tables, begin, limits
        self.first = np.array(first)
        """Which values of the first group are worth trying once all are there."""
        self.twins = _interchangeable(counts, tables)
        self.least = [0] * (len(counts) + 1)
        self.nodes = 0
        self.best: list[int] = []
        self.cost = 0

    def solve(self) -> list[int] | None:
        """Values of all groups; None if it was not done."""
        for first in reversed(range(len(self.counts))):
            start = [np.zeros(count, np.int64) for count in self.counts]
            self.best = self.begin[first:]
            pairs = combinations(range(first, len(self.counts)), 2)
            self.cost = int(sum(self.tables[a, b][self.begin[a], self.begin[b]] for a, b in pairs))
            if not self.go_on(first, start, 0, []):
                return None
            if self.cost >= NEVER:
                return None  # nothing fits: who asked knows a placement, or asks elsewhere
            self.least[first] = self.cost
        return self.best

    def go_on(self, group: int, paid: list[Table], cost: int, chosen: list[int]) -> bool:
        """Choose a value of a group and of those after it; False if it was ended."""
        if group == len(self.counts):
            self.cost, self.best = cost, chosen
            return True
        self.nodes += 1
        if self.nodes > NODES or (self.nodes % 1000 == 0 and self.limits.left_seconds <= 0):
            return False
        if cost + self._least_in_pairs(group, paid) >= self.cost:
            return True
        later = range(group + 1, len(self.counts))
        bound = paid[group] + (cost + self.least[group + 1])
        for k in later:
            bound = bound + (paid[k] + self.tables[group, k]).min(axis=1)
        worth = bound < self.cost
        if len(chosen) == group:  # all are there
            worth &= self.first if group == 0 else True
            worth[: max((chosen[twin] for twin in self.twins[group]), default=0)] = False
        values = np.flatnonzero(worth)
        for value in values[np.argsort(bound[values], kind="stable")]:
            if bound[value] >= self.cost:
                break
            rest = list(paid)
            for k in later:
                rest[k] = paid[k] + self.tables[group, k][value]
            if not self.go_on(group + 1, rest, cost + int(paid[group][value]), [*chosen, int(value)]):
                return False
        return True

    def _least_in_pairs(self, group: int, paid: list[Table]) -> int:
        """What the groups from one on pay at least: those put together in twos to the other of their two, too."""
        alone = {k: int(paid[k].min()) for k in range(group, len(self.counts))}
        gains: list[tuple[int, int, int]] = []
        for a, b in combinations(alone, 2):
            if self.counts[a] * self.counts[b] <= MOST_PAIRS:
                both = int((paid[a][:, None] + paid[b] + self.tables[a, b]).min())
                gains.append((both - alone[a] - alone[b], a, b))
        least = sum(alone.values())
        for gain, a, b in sorted(gains, reverse=True):
            if gain > 0 and a in alone and b in alone:
                least += gain
                del alone[a], alone[b]
        return least


def _interchangeable(counts: Sequence[int], tables: Mapping[tuple[int, int], Table]) -> list[list[int]]:
    """Per group those before it whose value need not be above its own: they can change places, alone or while two after
    the earlier one do, and every table stays as it is."""
    known: dict[tuple[tuple[int, ...], bytes], int] = {}

    def number(table: Table) -> int:
        return known.setdefault((table.shape, sha256(np.ascontiguousarray(table).tobytes()).digest()), len(known))

    same = {pair: number(table) for pair, table in tables.items()}
    same |= {(b, a): number(table.T) for (a, b), table in tables.items()}

    def holds(*swaps: tuple[int, int]) -> bool:
        image = list(range(len(counts)))
        for a, b in swaps:
            image[a], image[b] = b, a
        return all(number == same[image[a], image[b]] for (a, b), number in same.items())

    return [
        [
            a for a in range(b)
            if counts[a] == counts[b] and (holds((a, b)) or any(
                holds((a, b), more) for more in combinations(range(a + 1, len(counts)), 2)
                if b not in more and counts[more[0]] == counts[more[1]]
            ))
        ] for b in range(len(counts))
    ]  # fmt: skip


def _groups(part: Part, grid: Grid) -> list[tuple[tuple[int, ...], list[Way]]]:
    """Buffers that never share pairwise, those with the most such others first, and all ways to place them."""
    count = len(part.problem.buffers)
    near: list[set[int]] = [set() for _ in range(count)]
    for i, j in part.hard:
        near[i].add(j)
        near[j].add(i)
    left = sorted(range(count), key=lambda i: (-len(near[i]), i))
    groups: list[tuple[tuple[int, ...], list[Way]]] = []
    while left:
        group: list[int] = []
        ways: list[Way] = [()]
        for i in left:
            if all(i in near[j] for j in group):
                twins = [k for k, j in enumerate(group) if _alike(part, grid, i, j)]
                longer = _longer(grid, group, ways, i, twins)
                if longer is not None:
                    ways = longer
                    group.append(i)
        groups.append((tuple(group), ways))
        left = [i for i in left if i not in group]
    return groups


def _alike(part: Part, grid: Grid, i: int, j: int) -> bool:
    """Whether two buffers can change places: nothing tells them apart."""
    if (grid.sizes[i], grid.starts[i]) != (grid.sizes[j], grid.starts[j]):
        return False
    others = (k for k in range(len(grid.sizes)) if k not in (i, j))
    return all(_price(part, i, k) == _price(part, j, k) for k in others)


def _price(part: Part, i: int, j: int) -> int:
    """Of two buffers that share bytes."""
    key = part.key(i, j)
    return NEVER if key in part.hard else part.costs.get(key, 0)


def _as_ranked(part: Part, grid: Grid, group: Sequence[int], places: list[int]) -> list[int]:
    """Places of a group with those of twins in ascending order."""
    for k, i in enumerate(group):
        alike = [k, *(x for x in range(k + 1, len(group)) if _alike(part, grid, i, group[x]))]
        for x, place in zip(alike, sorted(places[x] for x in alike), strict=True):
            places[x] = place
    return places


def _unmirrored(part: Part, grid: Grid, group: Sequence[int], ways: Sequence[Way]) -> list[bool]:
    """Of each two ways that are mirror images, the first; of all, where the capacity turned over is another problem."""
    ends = [
        [grid.cells - size - at for at in reversed(places)]
        for size, places in zip(grid.sizes, grid.starts, strict=True)
    ]
    if ends != grid.starts:
        return [True] * len(ways)
    place = {way: k for k, way in enumerate(ways)}
    images = ([grid.cells - grid.sizes[i] - at for i, at in zip(group, way, strict=True)] for way in ways)
    return [k <= place[tuple(_as_ranked(part, grid, group, image))] for k, image in enumerate(images)]


def _longer(grid: Grid, group: list[int], ways: list[Way], i: int, twins: Sequence[int]) -> list[Way] | None:
    """Ways to place a group with one more, above its twins in it; None if they are too many for a group that has some
    already."""
    result: list[Way] = []
    for way in ways:
        above = max((way[k] for k in twins), default=-1)
        for at in grid.starts[i]:
            if at <= above:
                continue
            if all(at + grid.sizes[i] <= b or b + grid.sizes[j] <= at for j, b in zip(group, way, strict=True)):
                result.append((*way, at))
        if group and len(result) > MOST_VALUES:
            return None
    return result


def _table(
    part: Part, grid: Grid, a: tuple[tuple[int, ...], list[Way]], b: tuple[tuple[int, ...], list[Way]],
) -> Table:  # fmt: skip
    """What each way of one group pays to each of another."""
    (first, ways), (second, others) = a, b
    left, right = np.array(ways, np.int64), np.array(others, np.int64)
    table = np.zeros((len(ways), len(others)), np.int64)
    for x, i in enumerate(first):
        for y, j in enumerate(second):
            cost = _price(part, i, j)
            if cost:
                low, at = left[:, x][:, None], right[:, y][None, :]
                table += cost * ((low < at + grid.sizes[j]) & (at < low + grid.sizes[i]))
    return table
