"""Several models that run in turn and share one arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.allocate.placed import PlacedPlan, placed_plan
from lowtide.api.exports import Exports, layout_of
from lowtide.api.models import NO_DIMS, load
from lowtide.api.planning import Size, plan
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan, Status
from lowtide.sizes import parse_size
from lowtide.stop import Limits, Progress
from lowtide.target import Target, resolve

if TYPE_CHECKING:
    from lowtide.allocate.buffers import Buffer
    from lowtide.write.arena_map import ArenaMap


A_MOMENT_SECONDS = 0.1
"""Time for each model that is still to be planned once Ctrl-C was pressed."""


@dataclass(frozen=True)
class SharedModel:
    """A model of a shared arena: its name there, the arena that it needs alone, and its plan with shared offsets."""

    name: str
    alone_bytes: int
    plan: Plan


@dataclass(frozen=True)
class Shared:
    """One arena for models that run in turn.

    Attributes
    ----------
    arena_bytes
        Size of the arena.
    lower_bound_bytes
        No arena for these orders is smaller.
    optimal
        Whether they are equal.
    persistent_bytes
        What persistent and double-buffered tensors of all models take together, side by side.
    separate_bytes
        What arenas of their own would take together.
    status
        As that of a plan, if there is a budget.
    models
        In the order given.
    interrupted
        Whether Ctrl-C ended a search; the models after it were searched for a moment only.
    """

    arena_bytes: int
    lower_bound_bytes: int
    optimal: bool
    persistent_bytes: int
    separate_bytes: int
    status: Status
    models: list[SharedModel]
    interrupted: bool = False

    @property
    def exit_status(self) -> int:
        """0, 3 if the budget is exceeded, 4 if no order and no placement fits it, 130 if interrupted."""
        if self.interrupted:
            return 130
        return {"ok": 0, "over_budget": 3, "impossible": 4, "unproved": 6}[self.status]


def share(
    models: Sequence[Graph | str | Path],
    *,
    target: str | Target = "auto",
    budget: Size | None = None,
    persistent: Sequence[str] = (),
    double_buffered: Sequence[str] = (),
    time: float = 60.0,
    search_memory: Size = "2GiB",
    seed: int = 0,
    dims: Mapping[str, int] = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    report: Callable[[str, Progress], None] | None = None,
) -> Shared:
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
    from lowtide.allocate.arena import allocate_best
    from lowtide.allocate.buffers import Problem
    from lowtide.verify.check.plan import verify_plan
    from lowtide.verify.check.shared import check_shared

    if len(models) < 2:
        raise InputError("an arena is shared by two models or more; name at least two")
    room = None if budget is None else parse_size(budget, "budget")
    graphs = [m if isinstance(m, Graph) else load(m, _own_dims(m, dims)) for m in models]
    for name in (*persistent, *double_buffered):
        if not any(t.name == name for graph in graphs for t in graph.tensors):
            raise InputError(f"{name!r} is a tensor of none of the models; it cannot keep its memory")
    names = _names(models, graphs)
    parts: list[_Part] = []
    interrupted = False
    for graph, name in zip(graphs, names, strict=True):
        own = {t.name for t in graph.tensors}
        once, twice = [p for p in persistent if p in own], [p for p in double_buffered if p in own]
        settings: dict[str, Any] = {"time": time, "search_memory": search_memory, "seed": seed}
        if report is not None:
            settings["report"] = _teller(report, name)
        settings |= {"overwrite_inputs": overwrite_inputs, "pin_inputs": pin_inputs}
        made = plan(graph, target=target, persistent=once, double_buffered=twice, **settings)
        if made.stopped == "interrupt":
            interrupted, time = True, A_MOMENT_SECONDS
        rules = resolve(
            target,
            source=graph.source,
            overwrite_inputs=overwrite_inputs,
            pin_inputs=pin_inputs,
            persistent=once,
            double_buffered=twice,
        )
        if rules.rule:
            raise InputError(f"under target {rules.name} a model has its own arena; share one under another target")
        parts.append(_Part(name, graph, made, rules))
    steps = [max(len(part.made.order), 1) for part in parts]
    buffers: list[Buffer] = []
    spans: list[range] = []
    for k, part in enumerate(parts):
        moved = part.buffers(sum(steps[:k]), sum(steps))
        spans.append(range(len(buffers), len(buffers) + len(moved)))
        buffers += moved
    packing = allocate_best(Problem(tuple(buffers)), Limits(time, seed=seed))
    shared = [
        part.with_offsets(packing.offsets[span.start : span.stop], packing.height_bytes)
        for part, span in zip(parts, spans, strict=True)
    ]
    for part, made in zip(parts, shared, strict=True):
        verify_plan(part.graph, made, part.target)
    check_shared([(part.graph, made, part.target) for part, made in zip(parts, shared, strict=True)])
    kept_bytes = [part.persistent_bytes for part in parts]
    least = max(p.made.lower_bound_bytes + sum(kept_bytes) - own for p, own in zip(parts, kept_bytes, strict=True))
    status: Status = "ok"
    if room is not None and packing.height_bytes > room:
        status = "impossible" if least > room else "over_budget"
    return Shared(
        packing.height_bytes,
        packing.lower_bound_bytes,
        packing.height_bytes == packing.lower_bound_bytes,
        sum(kept_bytes),
        sum(part.made.arena_bytes or 0 for part in parts),
        status,
        [SharedModel(p.name, p.made.arena_bytes or 0, made) for p, made in zip(parts, shared, strict=True)],
        interrupted,
    )


def write_shared(
    found: Shared,
    models: Sequence[Graph | str | Path],
    exports: Exports,
    plans: str | Path | None,
    settings: Mapping[str, Any],
) -> list[str | Path]:
    """Write the layout of all models in one as `exports` asks, and each model's plan into the folder `plans`.

    Returns
    -------
    list
        The files written, together or not at all.

    Raises
    ------
    InputError
        An output is a model or cannot be written.
    """
    from lowtide.outputs import Outputs

    written = [path for path in exports.paths if path is not None]
    with Outputs([m for m in models if not isinstance(m, Graph) and not str(m).startswith("zoo:")]) as outputs:
        if written:
            name = Path(written[0]).name.split(".")[0]
            exports.write(shared_map(found, models, name, settings), outputs)
        if plans is not None:
            try:
                Path(plans).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot make the folder: {error.strerror}", str(plans)) from None
            for member in found.models:
                path = Path(plans) / f"{member.name}.plan.json"
                outputs.write(path, member.plan.to_json())
                written.append(path)
    return written


def shared_map(found: Shared, models: Sequence[Graph | str | Path], name: str, settings: Mapping[str, Any]) -> ArenaMap:
    """The layout of all models in one: names begin with the model's, and the steps of one come after the other's.

    `settings` are `target` and `dims`, as `share` was called with.
    """
    from dataclasses import replace

    from lowtide.write.arena_map import ArenaMap, Region

    places, blocks, steps = [], [], 0
    dims = settings.get("dims", NO_DIMS)
    total = sum(max(len(m.plan.order), 1) for m in found.models)
    for member, source in zip(found.models, models, strict=True):
        graph = source if isinstance(source, Graph) else load(source, _own_dims(source, dims))
        one = layout_of(member.plan, graph, settings.get("target", "auto"))
        kept = {*(member.plan.persistent or ()), *(member.plan.double_buffered or ())}
        places += [replace(p, name=f"{member.name}/{p.name}") for p in one.places]
        # By address: the block of a view has the name of another tensor.
        held = [p.offset for p in one.places if p.name in kept and p.purpose != "workspace"]
        base = len(blocks)
        for b in one.blocks:
            spans = tuple((lo + steps, hi + steps) for lo, hi in b.spans)
            if any(b.offset <= at < b.offset + b.size for at in held):
                spans = ((0, total),)
            over = None if b.over is None else b.over + base
            blocks.append(replace(b, name=f"{member.name}/{b.name}", spans=spans, over=over))
        steps += max(len(member.plan.order), 1)
    alignment = max(m.plan.alignment for m in found.models)
    return ArenaMap(name, (Region("arena", found.arena_bytes, alignment),), tuple(places), tuple(blocks), steps)


@dataclass(frozen=True)
class _Part:
    """A model with the plan that it has alone."""

    name: str
    graph: Graph
    made: Plan
    target: Target

    @cached_property
    def _placed(self) -> PlacedPlan:
        from lowtide.analyse.storage import memory_model

        return placed_plan(self.made, memory_model(self.graph, self.target))

    @cached_property
    def _kept(self) -> set[int]:
        """Buffers that hold something persistent."""
        model, made = self._placed.model, self._placed.buffers
        tensors = self.graph.tensor_by_id
        return {
            b
            for s, (b, _) in made.place_of.items()
            if any(self.target.copies(tensors[t]) for t in model.storages[s].tensors)
        }

    @property
    def persistent_bytes(self) -> int:
        """Bytes of what is persistent."""
        return sum(self._placed.buffers.problem.buffers[b].size for b in self._kept)

    def buffers(self, start: int, total: int) -> list[Buffer]:
        """This model's buffers in the steps from `start` on; what is persistent in all of `total`."""
        from dataclasses import replace

        from lowtide.allocate.buffers import Piece

        found = []
        for i, b in enumerate(self._placed.buffers.problem.buffers):
            moved = tuple(replace(p, start=p.start + start, end=p.end + start) for p in b.pieces)
            if i in self._kept:
                moved = (Piece(0, total, 0, b.size),)
            found.append(replace(b, name=f"{self.name}/{b.name}", pieces=moved))
        return found

    def with_offsets(self, offsets: Sequence[int], height: int) -> Plan:
        """The plan with these offsets of its buffers, in an arena of this height."""
        return self._placed.moved(offsets, height)


def _teller(report: Callable[[str, Progress], None], name: str) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        report(name, progress)

    return tell


def _own_dims(model: str | Path, dims: Mapping[str, int]) -> Mapping[str, int]:
    """Those sizes of free dimensions that a model has a use for."""
    if not dims:
        return dims
    try:
        load(model, dims)
    except InputError:
        own = {}
        for name, size in dims.items():
            try:
                load(model, {name: size})
            except InputError:
                continue
            own[name] = size
        return own
    return dims


def _names(models: Sequence[Graph | str | Path], graphs: Sequence[Graph]) -> list[str]:
    """A name for each model: its file's, its graph's, or a number after it where it is there already."""
    found: list[str] = []
    for model, graph in zip(models, graphs, strict=True):
        base = graph.name if isinstance(model, Graph) or str(model).startswith("zoo:") else Path(model).name
        base = base.split(".")[0] or "model"
        name, n = base, 1
        while name in found:
            n += 1
            name = f"{base}_{n}"
        found.append(name)
    return found
