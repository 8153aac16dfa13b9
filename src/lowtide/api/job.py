"""The call as one object: a model, the rules that it runs under, a goal, and how long to search for it.

    plan(model, ...)  ->  Job  ->  Problem  ->  goal.solve  ->  Answer  ->  Plan

Everything here is frozen, and checked when it is made: a job that is there can be planned, but for what the model's
file may hold. It can be pickled, and its plan is the same in another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from lowtide.api.answer import Answer
from lowtide.api.costs import Costs
from lowtide.api.models import load, load_for
from lowtide.api.objects import Model, is_program
from lowtide.api.problem import Problem, Rules, aliasing_target
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.rewrites import ALL
from lowtide.sizes import NO_DIMS, Dims, Size, parse_size
from lowtide.stop import Limits, Progress
from lowtide.target import Target

if TYPE_CHECKING:
    from lowtide.optimize.recompute.method import RecomputeMethod
    from lowtide.plan import Plan
    from lowtide.schedule.method import Method
    from lowtide.spill.answer import SpillMethod

Options = Mapping[str, str]
NO_OPTIONS: Options = {}


def check_time(seconds: float) -> None:
    """Raise `InputError` unless this is a limit for a search."""
    if not 0 < seconds < 1e9:
        raise InputError(f"time is {seconds!r}; give a positive number of seconds")


def check_unlimited(target: Target) -> None:
    """Raise `InputError` if a target limits single tensors, for a plan that does not keep such a limit."""
    if target.max_tensor:
        raise InputError(
            "a limit of single tensors is for plans of one arena whose operators run untiled or in tiles of a model "
            "file; leave out max_tensor, or what else was asked for: several memories, row streaming, offload, or a "
            "training step",
            target.name,
        )


class CallOptions(TypedDict, total=False):
    """What `plan`, `inspect`, `compare` and `share` all take; the docstring of `plan` says what it means."""

    target: str | Target
    time: float
    search_memory: Size
    seed: int
    dims: Dims
    overwrite_inputs: bool
    pin_inputs: bool


def rules_of(given: CallOptions, **more: Any) -> Rules:
    """The rules that a call names; `more`: other fields of them."""
    changed = given.get("overwrite_inputs", False), given.get("pin_inputs", False)
    return Rules(given.get("target", "auto"), *changed, **more)


def search_of(given: CallOptions, method: Method | SpillMethod, seconds: float = 60.0, **more: Any) -> Search:
    """The search that a call asks for. Raises `InputError`: it has no such limits; `seconds`: where it names none."""
    memory_bytes = parse_size(given.get("search_memory", "2GiB"), "search memory")
    seconds = given.get("time", seconds)
    return Search(method, seconds, memory_bytes, given.get("seed", 0), timed="time" in given, **more)


PATIENT = 100.0
"""Where a call names no time, the clock ends a search when it took so many times as long as its work does on a quiet
machine: one that is as many times slower, or as busy, makes the same plan."""


@dataclass(frozen=True)
class Search:
    """How to search, and when to stop."""

    method: Method | SpillMethod  # a scheduling method, or for a fast memory one that spills
    # seconds, memory_bytes: limits of the search.
    seconds: float = 60.0
    memory_bytes: int = 2 * 1024**3
    seed: int = 0  # for what is drawn at random
    # Whether to stop once a budget is met or proved impossible, and leave out the byte-level replay.
    quick: bool = False
    require_optimal: bool = False  # whether a plan that is not proved optimal has status ``"unproved"``
    gap: float = 0.0  # part of the peak that the bound may lack; 0: the peak is to be proved optimal
    timed: bool = False  # whether the call names the seconds: then the clock ends the search after as many

    def __post_init__(self) -> None:
        check_time(self.seconds)
        if self.gap and self.method.name != "exact":
            raise InputError(f"--gap is for the exact search for a peak, not for {self.method.name}; leave it out")

    @property
    def best(self) -> bool:
        """Whether the order is ours to choose: with any other method than the exact one, it is that method's."""
        return self.method.name == "exact"

    def limits(
        self, trace: list[Progress] | None, report: Callable[[Progress], None] | None, *, counted: bool = False
    ) -> Limits:
        """Limits whose clock starts now. `counted`: whether the searches count their work."""
        limits = Limits(self.seconds, self.memory_bytes, self.seed, gap=self.gap, trace=trace, report=report)
        if not counted:
            return limits
        return replace(limits, seconds=self.seconds * (1.0 if self.timed else PATIENT), work_seconds=self.seconds)


class Goal(Protocol):
    """What a plan is to reach: a strategy with options, as a method is one.

    The goals are in `lowtide.api.goals`: `OneArena`, `SeveralMemories`, `FastMemory`.
    """

    def methods(self) -> list[str]:
        """Names of the methods there are for it."""
        ...

    def method(self, name: str | Method, options: Options) -> Method | SpillMethod:
        """The method of a name, or one that is made already. Raises `InputError` if there is none, or not with such
        options."""
        ...

    def under(self, target: Target) -> Target:
        """The target with what the goal says of the device: a board has pointers of so many bits."""
        ...

    def check(self, job: Job) -> None:
        """See that everything that a job asks for can be honoured. Raises `InputError` naming what cannot."""
        ...

    def why_not(self, problem: Problem, method: Method | SpillMethod) -> str | None:
        """Why a method cannot do this, in a few words; None if it can."""
        ...

    def solve(self, problem: Problem, search: Search, limits: Limits) -> Answer:
        """Find an order, and addresses. Raises `InputError` if the method cannot do this."""
        ...


@dataclass(frozen=True)
class Job:
    """What a person asks for. Raises `InputError`: something asked for is wrong, or the goal cannot honour it."""

    model: Model  # a graph, or what `lowtide.load` takes
    dims: Dims  # sizes of the model's free dimensions
    rules: Rules
    goal: Goal
    search: Search
    allow: tuple[str, ...] = ()  # what of the graph may be changed (`lowtide.rewrites.ALLOWED`)
    exact_bits: bool = False  # whether a change must not move a bit of the results
    max_ops: int = 0  # ops that a changed graph may have; 0: any number
    # What ops take: of the changed graphs of one peak the one of least predicted time is taken, within its bound.
    costs: Costs | None = None
    repeats: RecomputeMethod | None = None  # a published method of recomputation; None: lowtide's own
    stream_input: bool = False  # whether the caller hands graph inputs over row by row, as loops ask for them
    warm_start: Plan | None = None  # a plan of the model that the search begins with: what is found is no worse
    # What each op counts for when plans are compared, since a runtime keeps so much for it outside the arena.
    op_bytes: int = 0
    # The rules for this model. It goes along when the job is pickled, so that a target's file is read once.
    target: Target = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", dict(self.dims))
        if is_program(self.model):  # read once, and pickled as a graph
            object.__setattr__(self, "model", load(self.model, self.dims))
            object.__setattr__(self, "dims", NO_DIMS)
        target = self.goal.under(self.rules.resolve(self.source))
        object.__setattr__(self, "target", aliasing_target(target) if "alias" in self.allow else target)
        given = {"--exact-bits": self.exact_bits, "--max-ops": self.max_ops, "--cost": self.costs}
        if self.costs is not None and self.costs.max_overhead is not None:
            given["--max-overhead"] = given.pop("--cost")
        name = next((name for name, value in given.items() if value), None)
        if name is not None and not self.allow:
            raise InputError(f"{name} is about what --allow may change; name that, as with --allow tile")
        others = [word for word in self.named if word != "alias"]
        if others and (target.chains != "apart" or target.aliases_keep_file_layout):
            raise InputError(
                f"--allow {others[0]} changes single ops: leave out chains={target.chains} and layout={target.layout}, "
                "which go with --allow alias",
                target.name,
            )
        if self.stream_input and "row-streaming" not in self.allow:
            raise InputError(
                "--stream-input is about inputs that loops read row by row; it needs --allow row-streaming"
            )
        if self.max_ops < 0:
            raise InputError(f"--max-ops is {self.max_ops}; give a number of ops, or 0 for any")
        self.goal.check(self)

    @property
    def named(self) -> tuple[str, ...]:
        """The changes that the call names; those that `ALL` means go together with everything else."""
        return () if self.allow == (ALL,) else self.allow

    @property
    def source(self) -> str:
        """The model's path, or empty."""
        return self.model.source if isinstance(self.model, Graph) else str(self.model)

    def problem(self) -> Problem:
        """Read the model. Raises `InputError`: it cannot be read, or a tensor that the rules name is not in the
        arena."""
        graph = load_for(self.model, self.dims, tiles=bool({"tile", "concat"} & set(self.allow)))
        return Problem.of(self.target.as_seen(graph), self.target)

    def of_graph(self, graph: Graph) -> Job:
        """The same for a graph that is read already."""
        return replace(self, model=graph, dims=NO_DIMS, rules=replace(self.rules, target=self.target))
