"""TFLite's linear arena with eviction: what is placed, step by step, and who has to leave for it.

`SimpleMemoryArena::Allocate` (tensorflow/lite/simple_memory_arena.cc) looks at the gaps between what is there, takes
the smallest that is large enough, and the room above everything only if there is none. It knows nothing of the
future. Where nothing fits, a policy says who leaves (Belady: whose next use is furthest; greedy: the set of least
traffic that leaves room without gaps)::

    bytes ^  |  A  |  needs 3: no gap is large enough. Belady drops the one that is used last until there is a gap;
          |  |  .  |  greedy looks at every stretch of 3 bytes, and takes the one whose residents cost least.
          |  |  B  |
          |  |  .  |  What the running op itself needs stays, unless nothing else helps: then the cheapest of it is
          |  |  C  |  moved through the next level ("repacked", COSMA, section II), each storage once, and if that
          +--+-----+  does not help either all of it is put to the bottom of the arena.

Graph inputs come when they are first used; a storage that is needed no more leaves at once, outputs too, once written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from lowtide.spill.answer import Interval, SpillAnswer
from lowtide.spill.problem import SpillProblem, timeline
from lowtide.spill.traffic import moves_of, traffic_of

WORKSPACE = -1  # the running op's workspace among storages


class Arena:
    """Who is where: storage to (offset, size). No two overlap.

    Residents are kept by address, and the gaps below them by room, so that a placement takes no pass over all.
    """

    def __init__(self, capacity: int, placed: Mapping[int, tuple[int, int]] | None = None) -> None:
        self.capacity = capacity
        self._placed: dict[int, tuple[int, int]] = {}
        self._lows: list[int] = []
        self._highs: list[int] = []
        self._who: list[int] = []
        self._gaps: list[tuple[int, int]] = []  # room and low end, of those between residents and below the first
        for s, (low, size) in (placed or {}).items():
            self.put(s, low, size)

    @property
    def placed(self) -> Mapping[int, tuple[int, int]]:
        """Offset and size of each resident, in the order in which they came."""
        return self._placed

    def put(self, s: int, low: int, size: int) -> None:
        """Place a storage in a gap, or above all."""
        k = bisect_left(self._lows, low)
        below = self._highs[k - 1] if k else 0
        if k < len(self._lows):
            self._drop_gap(below, self._lows[k])
            self._add_gap(low + size, self._lows[k])
        self._add_gap(below, low)
        self._lows.insert(k, low)
        self._highs.insert(k, low + size)
        self._who.insert(k, s)
        self._placed[s] = (low, size)

    def take(self, s: int) -> tuple[int, int]:
        """Take a storage out; where it was, and its size."""
        low, size = self._placed.pop(s)
        k = bisect_left(self._lows, low)
        below = self._highs[k - 1] if k else 0
        self._drop_gap(below, low)
        if k + 1 < len(self._lows):
            self._drop_gap(low + size, self._lows[k + 1])
            self._add_gap(below, self._lows[k + 1])
        del self._lows[k], self._highs[k], self._who[k]
        return low, size

    def _add_gap(self, low: int, high: int) -> None:
        if high > low:
            insort(self._gaps, (high - low, low))

    def _drop_gap(self, low: int, high: int) -> None:
        if high > low:
            del self._gaps[bisect_left(self._gaps, (high - low, low))]

    def best_fit(self, size: int) -> int | None:
        """Low end of the smallest gap between residents that is large enough, else above all of them."""
        k = bisect_left(self._gaps, (size, 0))
        if k < len(self._gaps):
            return self._gaps[k][1]
        top = self._highs[-1] if self._highs else 0
        return top if top + size <= self.capacity else None

    def stretches(self, size: int) -> list[tuple[int, range]]:
        """Every stretch of `size` bytes that begins or ends at a resident or at an end of the arena, ascending, with
        those in it, as places in `residents`."""
        starts = {0, self.capacity - size, *self._highs, *(low - size for low in self._lows)}
        return [
            (start, range(bisect_right(self._highs, start), bisect_left(self._lows, start + size)))
            for start in sorted(starts)
            if 0 <= start <= self.capacity - size
        ]

    @property
    def residents(self) -> Sequence[int]:
        """Storages by address."""
        return self._who


Leaving = Callable[["Run", int, frozenset[int]], int]
"""Given the run, the bytes that are needed and who stays: who leaves. Called until there is room."""


@dataclass
class Run:
    """One pass over an order. `over`: whether to give it up."""

    problem: SpillProblem
    order: Sequence[int]
    touches: tuple[tuple[int, ...], ...]
    arena: Arena
    copied: list[bool]
    over: Callable[[], bool] = lambda: False
    step: int = 0
    since: dict[int, int] = field(default_factory=dict)
    intervals: list[Interval] = field(default_factory=list)
    evictions: int = 0
    repacked: int = 0

    def next_use(self, s: int) -> int:
        """Step at which a storage is needed next, this step or later; past the end if never."""
        return next((t for t in self.touches[s] if t >= self.step), len(self.order) + 1)

    def new(self, s: int) -> bool:
        """Whether a resident came for the step at hand, so that placing it elsewhere moves nothing."""
        return self.since.get(s, self.step) == self.step

    def cost(self, s: int) -> int:
        """Bytes that it takes to let a storage go now: the write, if there is no copy, and the read."""
        size = self.problem.traffic_bytes[s]
        needed = self.next_use(s) <= len(self.order)
        return (0 if self.copied[s] else size) + (size if needed else 0)

    def leave(self, s: int, end: int) -> None:
        """Take a storage out; it was there until `end`."""
        low, _ = self.arena.take(s)
        if s != WORKSPACE:
            self.intervals.append(Interval(s, self.since.pop(s), end, low))

    def evict(self, s: int) -> None:
        """Take a storage out that may be needed later."""
        self.evictions += 1
        if self.problem.semantics.write_once:
            self.copied[s] = True
        self.leave(s, self.step)


def furthest(run: Run, size: int, stay: frozenset[int]) -> int:
    """Belady's choice: whose next use is furthest; of equals the largest, then the first."""
    free = [s for s in run.arena.placed if s not in stay]
    return max(free, key=lambda s: (run.next_use(s), run.arena.placed[s][1], -s))


def cheapest(run: Run, size: int, stay: frozenset[int]) -> int:
    """The greedy choice: a member of the set of least traffic that makes contiguous room. Of equally cheap sets the
    one of fewer bytes, then the lowest. Once its first member has left, the rest is what remains of the same set or
    a cheaper one."""
    who = run.arena.residents
    best = _least(run, run.arena.stretches(size), stay, [run.cost(s) for s in who], by_bytes=True)
    assert best is not None, "there is such a stretch, or nobody is asked"
    return who[best[1][0]]


def _least(
    run: Run, stretches: Sequence[tuple[int, range]], without: Collection[int], costs: Sequence[int], *, by_bytes: bool
) -> tuple[int, range] | None:
    """Of the stretches that hold none of `without` the one that costs least, then perhaps the one of fewest bytes,
    then the lowest; none if there is no such. `costs` goes by address, as the residents do."""
    arena = run.arena
    barred = [0, *accumulate(s in without for s in arena.residents)]
    cost = [0, *accumulate(costs)]
    held = [0, *accumulate(arena.placed[s][1] if by_bytes else 0 for s in arena.residents)]
    best: tuple[int, int, int, range] | None = None
    for start, inside in stretches:
        i, j = inside.start, inside.stop
        if barred[j] == barred[i]:
            key = (cost[j] - cost[i], held[j] - held[i], start, inside)
            best = key if best is None or key[:3] < best[:3] else best
    return None if best is None else best[2:]


class _GivenUpError(Exception):
    """Time is over."""


def simulate_arena(problem: SpillProblem, order: Sequence[int], leaving: Leaving) -> SpillAnswer:
    """Run an order on the arena. Nothing is written in place; every op's storages must fit together."""
    return _simulate(problem, order, leaving, lambda: False)


def simulate_arena_until(
    over: Callable[[], bool], problem: SpillProblem, order: Sequence[int], leaving: Leaving
) -> SpillAnswer | None:
    """As `simulate_arena`; none if it is `over` before the end."""
    try:
        return _simulate(problem, order, leaving, over)
    except _GivenUpError:
        return None


def _simulate(problem: SpillProblem, order: Sequence[int], leaving: Leaving, over: Callable[[], bool]) -> SpillAnswer:
    model = problem.model
    line = timeline(problem, order, ())
    run = Run(problem, order, line.touches, Arena(problem.capacity), list(problem.copied), over)
    writes_left = [len(w) for w in problem.writers]
    workspace_offsets: dict[int, int] = {}
    n = len(order)
    for run.step in range(n + 1):
        for s in [s for s in run.arena.placed if run.next_use(s) > n and not _waits_to_be_written(run, s)]:
            run.leave(s, run.step)
        if run.step == n:
            needed = tuple(s for s, touches in enumerate(line.touches) if touches and touches[-1] == n)
        else:
            needed = _in_order_of_naming(problem, order[run.step])
        needed = tuple(s for s in needed if model.storages[s].size)
        workspace = model.workspace[order[run.step]] if run.step < n else 0
        _bring(run, needed, workspace, leaving)
        if workspace:
            workspace_offsets[order[run.step]] = run.arena.take(WORKSPACE)[0]
        for s in needed if run.step < n else ():
            if order[run.step] in problem.writers[s]:
                writes_left[s] -= 1
                run.copied[s] = problem.written_free[s] and not writes_left[s]
    for s in tuple(run.arena.placed):
        run.leave(s, n + (line.touches[s][-1] == n))
    intervals = tuple(sorted(run.intervals))
    moves = moves_of(problem, order, intervals)
    return SpillAnswer(
        tuple(order),
        intervals,
        moves,
        (),
        workspace_offsets,
        traffic_of(moves),
        counters={"evictions": run.evictions, "repacked": run.repacked},
    )


def _waits_to_be_written(run: Run, s: int) -> bool:
    """Whether a graph output is written only after the last step, and has no copy yet."""
    return run.problem.is_output[s] and not run.copied[s] and run.step < len(run.order)


def _in_order_of_naming(problem: SpillProblem, op: int) -> tuple[int, ...]:
    """Storages of an op as it names them, inputs first."""
    model = problem.model
    named = (*model.graph.ops[op].inputs, *model.graph.ops[op].outputs)
    return tuple(dict.fromkeys(model.storage_of[t] for t in named if t in model.storage_of))


def _bring(run: Run, needed: tuple[int, ...], workspace: int, leaving: Leaving) -> None:
    """Put what an op needs in the arena."""
    sizes = {s: run.problem.model.storages[s].size for s in needed}
    if workspace:
        sizes[WORKSPACE] = workspace
    stay = frozenset(sizes)
    waiting = [s for s in sizes if s not in run.arena.placed]
    moved: set[int] = set()
    while waiting:
        s = waiting.pop(0)
        size = sizes[s]
        _ask_the_clock(run)
        while (low := run.arena.best_fit(size)) is None:
            _ask_the_clock(run)
            who = run.arena.residents
            stretches = run.arena.stretches(size)
            if _least(run, stretches, stay, [0] * len(who), by_bytes=False) is not None:
                run.evict(leaving(run, size, stay))
                continue
            asked = _repack(run, size, stay, moved)
            if not asked:
                _to_the_bottom(run, sizes, stay)
                return
            moved |= asked
            waiting += asked
        run.arena.put(s, low, size)
        if s != WORKSPACE:
            run.since.setdefault(s, run.step)


def _ask_the_clock(run: Run) -> None:
    if run.over():
        raise _GivenUpError


def _repack(run: Run, size: int, stay: frozenset[int], moved: set[int]) -> set[int]:
    """Clear the stretch whose residents cost least, the op's own among them, none of those in `moved`; who of the
    op's own has to be placed anew."""
    who = run.arena.residents
    costs = [0 if run.new(s) else run.cost(s) for s in who]
    best = _least(run, run.arena.stretches(size), moved, costs, by_bytes=False)
    cleared = [] if best is None else [who[k] for k in best[1]]
    for s in cleared:
        _move_out(run, s) if s in stay else run.evict(s)
    return {s for s in cleared if s in stay}


def _move_out(run: Run, s: int) -> None:
    """Take out a storage that the running op needs; it comes back at once. One that was there before left after its
    last use."""
    if run.new(s):
        run.arena.take(s)
        run.since.pop(s, None)
        return
    run.repacked += 1
    if run.problem.semantics.write_once:
        run.copied[s] = True
    since = run.since[s]
    run.leave(s, max([since + 1, *(t + 1 for t in run.touches[s] if since <= t < run.step)]))


def _to_the_bottom(run: Run, sizes: dict[int, int], stay: frozenset[int]) -> None:
    """Place all of the op's storages anew, one above the other; those that were there before are moved."""
    for s in sorted(stay & set(run.arena.placed)):
        _move_out(run, s)
    low = 0
    for s, size in sizes.items():
        for other in [o for o, (at, high) in run.arena.placed.items() if at < low + size and at + high > low]:
            run.evict(other)
        run.arena.put(s, low, size)
        if s != WORKSPACE:
            run.since[s] = run.step
        low += size


def why_not_apart(problem: SpillProblem) -> str | None:
    """None if every op, and the end, fits the fast memory without writing in place, else why the arena cannot do it."""
    model = problem.model
    if problem.semantics.lead:
        return "it places step by step, and a move takes no step; leave out moves.lead"
    for i, touched in enumerate(model.touched):
        need = sum(model.storages[s].size for s in touched) + model.workspace[i]
        if need > problem.capacity:
            return f"{model.graph.ops[i].label} needs {need:,} bytes where nothing is written in place"
    if problem.end_bytes > problem.capacity:
        return f"the graph outputs need {problem.end_bytes:,} bytes at the end"
    return None
