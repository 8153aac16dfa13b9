"""Why is this my peak: who is live at the highest steps of an order, who keeps them alive, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel
from lowtide.names import brief
from lowtide.plan import ArenaLost, RuntimeFigure

MOST_CUT_OPS = 20_000  # above this many ops what cuts could give is not worked out


@dataclass(frozen=True, slots=True)
class OpName:
    """An op, for people: id, name, type."""

    op: int
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Live:
    """A storage that is live at a step."""

    # tensor, name, shape, dtype: its root tensor; shape and element type where the model says them.
    tensor: int
    name: str
    shape: tuple[int, ...] | None
    dtype: str | None
    shares: tuple[str, ...]  # names of the other tensors that lie in it
    size_bytes: int  # its size
    counted_bytes: int  # what it adds to the footprint: 0 if it is written over another one that dies at this step
    percent: float  # `counted_bytes` in percent of the footprint
    # The op that begins it; None for a graph input (and for constants, where the target counts those).
    made_by: OpName | None
    kept_by: tuple[OpName, ...]  # the ops still to come that use it, in the order in which they run
    in_use: bool  # whether this step's op reads or makes it
    graph_output: bool  # whether it stays to the end
    over: str | None  # name of the tensor that this step's op writes it over
    # peak_if_halved_bytes, peak_if_gone_bytes: the order's peak if this storage had half the bytes, or none, and
    # everything else were as it is.
    peak_if_halved_bytes: int
    peak_if_gone_bytes: int


@dataclass(frozen=True, slots=True)
class StepDetail:
    """A step: its op, its footprint in bytes, and what is live there, the largest first."""

    step: int
    op: OpName
    footprint_bytes: int
    workspace_bytes: int
    live: tuple[Live, ...]


@dataclass(frozen=True, slots=True)
class StepSummary:
    """A step: its op and its footprint in bytes."""

    step: int
    op: OpName
    footprint_bytes: int


@dataclass(frozen=True, slots=True)
class Fission:
    """What cutting ops into parts could give at most, and where it must end."""

    # No cut along one axis an op goes below this without running anything twice (`lowtide.ops.working_set`).
    floor_bytes: int
    floor_op: OpName | None  # the op whose smallest part needs as much; None: the graph's inputs or outputs do
    # Ops at the steps of the file order's peak of which nothing is known, each with the reason: no cut passes them.
    opaque: tuple[tuple[OpName, str], ...]


@dataclass(frozen=True, slots=True)
class Rung:
    """A size of memory in which the model fits."""

    bytes: int  # live at once at the most; of the last kind, the fast memory
    how: str  # ``"file order"``, ``"best order"``, ``"cuts"``, or ``"cuts and slow memory"``
    ops: int  # how many run
    # With what the runtime keeps for this many ops in addition to the tensors: about what a plan's arena takes in all,
    # which a budget is for. None where the runtime keeps nothing, and with a slow memory.
    arena_bytes: int | None = None
    # Of the last kind, about what is moved to and from a slow memory in addition to the model's inputs and outputs.
    traffic_bytes: int | None = None
    target: str | None = None  # of the last kind, under which target


@dataclass(frozen=True, repr=False)
class Inspection:
    """An unmodified model. Sizes are bytes."""

    # graph, target, ops: name of the model, name of the target, number of ops.
    graph: str
    target: str
    ops: int
    own_order_peak_bytes: int  # peak of the file order
    # peak_bytes, lower_bound_bytes, optimal: best peak known, what no order beats, and whether they are equal.
    peak_bytes: int
    lower_bound_bytes: int
    optimal: bool
    # arena_bytes, arena_lower_bound_bytes: arena of the best order known (TFLM's head, under tflm), and what no arena
    # of that order beats.
    arena_bytes: int
    arena_lower_bound_bytes: int
    arena_lost: ArenaLost | None  # where that arena loses bytes, as in `Plan.search`; None if it loses none
    stopped: str  # why the search for them ended
    steps_at_peak: int  # how many steps of the file order reach its peak
    peak: StepDetail | None  # the first of them; None for a graph without ops
    # The highest other steps, one of each hill (a step with no higher neighbour), the highest first.
    runners_up: tuple[StepSummary, ...]
    footprint_bytes: tuple[int, ...]  # per step of the file order
    # What cuts could give at most; None where ops have no known meaning, where the target does not count graph inputs,
    # and above `MOST_CUT_OPS` ops.
    fission: Fission | None
    # What the runtime takes by its defaults, and for the best order known; None where no runtime is known.
    runtime_figures: list[RuntimeFigure] | None
    # Sizes of memory in which the model fits, and how, the largest first: what was found in the time for it; empty
    # where nothing was looked for.
    ladder: list[Rung]
    ladder_seconds: float  # how long was looked for cuts and slow memories
    ladder_complete: bool  # whether the look ended before its time was over
    seconds: float  # wall time of it all
    bodies: str = ""  # what the subgraphs that ops run take of it, in words; empty if there are none

    def __repr__(self) -> str:
        return brief(
            self,
            "graph target ops own_order_peak_bytes peak_bytes lower_bound_bytes optimal arena_bytes stopped",
        )


def detail(model: MemoryModel, order: Sequence[int], steps: Profile, step: int) -> StepDetail:
    """Who is live at a step of an order (positions in file order), and what each is worth. A tensor that shrinks is
    counted less wherever it is live; what an op saves by writing over it, or by writing it over another, is then no
    more than what is left of it."""
    op_at = order[step]
    written = next((o for o in steps.in_place if o.op == op_at), None)
    output_storage = None if written is None else model.storage_of[written.output]
    footprint = steps.footprint[step]
    highest = _Hills(steps.footprint)
    step_of = {i: k for k, i in enumerate(order)}
    live: list[Live] = []
    for s, storage in enumerate(model.storages):
        if not (steps.first[s] <= step <= steps.last[s]) or storage.size == 0:
            continue
        over = written if s == output_storage else None
        counted = storage.size - (over.saving if over else 0)
        root = model.graph.tensor_by_id[storage.tensors[0]]
        live.append(
            Live(
                tensor=root.id,
                name=root.label,
                shape=root.shape,
                dtype=root.dtype,
                shares=tuple(model.graph.tensor_by_id[t].label for t in storage.tensors[1:]),
                size_bytes=storage.size,
                counted_bytes=counted,
                percent=round(100 * counted / footprint, 1) if footprint else 0.0,
                made_by=None if storage.at_start else _name(model, min(storage.users, key=step_of.__getitem__)),
                kept_by=tuple(
                    _name(model, i) for i in sorted(storage.users, key=step_of.__getitem__) if step_of[i] > step
                ),
                in_use=op_at in storage.users,
                graph_output=storage.at_end,
                over=model.graph.tensor_by_id[over.input].label if over else None,
                peak_if_halved_bytes=_peak_if(model, steps, highest, step_of, s, storage.size // 2),
                peak_if_gone_bytes=_peak_if(model, steps, highest, step_of, s, 0),
            )
        )
    live.sort(key=lambda entry: (-entry.counted_bytes, -entry.size_bytes, entry.tensor))
    return StepDetail(step, _name(model, op_at), footprint, model.workspace[op_at], tuple(live))


def runners_up(model: MemoryModel, order: Sequence[int], steps: Profile, most: int = 3) -> tuple[StepSummary, ...]:
    """The highest steps after the first at the peak: one per hill, so that neighbours do not crowd the list."""
    heights = steps.footprint
    peak_step = steps.peak_step if heights else 0
    hills = []
    k = 0
    while k < len(heights):
        end = k
        while end + 1 < len(heights) and heights[end + 1] == heights[k]:
            end += 1
        rises = k == 0 or heights[k - 1] < heights[k]
        falls = end + 1 == len(heights) or heights[end + 1] < heights[k]
        if rises and falls and not k <= peak_step <= end:
            hills.append(k)
        k = end + 1
    hills.sort(key=lambda i: (-heights[i], i))
    return tuple(StepSummary(i, _name(model, order[i]), heights[i]) for i in hills[:most])


def fission(model: MemoryModel, steps: Profile) -> Fission | None:
    """What cuts could give at most (`Inspection.fission`); `steps` are those of the file order."""
    from lowtide.ops.working_set import working_set_bound

    graph, target = model.graph, model.target
    if not graph.dialect or not target.count_inputs or len(graph.ops) > MOST_CUT_OPS:
        return None
    bound = working_set_bound(
        graph, overlap=target.in_place != "never" or target.overlap != "never" or bool(target.rule)
    )
    reasons = {entry.op: entry.opaque for entry in bound.ops if entry.opaque is not None}
    at_peak = [i for i, height in enumerate(steps.footprint) if height == steps.peak]
    opaque = tuple((_name(model, i), reasons[graph.ops[i].id]) for i in at_peak if graph.ops[i].id in reasons)
    op = None if bound.op is None else _name(model, graph.index_of[bound.op])
    return Fission(bound.size, op, opaque)


def own_profile(model: MemoryModel) -> Profile:
    """Profile of the model's own order."""
    return profile(model, range(len(model.graph.ops)))


class _Hills:
    """The largest of some heights before, after and within a stretch of steps."""

    def __init__(self, heights: Sequence[int]) -> None:
        self._heights = heights
        self._before = [0]
        for height in heights:
            self._before.append(max(self._before[-1], height))
        self._after = [0]
        for height in reversed(heights):
            self._after.append(max(self._after[-1], height))
        self._after.reverse()

    def outside(self, first: int, last: int) -> int:
        """Over all steps but `first` to `last`."""
        return max(self._before[first], self._after[last + 1])

    def within(self, first: int, last: int, without: set[int]) -> int:
        """Over the steps `first` to `last` but those in `without`; less than 0 if none is left."""
        most = -1
        for stop in (*sorted(without), last + 1):
            if first <= stop:
                most = max(most, max(self._heights[first:stop], default=-1))
                first = stop + 1
        return most


def _peak_if(
    model: MemoryModel, steps: Profile, hills: _Hills, step_of: dict[int, int], storage: int, size: int
) -> int:
    """Peak if a storage had only `size` bytes, with the same lifetimes and in-place choices."""
    count = len(steps.footprint)
    first, last = max(steps.first[storage], 0), min(steps.last[storage], count - 1)
    less = model.storages[storage].size - size
    peak = hills.outside(first, last)
    shared: set[int] = set()
    for o in steps.in_place:
        if storage in (o.storage, model.storage_of[o.output]):
            k = step_of[o.op]
            shared.add(k)
            peak = max(peak, steps.footprint[k] - less + o.saving - min(o.saving, size))
    rest = hills.within(first, last, shared)
    return max(peak, rest - less) if rest >= 0 else peak


def _name(model: MemoryModel, position: int) -> OpName:
    op = model.graph.ops[position]
    return OpName(op.id, op.name, op.type)
