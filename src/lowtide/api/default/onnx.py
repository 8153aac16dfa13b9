"""The least memory of an ONNX model in onnxruntime: planned as onnxruntime runs it, then measured in fresh processes.

    model  ->  optimised as by default on this CPU  ->  candidates: order and places; tiles too, as many as there is
           time for  ->  each compared with today, in turn; tiles that take too long are replaced by ones of fewer ops
           ->  the best that is no slower than allowed
    to be portable: optimised without layouts of one CPU; its order is kept, or the layout chosen at load
    where a run takes seconds: each candidate is run once, with its weights where they are predicted to take least

What the session needs to keep a plan is in the Python module that is written with it. Bytes are those of the process
above an empty one; a plan that takes more than today, or too long, is never chosen.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lowtide.api.default.process import empty_session, heap_bytes, predicted_process
from lowtide.api.default.request import Request, Tell
from lowtide.api.models import load
from lowtide.api.moves.all_transformations import MOST_OVERHEAD
from lowtide.api.optimized import OptimizedFile, optimized_file
from lowtide.api.writing import PlanFiles, write_all
from lowtide.comparison import Comparison, ProcessMemory, SmallestSizes, Weights
from lowtide.graph import Kind
from lowtide.plan import Plan, Status
from lowtide.run.fresh_process import INPUTS
from lowtide.run_reports import rounding
from lowtide.sizes import Dims
from lowtide.target import resolve

if TYPE_CHECKING:
    from lowtide.api.job import Job
    from lowtide.run.timing import FreshRun, Setup

RUNS = 60
"""Runs of each model, in turn; fewer, if they take longer than the seconds for them."""
SECONDS, SETTLED_SECONDS = 1.5, 4.0
"""For all models that are compared at once; for the one that is chosen and today's."""
OPENED = 5
"""Times that a plan is opened that seems too slow, unless most of this many agree before."""
LEAST_GAIN = 0.01
"""Part of a model's memory that a plan has to save, as predicted, to be measured, and as measured to be chosen: it is
worth a file more, or a changed graph."""
WAYS = (None, Weights(mapped=True), Weights(mapped=True, prepacked=False))
"""Where the weights of an optimised file may be: in it or mapped, with and without copies."""
_ATTEMPTS, _SLOW_ATTEMPTS, _LESS = 3, 2, 0.7
"""Plans with tiles that are measured for one bound on time, also where a run takes seconds, and the most that the next
may take of what one may."""
_TILES = 1.6
"""Of the seconds of a search, those of one for tiles: models of 500 operators need them."""
_MOST_EXTRA = 10.0
"""Nothing gains by more recomputed operations than this part of the model's."""
_OP_BYTES, _OP_SECONDS = 6144, 7e-6
"""What a session keeps for an op of a plan, and what one more takes in a run: with the views at a slice or a join of
blocked tensors, 1.7 nodes."""


def plan_onnx(request: Request, tell: Tell) -> Plan:
    """The plan, compared with what the user has today. Raises `InputError`: onnxruntime cannot load or run the
    model."""
    with tempfile.TemporaryDirectory(prefix="lowtide-") as name:
        trial = Trial.of(request, Path(name), tell)
        order, found = trial.order(), list[_Candidate]()
        expected = trial.predicted(order)
        if expected.comparison is not None and expected.comparison.better:
            tell(expected)
        try:
            found += trial.measured(order)
            if request.portable:
                at_load = _layout_at_load(order)
                found += trial.measured(at_load, Weights(mapped=True), ways=1, today=found[0].today)
            if order.stopped == "interrupt":
                raise KeyboardInterrupt
            tell(trial.finished(_best(found, request.budget_bytes)))
            _measure_changed(trial, found)
            plan = trial.finished(_settled(trial, found, request.budget_bytes))
            return trial.compared_at_smallest(plan) if request.smallest else plan
        except KeyboardInterrupt:  # what was measured so far, or predicted
            best = trial.finished(_best(found, request.budget_bytes)) if found else expected
            return msgspec.structs.replace(best, stopped="interrupt")


def _layout_at_load(plan: Plan) -> Plan:
    """A portable plan in whose session onnxruntime optimises the file for its processor. Weights that it lays out anew
    would be in memory twice, so they are mapped."""
    assert plan.optimized_from is not None
    origin = msgspec.structs.replace(plan.optimized_from, layout_at_load=True)
    return msgspec.structs.replace(plan, optimized_from=origin)


def _measure_changed(trial: Trial, candidates: list[_Candidate]) -> None:
    """Add candidates with tiles, where they may be better than the order alone: first with all the time that is
    allowed, then, if a run takes too long, with as much less as it was too long. Under a budget none is added after one
    that fits and is within `MOST_OVERHEAD`: a slower one that fits may have a faster one next to it."""
    request = trial.request
    budget, first = request.budget_bytes, _settled(trial, candidates, request.budget_bytes)
    if first.layout_at_load:
        return  # onnxruntime would lay out each tile
    mapped = [one for one in candidates if one.plan.weights == WAYS[1] and one.better]
    less = any(one.planned.model_bytes < first.planned.model_bytes for one in mapped)  # more so with fewer tensors
    weights = WAYS[1] if less and first.plan.weights is None else first.plan.weights
    allowed = dict.fromkeys([request.slower, MOST_OVERHEAD] if request.may_be_slow else [request.slower])
    for slower in allowed:
        extra = None if slower is None else min(_MOST_EXTRA, (1 + slower) / first.slowdown - 1)
        for _ in range(_ATTEMPTS if first.today.warm else _SLOW_ATTEMPTS):
            most = inf if slower is None else 1 + slower
            if budget is not None and any(one.fits(budget) and one.slowdown <= most for one in candidates):
                return
            changed = None if extra is not None and extra <= 0 else trial.changed(first, extra)
            if changed is None:
                break
            if first.today.warm:
                new = trial.settled(changed, weights)
            else:
                (new,) = trial.measured(changed, weights, ways=1, today=first.today)
            candidates.append(new)
            slowdown = new.slowdown
            if extra is None or slower is None or slowdown <= 1 + slower:
                break
            took = slowdown / first.slowdown - 1
            extra *= min(_LESS, extra / took)


def _settled(trial: Trial, candidates: list[_Candidate], budget: int | None) -> _Candidate:
    """The best candidate, measured for longer: it may turn out to be too slow, and one that seemed so not to be."""
    while not (best := _best(candidates, budget)).settled and best.better:
        longer = trial.settled(best.plan, best.plan.weights) if best.today.warm else trial.remeasured(best)
        candidates[candidates.index(best)] = longer
    return best


@dataclass(frozen=True)
class _Candidate:
    """A plan, and both sides measured in one run."""

    plan: Plan
    today: FreshRun
    planned: FreshRun
    outputs: str
    slower: float | None
    today_tensor_bytes: int = 0  # of the largest tensor that is limited, if any is
    predicted: ProcessMemory | None = None
    settled: bool = False

    @property
    def slowdown(self) -> float:
        from lowtide.run.timing import slowdown

        return slowdown(self.today, self.planned)

    @property
    def seems_too_slow(self) -> bool:
        """Whether its runs took longer than allowed."""
        return self.slower is not None and self.slowdown > 1 + self.slower

    @property
    def too_slow(self) -> bool:
        """Whether a run takes longer than allowed. Few runs do not say so: for what else the machine does, a session
        can be slow from its first to its last."""
        return self.settled and self.seems_too_slow

    @property
    def layout_at_load(self) -> bool:
        """Whether onnxruntime chooses the layout, and the order with it."""
        origin = self.plan.optimized_from
        return origin is not None and origin.layout_at_load

    @property
    def better(self) -> bool:
        """Whether a user gains by it: less memory, or no tensor above its limit where there was one."""
        gains = self.makes_possible or self.planned.model_bytes < self.today.model_bytes
        return gains and not self.too_slow and bool(self.outputs)

    @property
    def makes_possible(self) -> bool:
        """Whether it keeps a limit of single tensors that the model does not keep today."""
        rules = self.plan.rules
        return not self.plan.above_limit and rules is not None and 0 < rules.max_tensor < self.today_tensor_bytes

    def fits(self, budget: int) -> bool:
        return self.better and self.planned.model_bytes <= budget and not self.plan.above_limit


def _best(candidates: list[_Candidate], budget: int | None) -> _Candidate:
    """The simplest of about the least memory; with a budget the fastest that fits."""
    within = min(one.plan.above_limit for one in candidates)
    candidates = [one for one in candidates if one.plan.above_limit == within]
    good = [one for one in candidates if one.better] or candidates
    fitting = [one for one in good if budget is not None and one.fits(budget)]
    if fitting:
        return min(fitting, key=lambda one: one.slowdown)
    least = min(one.planned.model_bytes for one in good)
    return next(one for one in good if one.planned.model_bytes <= (1 + LEAST_GAIN) * least)


@dataclass(frozen=True)
class Trial:
    """A model that is optimised, and a folder for what is tried."""

    request: Request
    folder: Path
    tell: Tell
    optimized: OptimizedFile

    @classmethod
    def of(cls, request: Request, folder: Path, tell: Tell) -> Trial:
        """The trial of a request, whose sizes are all known. Raises `InputError` if onnxruntime does not load it."""
        tell("onnxruntime optimises the model")
        level, out = "extended" if request.portable else "all", folder / "optimized.onnx"
        made = optimized_file(Path(request.path), out, request.dims, level, request.smallest)
        return cls(request, folder, tell, made)

    @property
    def free_sizes(self) -> Dims:
        """Sizes of the dimensions that the optimised file leaves free."""
        return {name: self.request.dims[name] for name in self.request.smallest}

    def order(self) -> Plan:
        """The plan of the optimised file that changes its order and places alone."""
        target = self.request.limited("onnxruntime")
        job = self.request.job(self.optimized.path, self.free_sizes, changes=False, target=target)
        return self._solved(job)

    def changed(self, first: _Candidate, extra: float | None) -> Plan | None:
        """A plan with a changed graph, of which a run takes this part more than of the first, as predicted; None if it
        does not save enough to be measured, nor has a smaller largest tensor where that is above its limit."""
        request = self.request
        settings: dict[str, float] = {"time": _TILES * request.seconds}
        block, nodes = first.plan.runtime_arena_bytes or 0, len(first.plan.order)
        enough = LEAST_GAIN * first.planned.model_bytes
        above = first.plan.above_limit
        if block < enough and not above:
            return None
        rest = first.planned.model_bytes - block  # what is not tensors
        if request.budget_bytes is not None and request.budget_bytes > rest:
            settings["budget"] = request.budget_bytes - rest
        if extra is not None:
            settings["max_overhead"] = extra
        job = request.job(
            self.optimized.path, self.free_sizes, changes=True, target=request.limited("onnxruntime"), **settings
        )
        if not job.allow:
            return None
        self.tell("searching for tiles that need less")
        most = 0 if extra is None else nodes + int(extra * first.planned.median_seconds / _OP_SECONDS)
        plan = self._solved(replace(job, max_ops=most, op_bytes=_OP_BYTES))
        saved = block - (plan.runtime_arena_bytes or 0) - _OP_BYTES * (len(plan.order) - nodes)
        return plan if saved >= enough or plan.above_limit < above else None

    def _solved(self, job: Job) -> Plan:
        return msgspec.structs.replace(self.request.solve(job, self.tell), optimized_from=self.optimized.origin)

    def measured(
        self,
        plan: Plan,
        weights: Weights | None = None,
        *,
        ways: int = len(WAYS),
        seconds: float = SECONDS,
        today: FreshRun | None = None,
    ) -> list[_Candidate]:
        """A plan compared with today: with its weights as said, and in so many ways in all, of which those are measured
        that are predicted to need less than all before them. Where a run takes seconds, only the last of these is, and
        `today`, which was measured before, is taken as it is."""
        from lowtide.run.timing import Setup, run_compared

        request, folder = self.request, self.folder
        own = Setup(Path(request.path), folder / "today.npz")
        tried: list[tuple[Plan, Setup]] = []

        def planned(slow: bool) -> list[Setup]:
            found = self._promising(plan, list(dict.fromkeys([weights, *WAYS]))[:ways])
            tried.extend(found[-1:] if slow else found)
            return [setup for _, setup in tried]

        before, *after = run_compared(
            own if today is None or today.warm else today,
            planned,
            folder / "feeds.npz",
            self.dims,
            seed=request.seed,
            runs=RUNS,
            seconds=seconds,
            least=1 if seconds < SETTLED_SECONDS else 2,
            tell=self.tell,
        )
        share = rounding(t.dtype for t in plan.tensors)
        inputs = _first_bytes(folder / "feeds.npz")
        found = [
            _Candidate(
                one,
                before,
                ran,
                _compared(own.outputs, setup.outputs, share),
                request.slower,
                self.today_tensor_bytes or 0,
                self._process(setup, one, inputs),
            )
            for (one, setup), ran in zip(tried, after, strict=True)
        ]
        return [replace(one, settled=not before.warm and not one.seems_too_slow) for one in found]

    def _process(self, setup: Setup, plan: Plan, inputs: int) -> ProcessMemory:
        """What a process takes with a plan that was written, as predicted."""
        return predicted_process(setup.model, plan.runtime_arena_bytes or 0, plan.weights, inputs, self._heap_bytes)

    @cached_property
    def _heap_bytes(self) -> int:
        return heap_bytes(self.optimized.path, self.free_sizes)

    def _promising(self, plan: Plan, ways: Sequence[Weights | None]) -> list[tuple[Plan, Setup]]:
        """The plan with its weights in those ways that are each predicted to need less than all before it."""
        found: list[tuple[Plan, Setup]] = []
        least: float = inf
        if self.optimized.outside:
            ways = list(dict.fromkeys(way or Weights(mapped=True) for way in ways))
        for way in ways:
            one = msgspec.structs.replace(plan, weights=way)
            setup = self._written(one)
            takes = self._process(setup, one, 0).total_bytes
            if takes < least:
                found.append((one, setup))
                least = takes
        return found

    def remeasured(self, seen: _Candidate) -> _Candidate:
        """A candidate whose single run took too long; both sides are run once more, and the faster run of each
        counts."""

        def both(first: FreshRun, second: FreshRun) -> FreshRun:
            return replace(first, seconds=first.seconds + second.seconds)

        (second,) = self.measured(seen.plan, seen.plan.weights, ways=1)
        today, planned = both(seen.today, second.today), both(seen.planned, second.planned)
        return replace(seen, today=today, planned=planned, settled=True)

    def settled(self, plan: Plan, weights: Weights | None) -> _Candidate:
        """A plan compared with today for long enough. A process may be slow from its first run to its last, so that one
        that seems too slow is opened up to `OPENED` times, and the middle one decides."""

        def longer() -> _Candidate:
            (one,) = self.measured(plan, weights, ways=1, seconds=SETTLED_SECONDS)
            return replace(one, settled=True)

        seen = [longer()]
        slow = int(seen[0].too_slow)
        while slow and max(slow, len(seen) - slow) <= OPENED // 2:
            seen.append(longer())
            slow += seen[-1].too_slow
        return sorted(seen, key=lambda one: one.slowdown)[len(seen) // 2]

    def compared_at_smallest(self, plan: Plan) -> Plan:
        """A plan that was measured at the largest sizes, with what its file takes at the smallest ones: onnxruntime's
        optimiser left these sizes free, and the plan changes the order alone."""
        comparison, request = plan.comparison, self.request
        assert comparison is not None, "a plan of `finished`"
        folder = self.folder / "smallest"
        folder.mkdir()
        small = replace(self, folder=folder, request=replace(request, dims={**request.dims, **request.smallest}))
        seen = small.settled(plan, plan.weights)
        today, planned = seen.today.model_bytes, seen.planned.model_bytes
        good = planned <= (1 + LEAST_GAIN) * today and bool(seen.outputs) and not seen.too_slow
        smallest = SmallestSizes(
            sizes=dict(request.smallest),
            largest={k: n for k, n in request.dims.items() if k in request.smallest and isinstance(n, int)},
            today_bytes=today,
            planned_bytes=planned,
            slowdown=seen.slowdown,
            outputs=seen.outputs,
            good=good,
        )
        comparison = msgspec.structs.replace(comparison, smallest=smallest, better=comparison.better and good)
        return msgspec.structs.replace(plan, comparison=comparison)

    def alone(self, plan: Plan) -> FreshRun:
        """A plan's memory and time alone."""
        from lowtide.run.timing import run_fresh

        feeds, seed = self.folder / "feeds.npz", self.request.seed
        return run_fresh([self._written(plan)], feeds, self.dims, seed=seed, runs=1, tell=self.tell)[0]

    def _written(self, plan: Plan) -> Setup:
        """The plan's model and session, to be run; of a plan that was written before, those."""
        from lowtide.run.timing import Setup

        out = self.optimized.path.with_name(f"{sha256(msgspec.json.encode(plan)).hexdigest()}.onnx")
        module = out.with_suffix(".py")
        if not out.exists():  # in the folder of the optimised file, whose weights may be in a file next to it
            write_all(plan, self.optimized.path, PlanFiles(out, snippet=module), opened=False)  # it is opened to be run
        return Setup(out, out.with_suffix(".npz"), module)

    @property
    def dims(self) -> Dims:
        """Sizes by name, as the inputs are drawn."""
        return {**self.optimized.origin.dims, **self.free_sizes}

    def predicted(self, plan: Plan) -> Plan:
        """The plan of the order alone with what it is predicted to take, before anything is measured."""
        inputs = sum(t.size for t in plan.tensors if t.kind is Kind.INPUT)
        one, setup = self._promising(plan, WAYS)[-1]
        today = next((f.default_bytes for f in plan.runtime_figures or () if f.what == "arena"), 0)
        before = predicted_process(self.optimized.path, today, None, inputs, self._heap_bytes).total_bytes
        parts = self._process(setup, one, inputs)
        comparison = Comparison(
            **self._comparison_fields(plan, before, parts.total_bytes),
            base_bytes=empty_session().base_bytes,
            slowdown=1.0,
            predicted=parts,
            better=parts.total_bytes < before,
        )
        return self._with_status(one, comparison)

    def finished(self, chosen: _Candidate) -> Plan:
        """The plan with its comparison and its status."""
        before, after = chosen.today, chosen.planned
        comparison = Comparison(
            **self._comparison_fields(
                chosen.plan, before.model_bytes, after.model_bytes, ordered=not chosen.layout_at_load
            ),
            measured=True,
            base_bytes=before.base_bytes,
            today_seconds=before.median_seconds,
            planned_seconds=after.median_seconds,
            slowdown=chosen.slowdown,
            outputs=chosen.outputs,
            inputs_run=INPUTS if before.warm else 1,
            predicted=None if chosen.layout_at_load else chosen.predicted,
            better=chosen.better,
        )
        return self._with_status(chosen.plan, comparison)

    def _comparison_fields(
        self, plan: Plan, today_bytes: int, planned_bytes: int, *, ordered: bool = True
    ) -> dict[str, Any]:
        """What a comparison says of the model, the plan and their bytes."""
        import onnxruntime

        request = self.request
        return {
            "model": request.name,
            "runtime": f"onnxruntime {onnxruntime.__version__}, default options, this CPU",
            "figure": "process memory",
            "today_bytes": today_bytes,
            "planned_bytes": planned_bytes,
            "tensors_bytes": plan.runtime_arena_bytes if ordered else None,
            "tensors_bound_bytes": plan.lower_bound_bytes if ordered else None,
            "sizes": request.shapes(load(request.path, request.dims)),
            "assumed": request.assumed,
            "today_tensor_bytes": self.today_tensor_bytes,
        }

    @cached_property
    def today_tensor_bytes(self) -> int | None:
        """Bytes of the largest tensor of the optimised file that the call limits; None: it limits none."""
        if not self.request.max_tensor_bytes:
            return None
        return resolve(self.request.limited("onnxruntime")).largest_tensor(load(self.optimized.path, self.free_sizes))

    def _with_status(self, plan: Plan, comparison: Comparison) -> Plan:
        """The plan with its comparison, under the budget."""
        budget = self.request.budget_bytes
        fits = budget is None or (comparison.better and comparison.planned_bytes <= budget)
        fits = fits and not plan.above_limit
        status: Status = "ok" if fits else "over_budget"
        return msgspec.structs.replace(plan, comparison=comparison, status=status, budget_bytes=budget)


def _first_bytes(file: Path) -> int:
    """Bytes of the arrays of the first run in an ``.npz`` file."""
    import numpy as np

    with np.load(file) as values:
        return sum(values[name].nbytes for name in values.files if name.startswith("0/"))


def _compared(today: Path, planned: Path, share: float) -> str:
    """Whether outputs are equal or within the runtime's rounding, a share of the largest magnitude; empty: neither."""
    import numpy as np

    from lowtide.run.onnx import distance, same

    said = "equal"
    with np.load(today) as first, np.load(planned) as second:
        for name in first.files:
            a, b = first[name], second[name]
            if same(a, b):
                continue
            if not distance(a, b) <= share * distance(a, np.zeros_like(a)):
                return ""
            said = "rounding"
    return said
