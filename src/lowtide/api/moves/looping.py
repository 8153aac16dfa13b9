"""Plans whose ops run in row loops: for compilers that make loops of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.rewrites import Exactness, LoopMerge, PlanLineBuffer, PlanLoop, PlanSum
from lowtide.search.driver import Move
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.optimize.loops import LoopPath, LoopSearch
    from lowtide.transform.loop_graph import LoopGraph
    from lowtide.transform.loops import Loop, LoopRules

_ONCE, _SEARCH = 0.2, 0.8  # shares of the time after which the order without loops and the search for loops are over

_REGIONS = 0.36  # share of the search's time after which that for regions, with which loops begin, is over

_ALONG = ((0.4, 0.7), (0.85, 1.0))
"""Of each order the share of what then is left until which loops are looked for along it, and until which sets of ops
are made neighbours; if the time was not enough for the first, none is left for another order."""


def loop_moves(job: Job, goal: OneArena, problem: Problem, limits: Limits) -> tuple[Answer, list[Move[Answer]]]:
    """The best order, and the move to loops. Raises `InputError`: the target's runtime has no loops, something asked
    for does not go with them, or no input can be streamed."""
    check_looping(job, goal, problem)
    opening = goal.solve(problem, job.search, limits.until(_ONCE))
    return opening.under(job.allow), [Loops(job, goal, problem, opening)]


@dataclass
class Loops(Move[Answer]):
    """Runs operators in row loops: the best path of loops along the best order and along the file's own, then the best
    order of these loops."""

    job: Job
    goal: OneArena
    problem: Problem
    opening: Answer  # the best plan without loops
    is_terminal: bool = True

    def propose(self, base: Answer, limits: Limits) -> Answer | None:
        """The best plan with loops."""
        from lowtide.transform.loops import LoopRules

        job, goal, problem, opening = self.job, self.goal, self.problem, self.opening
        room = goal.arena_budget(problem) or 0
        with limits.interrupt:
            limits.tell("looking for loops")
        rules = LoopRules(problem.graph, problem.target, exact_bits=job.exact_bits)
        orders = list(dict.fromkeys((opening.order, tuple(range(len(opening.order))))))
        path, searches, interrupted = _best_path(
            rules, problem, orders, room, limits.until(_SEARCH), stream=job.stream_input
        )
        limits.interrupt.seen |= interrupted
        if not path.loops:
            return None
        best = _answer(job, goal, problem, opening, rules, path, limits)
        for other in searches:
            best = _lower_arena(
                best, other, lambda path: _answer(job, goal, problem, opening, rules, path, limits), room
            )
        return best.under(job.allow)


def check_looping(job: Job, goal: OneArena, problem: Problem) -> None:
    """Raise `InputError` if something is asked for that does not go with loops."""
    target = problem.target
    if target.rule or target.allocates_one_by_one:
        raise InputError(
            f"target {target.name} runs the ops of a file one after the other, and loops over no rows; plan for a "
            "compiler that does with --target loops"
        )
    if job.max_ops or goal.spread or job.costs is not None:
        raise InputError(
            "--max-ops, --spread, --cost and --max-overhead are not for --allow row-streaming; leave them out"
        )
    if not job.search.best:
        raise InputError("--allow row-streaming starts from the best order; leave out --method")
    if not problem.graph.dialect:
        fix = "give a model file, or a graph JSON whose `dialect` says whose op types it has"
        raise InputError(
            f"the graph does not say what its operators mean, so that no access is known; {fix}", problem.place
        )


def _best_path(
    rules: LoopRules, problem: Problem, orders: Sequence[Sequence[int]], room: int, limits: Limits, *, stream: bool
) -> tuple[LoopPath, list[LoopSearch], bool]:
    """The path of least peak over the orders, inputs streamed where that is asked for and no worse; the searches
    that found such paths; and whether Ctrl-C ended them."""
    from lowtide.optimize.loop_orders import LoopOrders
    from lowtide.optimize.loop_seeds import region_seeds
    from lowtide.optimize.loops import LoopPath, LoopSearch

    found: list[LoopPath] = []
    searches: list[LoopSearch] = []
    interrupted = False
    seeds = None if stream else region_seeds(rules, problem.memory, orders[0], limits.share(_REGIONS), room)
    if limits.interrupt.seen:
        return LoopPath((), 0, 0, 0, complete=False, least=0), [], True
    if seeds is not None and seeds.order not in orders:
        orders = (seeds.order, *orders)[:2]
    shares = [(limits.share(along), limits.share(until)) for along, until in _ALONG]
    for order, (along, share) in zip(orders, shares, strict=False):
        try:
            handing = _handing(rules, problem, order, along) if stream else None
            held = LoopSearch(rules, problem.memory, order, along)
            if seeds is not None and seeds.order == tuple(order):
                seeds.into(held)
            for search in (handing, held):
                path = None if search is None else search.best(room)
                if path is not None and search is not None:
                    searches.append(search)
                    found.append(path)
                    found.append(LoopOrders(search, path).improve(share if path.complete else limits, room))
        except KeyboardInterrupt:
            interrupted = True
            break
    if not found:
        return LoopPath((), 0, 0, 0, complete=False, least=0), [], interrupted
    best = min(found, key=lambda path: (max(path.peak, room), sum(len(loop.ops) for loop in path.loops)))
    return best, searches, interrupted


def _lower_arena(best: Answer, search: LoopSearch, solve: Callable[[LoopPath], Answer], room: int) -> Answer:
    """The same or a plan of less arena, where the best one's is above its peak: of paths that need less than the arena
    in each step that with the fewest ops in loops, as long as that helps."""
    while not search.limits.over():
        arena, peak = (int(best.keys.get(key, 0)) for key in ("arena_bytes", "peak_bytes"))
        if arena <= max(peak, room):
            break
        path = None
        with search.limits.interrupt:
            path = search.best(arena - 1)
        if path is None or not path.loops or path.peak >= arena:
            break
        other = solve(path)
        if other.keys["required_bytes"] >= best.keys["required_bytes"]:
            break
        best = other
    return best


def _handing(rules: LoopRules, problem: Problem, order: Sequence[int], limits: Limits) -> LoopSearch | None:
    """The search in which inputs are streamed, as many as go together, the largest first; None if the time was up
    before one was found. Raises `InputError`: no input can be; it names some."""
    from lowtide.optimize.loops import LoopSearch

    graph = problem.graph
    inputs = [t for t in graph.tensors if t.kind is Kind.INPUT and t.id in graph.consumers]
    best: LoopSearch | None = None
    complete = True
    for t in sorted(inputs, key=lambda t: (-t.size, t.id)):
        chosen = frozenset((t.id,)) if best is None else best.streamed | {t.id}
        search = LoopSearch(rules, problem.memory, order, limits, chosen)
        complete = complete and search.complete
        if search.possible():
            best = search
    if best is not None or not complete:
        return best
    listed = ", ".join(repr(t.label) for t in inputs[:3]) or "none"
    raise InputError(
        f"--stream-input: no input can be streamed row by row (inputs: {listed}): an operator reads all of it "
        "at once, or its readers are not in one loop; leave it out",
        problem.place,
    )


def _answer(
    job: Job, goal: OneArena, problem: Problem, whole: Answer, rules: LoopRules, path: LoopPath, limits: Limits
) -> Answer:
    """The plan of a path's loops, in the best order of what runs then."""
    from lowtide.transform.loop_graph import apply

    looped = apply(problem.graph, path.loops, problem.target.alignment)
    passed = limits.passed_seconds
    answer = goal.solve(Problem.of(looped.graph, problem.target), job.search, limits)
    figures = {
        "without_loops_peak_bytes": whole.keys["peak_bytes"],
        "loops_path_bytes": path.peak,
        "loops_path_complete": path.complete,
        "loops_least_path_bytes": path.least,
        "loops_considered": path.considered,
        "loops_played": path.played,
        "loops_reordered": path.reordered,
    }
    keys: PlanKeys = {
        **answer.keys,
        "loops": [_as_plan(rules, answer, op, loop, looped.blocks.get(op)) for op, loop in looped.loops.items()],
        "exactness": exactness(rules, looped),
        "proved_over": "orders",
        "search": {**answer.keys.get("search", {}), **figures},
    }
    seconds = passed + answer.schedule_seconds
    return replace(
        answer, keys=keys, loops=looped, schedule_seconds=seconds, own_order_peak_bytes=problem.own_order_peak_bytes
    )


def exactness(rules: LoopRules, looped: LoopGraph) -> Exactness:
    """The loosest class of what runs in loops."""
    classes: tuple[Exactness, ...] = get_args(Exactness)
    pairs = [(o, axes) for loop in looped.loops.values() for o, axes in zip(loop.ops, loop.axes, strict=True)]
    return classes[max((classes.index(rules.exactness(o, axes)) for o, axes in pairs), default=0)]


def _as_plan(rules: LoopRules, answer: Answer, op: int, loop: Loop, block: int | None) -> PlanLoop:
    """What a plan says of a loop, with addresses if the plan has an arena. `block`: the tensor of its line buffers."""
    graph, alignment = rules.graph, answer.problem.target.alignment
    at = answer.keys.get("workspace_offsets") if block is None else answer.keys.get("offsets")
    begin = (at or {}).get(str(op if block is None else block), 0)
    places = {t: begin + at for t, at in loop.places(alignment).items()}
    kept = {
        str(r.tensor): PlanLineBuffer(
            name=graph.tensor_by_id[r.tensor].name,
            slots=r.slots,
            bytes=r.slot_bytes,
            offset=None if r.over is not None else places.get(r.tensor),
            over=r.over,
        )
        for r in loop.line_buffers
    }
    return PlanLoop(
        op=op,
        ops=list(loop.ops),
        along={str(o): list(axes) for o, axes in zip(loop.ops, loop.axes, strict=True)},
        axis={str(t): list(dims) for t, dims in loop.dims},
        parts=loop.iterations,
        merge=_merges(rules, loop),
        keep=kept,
        sums={str(t): PlanSum(bytes=size, offset=places.get(t)) for t, size in loop.accumulators},
        kept_bytes=loop.workspace(alignment) if loop.shared else None,
        streamed={str(t): graph.tensor_by_id[t].name for t in loop.streamed},
        over=None if loop.over is None else block if loop.over.tensor is None else loop.over.tensor,
        behind={} if loop.over is None else {str(loop.over.input): loop.over.distance},
    )


def _merges(rules: LoopRules, loop: Loop) -> dict[str, LoopMerge]:
    """How what leaves a loop is materialised."""
    kept = {r.tensor for r in loop.line_buffers}
    result: dict[str, LoopMerge] = {}
    for o, axes in zip(loop.ops, loop.axes, strict=True):
        known = rules.meaning(o)
        assert known is not None, o
        for t in rules.graph.op_by_id[o].outputs:
            if t not in kept:
                result[str(t)] = known.access.merge if axes[0] in known.access.reduce else "concat"
    return result
