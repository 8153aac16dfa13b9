"""Several models that run in turn and share one arena."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.api.exports import Exports
from lowtide.api.goals import OneArena
from lowtide.api.job import NO_OPTIONS, CallOptions, Job, rules_of, search_of
from lowtide.api.models import files_read, load, load_own
from lowtide.api.objects import Model
from lowtide.api.planning import plan_job
from lowtide.api.problem import Rules
from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.names import FreeNames, brief
from lowtide.plan import Plan, Status, exit_status
from lowtide.sizes import NO_DIMS, Dims, Size, parse_size
from lowtide.stop import Limits, Progress
from lowtide.target import Target

if TYPE_CHECKING:
    from typing import Unpack

    from lowtide.allocate.buffers import Buffer
    from lowtide.allocate.greedy import Packing
    from lowtide.allocate.placed import Placed
    from lowtide.write.arena_map import ArenaMap, Block, Place


A_MOMENT_SECONDS = 0.1  # time for each model that is still to be planned once Ctrl-C was pressed


@dataclass(frozen=True, repr=False)
class SharedModel:
    """A model of a shared arena: its name there, the arena that it needs alone, and its plan with shared offsets."""

    name: str
    alone_bytes: int
    plan: Plan

    def __repr__(self) -> str:
        return brief(self, "name alone_bytes")


@dataclass(frozen=True, repr=False)
class Shared:
    """One arena for models that run in turn."""

    arena_bytes: int  # size of the arena
    lower_bound_bytes: int  # no arena for these orders is smaller
    optimal: bool  # whether they are equal
    persistent_bytes: int  # what persistent and double-buffered tensors of all models take together, side by side
    separate_bytes: int  # what arenas of their own would take together
    status: Status  # as that of a plan, if there is a budget
    models: list[SharedModel]  # in the order given
    interrupted: bool = False  # whether Ctrl-C ended a search; the models after it were searched for a moment only

    def __repr__(self) -> str:
        return brief(self, "arena_bytes lower_bound_bytes optimal persistent_bytes separate_bytes status models")

    @property
    def exit_status(self) -> int:
        """0, 3 if the budget is exceeded, 4 if no order and no placement fits it, 130 if interrupted."""
        return exit_status(self.status, interrupted=self.interrupted)


@dataclass(frozen=True, repr=False)
class SharedArena(Shared):
    """A shared arena with what each model was planned as, which its exports are made of."""

    graphs: tuple[Graph, ...] = field(default=(), repr=False, compare=False)
    targets: tuple[Target, ...] = field(default=(), repr=False, compare=False)

    @property
    def document(self) -> dict[str, Any]:
        """What `lowtide research share --json` prints: all but graphs and targets."""
        return {f.name: getattr(self, f.name) for f in fields(Shared)}


@typed
def share(
    models: Sequence[Model],
    *,
    budget: Size | None = None,
    persistent: Sequence[str] = (),
    double_buffered: Sequence[str] = (),
    report: Callable[[str, Progress], None] | None = None,
    **given: Unpack[CallOptions],
) -> SharedArena:
    """Plan models that never run at the same time into one arena.

    Each model gets its own best order; what is live in one uses the same bytes as what is live in the others.
    Persistent and double-buffered tensors of all of them lie side by side. The models' inputs and outputs are gone once
    another model runs: name those that must stay.

    Parameters
    ----------
    models
        Two or more, each as for `plan`.
    budget
        Bytes that the arena may take.
    persistent, double_buffered
        Names of tensors; each holds for every model that has a tensor of this name.
    target, time, search_memory, seed, dims, overwrite_inputs, pin_inputs
        As for `plan`; the time is each model's. A name in `dims` may be of some models only.
    report
        Called as by `plan`, with the model's name before.

    Raises
    ------
    InputError
        As `plan`, or a name that is in no model.
    """
    if len(models) < 2:
        raise InputError("an arena is shared by two models or more; name at least two")
    room = None if budget is None else parse_size(budget, "budget")
    goal = OneArena()
    search = search_of(given, goal.method("exact", NO_OPTIONS))
    rules = rules_of(given, persistent=persistent, double_buffered=double_buffered)
    graphs = _load_all(models, given.get("dims", NO_DIMS))
    _check_named(graphs, rules.named)
    jobs = [Job(graph, NO_DIMS, _own_rules(rules, graph), goal, search) for graph in graphs]
    for job in jobs:
        if job.target.rule:
            raise InputError(
                f"under target {job.target.name} a model has its own arena; share one under another target"
            )
    parts: list[_Part] = []
    for name, job in zip(_names(models, graphs), jobs, strict=True):
        late = any(part.plan.stopped == "interrupt" for part in parts)
        job = replace(job, search=replace(search, seconds=A_MOMENT_SECONDS)) if late else job
        parts.append(_Part.of(name, job, report))
    return _in_one_arena(parts, room)


def write_shared(
    shared: SharedArena,
    models: Sequence[Model],
    exports: Exports,
    plans: str | Path | None,
    target: str | Target = "auto",
) -> list[str | Path]:
    """Write the layout of all models in one as `exports` asks, and each model's plan into the folder `plans`, which
    is there. No file is written over a model, or over the file of `target`, which was planned under. Returns: the
    files written, together or not at all. Raises `InputError`: an output is a model or cannot be written."""
    from lowtide.outputs import Outputs

    written = exports.paths
    with Outputs([path for m in models for path in files_read(m, target)]) as outputs:
        if written:
            exports.write(shared_map(shared, Path(written[0]).name.split(".")[0]), outputs)
        for member in shared.models if plans is not None else ():
            path = Path(plans or "") / f"{member.name}.plan.json"
            outputs.write(path, member.plan.to_json())
            written.append(path)
    return written


@contextmanager
def shared_outputs(
    models: Sequence[Model], exports: Exports, plans: str | Path | None, target: str | Target = "auto"
) -> Iterator[None]:
    """The folder of the plans, while an arena is planned and written into it; and that the files can be written. Raises
    `InputError`: as `write_shared`, before any time is spent on planning."""
    from lowtide.outputs import Outputs, output_folder

    with nullcontext() if plans is None else output_folder(plans):
        outputs = Outputs([path for model in models for path in files_read(model, target)])
        try:
            for path in (*exports.paths, *(() if plans is None else (Path(plans) / ".plan.json",))):
                with outputs.create(path):
                    pass
        finally:
            outputs.discard()
        yield


def shared_map(shared: SharedArena, name: str) -> ArenaMap:
    """The layout of all models in one: names begin with the model's, and the steps of one come after the other's."""
    from lowtide.write.arena_map import ArenaMap, Region, map_of_plan

    places: list[Place] = []
    blocks: list[Block] = []
    steps = 0
    total = sum(max(len(m.plan.order), 1) for m in shared.models)
    for member, graph, target in zip(shared.models, shared.graphs, shared.targets, strict=True):
        one = map_of_plan(member.plan, graph, target)
        places += [replace(p, name=f"{member.name}/{p.name}") for p in one.places]
        blocks += _later(one, member, range(steps, total), len(blocks))
        steps += max(len(member.plan.order), 1)
    alignment = max(m.plan.alignment for m in shared.models)
    return ArenaMap(name, (Region("arena", shared.arena_bytes, alignment),), tuple(places), tuple(blocks), steps)


def _later(one: ArenaMap, member: SharedModel, steps: range, base: int) -> list[Block]:
    """A model's blocks among those of all, from the first of `steps` on; what it keeps is there throughout. Blocks
    are numbered from `base`."""
    kept = {*(member.plan.persistent or ()), *(member.plan.double_buffered or ())}
    # By address: the block of a view has the name of another tensor.
    held = [p.offset for p in one.places if p.name in kept and p.purpose != "workspace"]
    blocks = []
    for b in one.blocks:
        spans = tuple((lo + steps.start, hi + steps.start) for lo, hi in b.spans)
        if any(b.offset <= at < b.offset + b.size for at in held):
            spans = ((0, steps.stop),)
        over = None if b.over is None else b.over + base
        blocks.append(replace(b, name=f"{member.name}/{b.name}", spans=spans, over=over))
    return blocks


@dataclass(frozen=True)
class _Part:
    """A model with the plan that it has alone."""

    name: str
    job: Job
    graph: Graph
    plan: Plan

    @classmethod
    def of(cls, name: str, job: Job, report: Callable[[str, Progress], None] | None) -> _Part:
        def tell(progress: Progress) -> None:
            if report is not None:
                report(name, progress)

        plan = plan_job(job, report=None if report is None else tell)
        return cls(name, job, job.target.as_seen(load(job.model)), plan)

    @cached_property
    def placed(self) -> Placed:
        """Its arena as buffers."""
        from lowtide.allocate.placed import Placed
        from lowtide.analyse.storage import memory_model

        return Placed.of_plan(self.plan, memory_model(self.graph, self.job.target))

    @cached_property
    def _kept(self) -> set[int]:
        """Buffers that hold something persistent."""
        model, buffers = self.placed.model, self.placed.buffers
        tensors, target = self.graph.tensor_by_id, self.job.target
        return {
            b
            for s, (b, _) in buffers.place_of.items()
            if any(target.copies(tensors[t]) for t in model.storages[s].tensors)
        }

    @property
    def steps(self) -> int:
        """Steps that it runs for."""
        return max(len(self.plan.order), 1)

    @property
    def persistent_bytes(self) -> int:
        """Bytes of what is persistent."""
        return sum(self.placed.buffers.problem.buffers[b].size for b in self._kept)

    def buffers(self, start: int, total: int) -> list[Buffer]:
        """This model's buffers in the steps from `start` on; what is persistent in all of `total`."""
        from lowtide.allocate.buffers import Rectangle

        buffers = []
        for i, b in enumerate(self.placed.buffers.problem.buffers):
            moved = tuple(p._replace(start=p.start + start, end=p.end + start) for p in b.rectangles)
            if i in self._kept:
                moved = (Rectangle(0, total, 0, b.size),)
            buffers.append(replace(b, name=f"{self.name}/{b.name}", rectangles=moved))
        return buffers

    def in_arena(self, offsets: Sequence[int], height: int) -> Plan:
        """The plan with these offsets of its buffers, in an arena of this height."""
        import msgspec

        from lowtide.api.answer import by_id

        placed = replace(self.placed, offsets=tuple(offsets))
        bound = self.plan.arena_lower_bound_bytes
        return msgspec.structs.replace(
            self.plan,
            offsets=by_id(placed.tensor_offsets()),
            workspace_offsets=by_id(placed.workspace_offsets()) or None,
            arena_bytes=height,
            required_bytes=height + (self.plan.reserve_bytes or 0),
            arena_optimal=None if bound is None else bound == height,
        )


def _in_one_arena(parts: Sequence[_Part], room: int | None) -> SharedArena:
    """Pack all parts, and check each plan and all together."""
    packing, shared = _pack(parts)
    _verify(parts, shared)
    kept_bytes = [part.persistent_bytes for part in parts]
    least = max(p.plan.lower_bound_bytes + sum(kept_bytes) - own for p, own in zip(parts, kept_bytes, strict=True))
    status: Status = "ok"
    if room is not None and packing.height_bytes > room:
        status = "impossible" if least > room else "over_budget"
    return SharedArena(
        packing.height_bytes,
        packing.lower_bound_bytes,
        packing.height_bytes == packing.lower_bound_bytes,
        sum(kept_bytes),
        sum(part.plan.arena_bytes or 0 for part in parts),
        status,
        [SharedModel(p.name, p.plan.arena_bytes or 0, plan) for p, plan in zip(parts, shared, strict=True)],
        any(part.plan.stopped == "interrupt" for part in parts),
        tuple(part.graph for part in parts),
        tuple(part.job.target for part in parts),
    )


def _pack(parts: Sequence[_Part]) -> tuple[Packing, list[Plan]]:
    """One arena for the buffers of all parts, and each plan in it."""
    from lowtide.allocate.arena import allocate_best
    from lowtide.allocate.buffers import Problem

    total = sum(part.steps for part in parts)
    buffers: list[Buffer] = []
    spans: list[range] = []
    start = 0
    for part in parts:
        own = part.buffers(start, total)
        spans.append(range(len(buffers), len(buffers) + len(own)))
        buffers += own
        start += part.steps
    search = parts[-1].job.search
    packing = allocate_best(Problem(tuple(buffers)), Limits(search.seconds, seed=search.seed))
    plans = [
        part.in_arena(packing.offsets[span.start : span.stop], packing.height_bytes)
        for part, span in zip(parts, spans, strict=True)
    ]
    return packing, plans


def _verify(parts: Sequence[_Part], plans: Sequence[Plan]) -> None:
    from lowtide.verify.check.plan import verify_plan
    from lowtide.verify.check.shared import check_shared

    members = [(part.graph, plan, part.job.target) for part, plan in zip(parts, plans, strict=True)]
    for graph, plan, target in members:
        verify_plan(graph, plan, target)
    check_shared(members)


def _load_all(models: Sequence[Model], dims: Dims) -> list[Graph]:
    """Each model with those sizes of free dimensions that it has a use for. Raises `InputError` if none has for one."""
    loaded = [load_own(model, dims) for model in models]
    used = {name for _, own in loaded for name in own}
    for name in dims:
        if name not in used:
            raise InputError(f"none of the models has a free dimension {name!r}; leave it out")
    return [graph for graph, _ in loaded]


def _check_named(graphs: Sequence[Graph], names: Sequence[str]) -> None:
    for name in names:
        if not any(t.name == name for graph in graphs for t in graph.tensors):
            raise InputError(f"{name!r} is a tensor of none of the models; it cannot keep its memory")


def _own_rules(rules: Rules, graph: Graph) -> Rules:
    """The rules with the tensors that a graph has."""
    own = {t.name for t in graph.tensors}
    return replace(
        rules,
        persistent=[name for name in rules.persistent if name in own],
        double_buffered=[name for name in rules.double_buffered if name in own],
    )


def _names(models: Sequence[Model], graphs: Sequence[Graph]) -> list[str]:
    """A name for each model: its file's, its graph's, or a number after it where it is there already."""
    names, free = list[str](), FreeNames(first=2)
    for model, graph in zip(models, graphs, strict=True):
        file = isinstance(model, str | Path) and not str(model).startswith("zoo:")
        base = Path(str(model)).name if file else graph.name
        base = base.split(".")[0] or "model"
        names.append(free.take(base))
    return names
