"""A training step as a chain: forward blocks between places that a single value crosses, each with its backward ops.

::

    |--- block 0 ---| a0 |--- block 1 ---| a1 |--- block 2 ---|      a: all that later blocks read of the earlier ones
                                                               turn
    |--- back 0 ----| .. |--- back 1 ----| .. |--- back 2 ----|      back 1: reads a0, and what block 1 made

A block ends where a single value is live, so a skip connection is inside of a block. A backward op belongs to the
earliest block whose values it reads, directly or through other backward ops. Blocks that one such op reads together are
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import accumulate

from lowtide.optimize.recompute.sequence import Sequenced

LEAST = 3  # blocks of a chain: the first op of any graph with one source is a block, and all else another


@dataclass(frozen=True)
class Block:
    """Positions of a block's ops, and of its part of the way back; what later blocks read of it (-1: nothing), and what
    its part of the way back reads of it."""

    there: tuple[int, ...]
    back: tuple[int, ...]
    boundary: int
    saved: frozenset[int]


@dataclass(frozen=True)
class Chain:
    """A step in blocks."""

    problem: Sequenced
    blocks: tuple[Block, ...]  # in order
    # Values of the way there that stay from when they are made: outputs, and what ops make that run once.
    held: frozenset[int]

    def needed(self, k: int, wanted: Iterable[int], *, first: bool) -> list[int]:
        """Ops of a block that make values of it, in order; after its `first` run what is held is there."""
        ops, values, need, runs = self.problem.ops, self.problem.values, set(wanted), []
        for i in reversed(self.blocks[k].there):
            if any(x in need and (first or x not in self.held) for x in ops[i].makes if values[x].maker == i):
                runs.append(i)
                need.update(ops[i].reads)
        return runs[::-1]

    def to_pass(self, k: int, *, first: bool = False) -> list[int]:
        """Ops that make what later blocks read, at `first` what is held, too."""
        block = self.blocks[k]
        held = {x for i in block.there for x in self.problem.ops[i].makes if x in self.held} if first else set()
        return self.needed(k, {block.boundary} | held, first=first)

    def to_save(self, k: int) -> list[int]:
        """Ops that make what later blocks read, and the way back; held values are there."""
        return self.needed(k, self.blocks[k].saved | {self.blocks[k].boundary}, first=False)


def chain_of(problem: Sequenced, order: Sequence[int], most: int) -> Chain | str:
    """The step as a chain of blocks, as short as there are, but at most `most`; or why it is none."""
    turn = _turn(problem, order)
    there, back = list(order[:turn]), list(order[turn:])
    held = _held(problem, there)
    cuts, reader = _merged_cuts(problem, there, back, _cuts(problem, there, held), held)
    while len(cuts) > most:
        weights = [sum(problem.costs.units[i] for i in there[a:b]) for a, b in _spans(cuts)]
        cuts.pop(min(range(len(cuts) - 1), key=lambda k: weights[k] + weights[k + 1]))
    if len(cuts) < LEAST:
        return _why(problem, there, reader)
    return _chain(problem, there, back, cuts, held)


def best_chain(problem: Sequenced, order: Sequence[int], most: int) -> Chain | str:
    """That of an order, or of the graph's own where that has more blocks."""
    chain, own = chain_of(problem, order, most), chain_of(problem, range(len(order)), most)
    if isinstance(chain, str):
        return own
    return own if isinstance(own, Chain) and len(own.blocks) > len(chain.blocks) else chain


def _held(problem: Sequenced, ops: Sequence[int]) -> frozenset[int]:
    """What stays once it is made."""
    return frozenset(x for i in ops for x in problem.ops[i].makes if problem.ops[i].once or problem.values[x].kept)


def _turn(problem: Sequenced, order: Sequence[int]) -> int:
    """The step before which the most blocks end, of equal ones the last: a graph says nowhere where its loss is.

    Of what is made before step k and read after it, all but one value must be read after the turn: k ends a block for
    turns up to the second of their next reads.
    """
    reads: dict[int, list[int]] = {}
    for step in range(len(order) - 1, -1, -1):
        for x in problem.ops[order[step]].reads:
            reads.setdefault(x, []).append(step)
    open_now, ends, held = set[int](), [0] * (len(order) + 2), _held(problem, order)
    for step, i in enumerate(order):
        for x in problem.ops[i].reads:
            reads[x].pop()
        open_now.update(x for x in problem.ops[i].makes if x not in held)
        open_now = {x for x in open_now if reads.get(x)}
        second = [*nsmallest(2, (reads[x][-1] for x in open_now)), len(order), len(order)][1]
        ends[step + 2] += 1
        ends[second + 1] -= 1
    count = list(accumulate(ends))
    return max(range(1, len(order) + 1), key=lambda turn: (count[turn], turn), default=0)


def _last_reads(problem: Sequenced, there: Sequence[int]) -> dict[int, int]:
    """Value to the last step of the way there that reads it."""
    last: dict[int, int] = {}
    for step, i in enumerate(there):
        last.update(dict.fromkeys(problem.ops[i].reads, step))
    return last


def _cuts(problem: Sequenced, there: Sequence[int], held: frozenset[int]) -> list[int]:
    """Steps after which a block ends: at most one value is read further on. The last is the turn."""
    last, open_now, cuts = _last_reads(problem, there), set[int](), []
    for step, i in enumerate(there):
        open_now.update(x for x in problem.ops[i].makes if x not in held)
        open_now = {x for x in open_now if last.get(x, -1) > step}
        if len(open_now) <= 1 and step + 1 < len(there):
            cuts.append(step + 1)
    return [*cuts, len(there)]


def _spans(cuts: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip([0, *cuts[:-1]], cuts, strict=True))


@dataclass(frozen=True)
class _Marks:
    """Of values of the way there: the first block whose part of the way back may read it, and the last one."""

    earliest: dict[int, int]
    latest: dict[int, int]


def _marks(problem: Sequenced, there: Sequence[int], cuts: Sequence[int], held: frozenset[int]) -> _Marks:
    last, earliest, latest = _last_reads(problem, there), {}, {}
    for k, (a, b) in enumerate(_spans(cuts)):
        for i in there[a:b]:
            for x in problem.ops[i].makes:
                if x not in held:
                    earliest[x], latest[x] = k, min(k + (last.get(x, -1) >= b), len(cuts) - 1)
    return _Marks(earliest, latest)


def _levels(problem: Sequenced, back: Sequence[int], marks: _Marks, blocks: int) -> dict[int, int]:
    """Op of the way back to its block."""
    before, values, level = problem.model.graph.predecessors, problem.values, dict[int, int]()
    for i in back:
        from_back = [level[u] for u in before[i] if u in level]
        from_back += [level[values[x].maker] for x in problem.ops[i].reads if values[x].maker in level]
        level[i] = min([blocks - 1, *from_back, *(marks.latest[x] for x in problem.ops[i].reads if x in marks.latest)])
    return level


def _merged_cuts(
    problem: Sequenced, there: Sequence[int], back: Sequence[int], cuts: list[int], held: frozenset[int]
) -> tuple[list[int], int]:
    """The cuts without those between blocks that one backward op reads, and the last such op; -1: none."""
    reader = -1
    while True:
        marks = _marks(problem, there, cuts, held)
        gone: set[int] = set()
        for i, level in _levels(problem, back, marks, len(cuts)).items():
            for x in problem.ops[i].reads:
                between = range(level, marks.earliest.get(x, 0))
                gone.update(between)
                reader = i if between else reader
        if not gone:
            return cuts, reader
        cuts = [cut for k, cut in enumerate(cuts) if k not in gone]


def _chain(
    problem: Sequenced, there: Sequence[int], back: Sequence[int], cuts: list[int], held: frozenset[int]
) -> Chain:
    marks, last = _marks(problem, there, cuts, held), _last_reads(problem, there)
    level = _levels(problem, back, marks, len(cuts))
    saved: list[set[int]] = [set() for _ in cuts]
    for i in back:
        for x in problem.ops[i].reads:
            if x in marks.earliest and marks.earliest[x] == level[i]:
                saved[level[i]].add(x)
    blocks = []
    for k, (a, b) in enumerate(_spans(cuts)):
        made = {x for i in there[a:b] for x in problem.ops[i].makes if x not in held}
        boundary = [x for x in made if last.get(x, -1) >= b]
        # The last block's results go right into its part of the way back.
        blocks.append(
            Block(
                tuple(there[a:b]), tuple(i for i in back if level[i] == k), boundary[0] if boundary else -1,
                frozenset(saved[k]),
            )
        )  # fmt: skip
    return Chain(problem, tuple(blocks), held)


def _why(problem: Sequenced, there: Sequence[int], reader: int) -> str:
    """Why a step has hardly a block: the op of the way back that reads all of it together, or what bridges it."""
    graph, last = problem.model.graph, _last_reads(problem, there)
    if reader >= 0:
        values = [problem.values[x] for x in problem.ops[reader].reads]
        makers = [graph.ops[v.maker].label for v in values if v.maker >= 0]
        return f"no chain of blocks: {graph.ops[reader].label} reads together what {makers[0]} and {makers[-1]} make"
    bridges = [(last[x] - step, i, x) for step, i in enumerate(there) for x in problem.ops[i].makes if x in last]
    if not bridges:
        return "no chain of blocks: there is one op alone before what goes back"
    _, i, x = max(bridges)
    return (
        f"no chain of blocks: what {graph.ops[i].label} makes is read beside all else up to "
        f"{graph.ops[there[last[x]]].label}"
    )
