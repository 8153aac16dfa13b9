"""Layouts for compilers and firmware: a C header, a table, a pool file, a CSV; together or not at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.models import files_read, load_for
from lowtide.api.problem import Rules
from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import in_parts
from lowtide.sizes import NO_DIMS, Dims
from lowtide.target import Target

if TYPE_CHECKING:
    from lowtide.allocate.buffers import Problem
    from lowtide.api.placing import Placement
    from lowtide.outputs import Outputs
    from lowtide.write.arena_map import ArenaMap


@dataclass(frozen=True)
class Exports:
    """Files to write of a layout, each or none."""

    header: str | Path | None = None  # C and C++ macros: arena size, alignment, each tensor's offset and size
    table: str | Path | None = None  # text: which tensor is where, and when
    usmp: str | Path | None = None  # JSON with the records of TVM's unified static memory planner
    prefix: str = ""  # of the header's macros; empty: the model's name

    @property
    def paths(self) -> list[str | Path]:
        """The files to write."""
        return [path for path in (self.header, self.table, self.usmp) if path is not None]

    def write(self, layout: ArenaMap, outputs: Outputs) -> None:
        """Write the requested files of a layout into outputs that the caller commits."""
        if self.header is not None:
            from lowtide.write.c_header import c_header

            outputs.write(self.header, c_header(replace(layout, name=self.prefix or layout.name)))
        if self.table is not None:
            from lowtide.report.allocation_table import allocation_table

            outputs.write(self.table, allocation_table(layout).encode())
        if self.usmp is not None:
            from lowtide.write.usmp import usmp_json

            outputs.write(self.usmp, usmp_json(layout))


NO_EXPORTS = Exports()


@typed
def export(
    plan: Plan,
    model: Graph | str | Path,
    *,
    header: str | Path | None = None,
    table: str | Path | None = None,
    usmp: str | Path | None = None,
    target: str | Target = "auto",
    dims: Dims = NO_DIMS,
) -> None:
    """Write a plan's layout as a C header, a text table or TVM's pool records.

    Parameters
    ----------
    model
        The model that the plan is for, or its graph.
    header, table, usmp
        Files to write.
    target, dims
        As the plan was made with; ``"auto"`` takes the built-in target that the plan names.

    Raises
    ------
    InputError
        The plan is for another model or has no arena, or an output cannot be written.

    Examples
    --------
    ::

        plan = lowtide.research.plan("model.onnx")
        lowtide.export(plan, "model.onnx", header="model_arena.h", table="model_arena.txt")
    """
    from lowtide.outputs import Outputs

    layout = layout_of(plan, model, target, dims)
    with Outputs(files_read(model, target)) as outputs:
        Exports(header, table, usmp).write(layout, outputs)


def layout_of(plan: Plan, model: Graph | str | Path, target: str | Target = "auto", dims: Dims = NO_DIMS) -> ArenaMap:
    """Where every tensor of a plan is, and when. Raises as `export`."""
    from lowtide.api.moves.decisions import part_graph
    from lowtide.verify.check.parts import has_cuts
    from lowtide.write.arena_map import map_of_plan
    from lowtide.write.slots import check_order

    graph = planned_graph(plan, model, dims)
    place = graph.source or graph.name
    if plan.arena_bytes is None:
        raise InputError("the plan has no arena; plan the model again", place)
    if plan.moves:
        raise InputError(
            "the plan spills, so that a tensor has no one place; --commands writes what a driver runs", place
        )
    rules = Rules.of_plan(plan, target).resolve()
    if rules.name != plan.target:
        raise InputError(f"the plan is for target {plan.target!r}, not {rules.name!r}; name the plan's own", place)
    seen = part_graph(plan, graph).graph if has_cuts(plan) else rules.as_seen(graph)
    check_order(seen.ops, plan.order, place)
    return map_of_plan(plan, seen, rules)


def planned_graph(plan: Plan, model: Graph | str | Path, dims: Dims = NO_DIMS) -> Graph:
    """The graph that a plan is for. Raises `InputError` if that is another one."""
    sizes = dims if isinstance(model, Graph) else plan.sizes(dims)
    graph = load_for(model, sizes, tiles=in_parts(plan.rewrites))
    if graph.sha256 != plan.model_sha256:
        place = graph.source or graph.name
        raise InputError("the plan is for another model, or the file has changed; plan it again", place)
    return graph


def buffer_plan_of(plan: Plan, model: Graph | str | Path) -> bytes:
    """A plan as TFLM's `BufferPlan`, in a C++ header. Raises `InputError`: no plan for TFLM, or for another model."""
    from lowtide.api.moves.decisions import part_graph
    from lowtide.runtimes.registry import runtime_of
    from lowtide.runtimes.tflm.offline import offline_offsets
    from lowtide.verify.check.parts import has_cuts
    from lowtide.write.buffer_plan import buffer_plan
    from lowtide.write.declared import declared_of

    if plan.runtime_arenas is not None and plan.runtime_arenas.has_two_arrays:
        raise InputError(
            "a buffer plan is for one arena: TFLM takes no planner of one's own with two; -o writes the offsets into "
            "the model, and --header the sizes"
        )
    graph, offsets = planned_graph(plan, model), offline_offsets(plan)
    if has_cuts(plan):
        graph = part_graph(plan, graph).graph
    target = Rules.of_plan(plan).resolve()
    arena = None if offsets is None else runtime_of(target).required(graph, plan.order, offsets)
    if arena is None:
        place = graph.source or graph.name
        raise InputError("a buffer plan is for TFLM; plan a .tflite file under target tflm", place)
    name = Path(graph.source).stem
    return buffer_plan(name, arena.buffers, arena.planned_bytes, *declared_of(plan).values())


def write_placement(
    placed: Placement,
    problem: Problem,
    exports: Exports = NO_EXPORTS,
    *,
    name: str = "buffers",
    out: str | Path | None = None,
    source: str | Path | None = None,
    capacity: int | None = None,
) -> None:
    """Write placed buffers: as a CSV with offsets to `out`, and as `exports` asks; together or not at all. `name`:
    what the header's macros and the table begin with. `source`: the file that the buffers came from; no output may
    be it. `capacity`: bytes there are, if known. Raises `InputError`: an output is the input or cannot be written,
    or a CSV cannot hold a buffer's name."""
    from lowtide.outputs import Outputs
    from lowtide.write.arena_map import map_of_buffers

    with Outputs([] if source is None else [source]) as outputs:
        if out is not None:
            outputs.write(out, placed_csv(placed, problem).encode())
        regions = None
        if placed.memories is not None:
            regions = {m.name: (m.available_bytes, m.alignment) for m in placed.memories}
        layout = map_of_buffers(name, problem.buffers, placed.offsets, capacity, placed.memory_of, regions)
        exports.write(layout, outputs)


def placed_csv(placed: Placement, problem: Problem) -> str:
    """The buffers with their offsets, and their memories if there are several, as a CSV file. Raises `InputError`: a
    name that a CSV cannot hold."""
    from lowtide.allocate.csv_buffers import format_buffers

    places = None if placed.memory_of is None else {name: (memory,) for name, memory in placed.memory_of.items()}
    return format_buffers(problem, placed.offsets, places)
