"""Which regions of a step to run for some rows at a time, and in how many parts, for a budget.

What is highest is cut first: the regions around the ops that take most by themselves, with those of other layers like
them, in several numbers of parts; of what is best by a quick look the regions around what is then highest, and so on,
as long as that helps::

    the step  --head in 32 parts-->  --attention in 8-->  --feed-forward in 8-->  ...
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide._core import search_sequence
from lowtide.errors import InputError
from lowtide.sizes import format_count
from lowtide.stop import Limits
from lowtide.torch.cost import Costs
from lowtide.torch.costed import Costed, costed, in_parts
from lowtide.torch.program import Program
from lowtide.torch.rows import Region, groups, region_of
from lowtide.torch.search import footprints, largest_op, problem_of
from lowtide.torch.slices import body_of, one_by_one, sliced
from lowtide.torch.step_plan import StepCut
from lowtide.torch.storages import as_graph

PARTS = (2, 4, 8, 16, 32, 64)  # numbers of parts that are tried first

FINER_PARTS = tuple(sorted({*PARTS, *(p * k // 8 for p in PARTS for k in (5, 6, 7))} - {1}))
"""All that are tried: between the best of the first and half of it, too."""

_REGIONS, _KEPT = 2, 4  # regions around an op that are tried, where the first is of few rows; proposals that are kept
_ALL_REGIONS = 8  # regions around an op that are tried where none of those meets the budget

_SECONDS, _QUICK, _REPAIRS = 1.0, 0.05, 64
"""Of each proposal the seconds of search, as a part of all, and the repairs, at most."""

_SLACK = 1.01  # how many times what is best another number of parts may take, so that the next one is tried as well

_LEVELS, _WIDTH, _KINDS = 5, 2, 2
"""Times that what is highest then is cut; of how many cuts before; around how many kinds of op."""

_LOWEST = 4  # ops down to this part of the highest one's footprint are worth a cut

_FEW_AND_MANY, _SOME = (8, 32), 8

_NEAR = 1000  # proposals whose times differ by less than this part of the step's are alike: fewer parts go first


_TRIED = 4  # regions around a largest op whose functions are measured

Measured = Callable[[Costed, Costs | None], tuple[Costed, Costs | None]]
"""A step with what is new in it measured, and the table with that."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A step with regions cut, and which."""

    step: Costed
    records: tuple[StepCut, ...] = ()

    @property
    def parts(self) -> int:
        """Of all regions together."""
        return sum(record.parts for record in self.records)


def proposals(
    torch: Any, own: Costed, costs: Costs | None, budget: int, limits: Limits, measured: Measured | None = None
) -> list[Cut]:
    """The cuts that promise the least time within a budget, best first. What holds the largest ops is measured;
    other costs are those that are known without. `own`: the step as it is. `costs`: what was measured of it.
    `limits`: how long it may take."""
    begun, largest, measured = list[Cut](), largest_op(own.graph)[0], measured or _as_known
    for target in (budget, budget // 2):
        if largest > target:
            cut, costs = lowered(torch, own, costs, target, measured)
            begun.append(cut)
    begun += [Cut(own)] if largest <= budget else []
    look = _Look(torch, own, costs, budget, limits)
    far, *_ = look.best(begun)
    look.regions = _ALL_REGIONS
    if far == _WITHIN:
        look.further(begun[0], limits)
    else:
        look.best(begun)
    look.finer()
    found = [cut for cut in sorted(look.promises, key=look.promise) if cut.records]
    return [cut for cut in found if look.promise(cut)[0] != _ABOVE][:_KEPT]


def lowered(torch: Any, own: Costed, costs: Costs | None, target: int, measured: Measured) -> tuple[Cut, Costs | None]:
    """A cut in which no op takes more than a target by itself, where regions allow that: the largest op first, each in
    the fewest parts that do. With 0 bytes as target, until the largest op is in no region that takes less. And the
    costs with those of the regions."""
    cut, done = Cut(own), set[str]()
    while True:
        heights, actions = footprints(cut.step.graph), cut.step.program.actions
        left = [op for op in heights if heights[op] > target and actions[op].name not in done]
        if not left:
            return cut, costs
        op = max(left, key=lambda op: (heights[op], -op))
        done.add(actions[op].name)
        best, least = None, heights[op]
        for group, parts in _parts_within(torch, cut.step, op, costs, target)[:_TRIED]:
            new = _with(torch, cut, group, parts, costs)
            step, table = measured(new.step, costs)
            bodies = {action.name for action in step.program.actions} - {action.name for action in actions}
            size = max(takes for op, takes in footprints(step.graph).items() if step.program.actions[op].name in bodies)
            if size < least:
                best, least = (Cut(step, new.records), table), size
            if size <= target:
                break
        if best is not None:
            cut, costs = best
        elif not target:
            return cut, costs


def _parts_within(
    torch: Any, step: Costed, op: int, costs: Costs | None, target: int
) -> list[tuple[tuple[Region, ...], int]]:
    """The regions around an op, each in the fewest parts that are within a target, or in the most: those first that
    take least above it, then those whose ops are most above it, then those of least time."""
    sizes = {t.name: t.size for t in step.graph.tensors if t.id in step.graph.producer}
    table, found, heights = {} if costs is None else costs.by_signature, [], footprints(step.graph)
    for group in groups(torch, step.program, step.graph, op)[:_ALL_REGIONS]:
        ends = sum(sizes.get(name, 0) for name in {*group[0].given, *group[0].made})
        above, tried = sum(max(0, heights[op] - target) for op in group[0].indices), []
        for parts in [n for n in (*FINER_PARTS, group[0].rows) if n <= min(group[0].rows, PARTS[-1])]:
            seconds, taken = in_parts(torch, step.program, body_of(step.program, group[0], parts)[0], table)
            tried.append((max(target, ends + taken), -above, seconds, parts))
            if ends + taken <= target:
                break
        if tried:
            found.append((*min(tried), group))
    return [(group, parts) for *_, parts, group in sorted(found, key=lambda entry: entry[:4])]


def _unlike(cuts: Sequence[Cut]) -> list[Cut]:
    """Of cuts of the same ops the first."""
    return list({tuple([tuple(record.ops) for record in cut.records]): cut for cut in reversed(cuts)}.values())[::-1]


_Promise = tuple[int, int, int]
"""What a quick search finds, less is better: how far it got, the time or the bytes that it found, the parts."""

_WITHIN, _NOT_YET, _ABOVE = range(3)  # within the budget; above it, though each op is within; single ops are above it

_NONE: _Promise = (_ABOVE, 1 << 62, 0)


class _Look:
    """A look for cuts within a budget: each is searched quickly, once."""

    def __init__(self, torch: Any, own: Costed, costs: Costs | None, budget: int, limits: Limits) -> None:
        self.torch, self.costs, self.budget, self.limits = torch, costs, budget, limits
        self.once = own.seconds_of(own.graph.own_order)
        self.seconds = min(_SECONDS, limits.seconds * _QUICK)
        self.regions = _REGIONS
        self.promises: dict[Cut, _Promise] = {}
        self.made_of: dict[Cut, tuple[Cut, Sequence[Region]]] = {}

    def best(self, begun: Sequence[Cut]) -> _Promise:
        """What the best of the cuts promises, of these with more and more groups of regions."""
        limits, best = self.limits, min([self.promise(cut) for cut in begun if cut.records], default=_NONE)
        for _ in range(_LEVELS):
            found: list[Cut] = []
            for number, cut in enumerate(begun):
                share = Limits(limits.left_seconds / (1 + len(begun) - number))
                found += self.further(cut, share)
            found.sort(key=self.promise)
            if not found or self.promise(found[0]) >= best:
                break
            best, begun = self.promise(found[0]), _unlike(found)[:_WIDTH]
        return best

    def promise(self, cut: Cut) -> _Promise:
        """Of a cut."""
        if cut not in self.promises:
            self.promises[cut] = (*self._searched(cut), cut.parts)
        return self.promises[cut]

    def _searched(self, cut: Cut) -> tuple[int, int]:
        graph = cut.step.graph
        above = sum(max(0, size - self.budget) for size in footprints(graph).values())
        if above:
            return _ABOVE, above
        problem = problem_of(graph, cut.step.seconds)
        result = search_sequence(problem, list(range(len(graph.ops))), self.budget, 0, self.seconds, _REPAIRS)
        if result.found:
            return _WITHIN, round(result.cost * _NEAR * 1e-9 / self.once)
        return _NOT_YET, result.peak

    def further(self, cut: Cut, limits: Limits) -> list[Cut]:
        """A cut with one more group of regions, or with the last of it alone: of each the best number of parts."""
        kept: list[Cut] = []
        for group in _highest(self.torch, cut.step, self.regions):
            last = max(group, key=lambda region: region.indices)
            for some in (group, (last,)) if len(group) > 1 else (group,):
                if not limits.over():
                    kept += self._best_parts(cut, some, limits)
        return kept

    def _best_parts(self, cut: Cut, group: Sequence[Region], limits: Limits) -> list[Cut]:
        """A group in the number of parts that promises most: from some on to fewer and to more, while that helps; in
        some alone, if the cut is better without."""
        counts = [n for n in PARTS if n <= group[0].rows]
        middle = sum(n <= _SOME for n in counts[1:])
        best = None
        for towards in (counts[middle:], counts[:middle][::-1]):
            for parts in towards:
                if best is not None and limits.over():
                    break
                new = _with(self.torch, cut, group, parts, self.costs)
                self.made_of[new] = cut, group
                far, size, _ = self.promise(new)
                if best is None and cut.records and (far, size) > self.promise(cut)[:2]:
                    return [new]
                if best is not None and (far, size) > (self.promise(best)[0], self.promise(best)[1] * _SLACK):
                    break
                best = min(best or new, new, key=self.promise)
        return [] if best is None else [best]

    def finer(self) -> None:
        """Of the best so far the last group in fewer parts than it is in, and more than half of them."""
        best = min(self.promises, key=self.promise, default=None)
        if best is None or self.promise(best)[0] != _WITHIN or best not in self.made_of:
            return
        (cut, group), most = self.made_of[best], best.records[-1].parts
        for parts in FINER_PARTS:
            if most // 2 < parts < most and not self.limits.over():
                self.promise(_with(self.torch, cut, group, parts, self.costs))


def _highest(torch: Any, step: Costed, most_regions: int = _REGIONS) -> Iterator[tuple[Region, ...]]:
    """Regions, with those of other layers, around the ops that take most: the first that are not idle, or all."""
    program, heights = step.program, footprints(step.graph)
    most, seen, tried = max(heights.values(), default=0), set[str](), list[tuple[Region, ...]]()
    for op in sorted(heights, key=lambda op: (-heights[op], op)):
        target = program.actions[op].call.target
        if heights[op] * _LOWEST < most or len(seen) == _KINDS:
            return
        if target in seen:
            continue
        found = groups(torch, program, step.graph, op)
        if found:
            seen.add(target)
        idle = most_regions < _ALL_REGIONS
        alone = [group for group in found if len(group[0].ops) == 1]
        found = found[len(alone) :]
        several = [g for k, g in enumerate(found) if not (idle and _is_idle(g[0], found[:k]))][:most_regions]
        several = alone + several
        yield from [group for group in several if group not in tried]
        tried += several


def _narrower(program: Program, first: tuple[Region, ...], every: Sequence[tuple[Region, ...]]) -> tuple[Region, ...]:
    """Of groups the one with all ops of the first whose regions take and give least, if that is at most half."""

    def ends_bytes(region: Region) -> int:
        return sum(program.forms[name].extent_bytes for name in {*region.given, *region.made})

    inside, most = set(first[0].indices), ends_bytes(first[0]) // 2
    wider = [g for g in every if g[0].recomputed == first[0].recomputed and inside < set(g[0].indices)]
    return min((g for g in wider if ends_bytes(g[0]) <= most), key=lambda g: ends_bytes(g[0]), default=first)


def _is_idle(region: Region, before: Sequence[Sequence[Region]]) -> bool:
    """Whether one of these does as much: with rows enough as many ops, or the same ones without recomputing any."""
    inside = {*region.indices, *region.recomputed}
    return any(
        (other.rows >= _SOME and other.recomputed == region.recomputed) or inside.issubset(other.indices)
        for other, *_ in before
    )


def _with(torch: Any, cut: Cut, group: Sequence[Region], parts: int, costs: Costs | None) -> Cut:
    """A cut with one more group of regions in a given number of parts."""
    program, stood = one_by_one(cut.step.program, cut.step.graph, group, parts)
    records = [
        StepCut(ops=list(r.indices), again=list(r.recomputed), axis=r.start[0], each=r.start[1], parts=parts)
        for r in stood
    ]
    return Cut(costed(torch, program, costs, cut.step), (*cut.records, *records))


def _as_known(step: Costed, costs: Costs | None) -> tuple[Costed, Costs | None]:
    return step, costs


def least_largest_op(torch: Any, own: Costed, costs: Costs | None, measured: Measured | None = None) -> tuple[int, str]:
    """What the step's largest op takes by itself, untiled or cut so that this is least: bytes, and the op's name."""
    step = lowered(torch, own, costs, 0, measured or _as_known)[0].step
    bytes_alone, at = largest_op(step.graph)
    body = step.program.bodies.get(step.program.actions[at].call.target.removeprefix("body."))
    if body is None:
        return bytes_alone, step.graph.op_by_id[at].label
    return bytes_alone, f"a tile of {format_count(len(body.actions), 'op')} from {body.actions[0].name!r} on"


def usual(torch: Any, own: Costed, costs: Costs | None, most: float | None = None) -> list[Cut]:
    """Cuts that lower file order's peak, where no budget says which: few parts and many, of what is highest and of
    what is then. `most`: seconds that the step may take; None: any number. Where many parts take more, fewer stand
    in their place."""
    cuts: list[Cut] = []
    every = list(itertools.islice(_highest(torch, own, _ALL_REGIONS), 2 * _ALL_REGIONS))
    for first in itertools.islice(_highest(torch, own), _REGIONS):
        group, seen = _narrower(own.program, first, every), set[int]()
        for wanted in _FEW_AND_MANY:
            for parts in sorted((p for p in FINER_PARTS if p <= min(wanted, group[0].rows)), reverse=True):
                cut = _with(torch, Cut(own), group, parts, costs)
                if most is not None and cut.step.seconds_of(cut.step.graph.own_order) > most:
                    continue
                if parts not in seen and cut.step.own.peak_bytes < own.own.peak_bytes:
                    cuts.append(cut)
                seen.add(parts)
                break
    return cuts[:_KEPT]


def recut(torch: Any, own: Costed, records: Sequence[StepCut], costs: Costs | None) -> Costed:
    """The step cut as a plan says. Raises `InputError`: there is no such region."""
    program, graph = own.program, own.graph
    for record in records:
        region = region_of(torch, program, graph, record.ops, record.again, (record.axis, record.each))
        if region is None or not 1 <= record.parts <= region.rows:
            raise InputError(
                "the saved plan does not hold: the operators that it tiles are no region of this step; plan again"
            )
        program = sliced(program, graph, [region], record.parts)
        graph = as_graph(program, {}, {})
    return costed(torch, program, costs) if records else own


def is_cuttable(torch: Any, own: Costed) -> bool:
    """Whether a region can hold the step's largest op, so that parts may lower what it takes by itself."""
    return bool(groups(torch, own.program, own.graph, largest_op(own.graph)[1]))
