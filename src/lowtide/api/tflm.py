"""What TFLM makes of a plan: the smallest arena, with its parts; and a .tflite file as it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.models import load
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan, RuntimeParts
from lowtide.rules.tflm.rule import ALIGNMENT, NPU, scratch_unknown
from lowtide.target import Target, resolve

if TYPE_CHECKING:
    from lowtide.verify.report import Report

MOST_BYTES = 256 * 2**20
"""Files above this size are no models for microcontrollers: they get no offline plan."""


@dataclass(frozen=True)
class TflmArena:
    """Head and smallest arena of a file in TFLM, in bytes, the parts, and each buffer's offset as TFLM adds them."""

    head_bytes: int
    required_bytes: int
    parts: RuntimeParts
    buffers: tuple[int, ...]


def arena_of_plan(graph: Graph, target: Target, order: Sequence[int], offsets: Mapping[int, int]) -> TflmArena | None:
    """TFLM's arena for a plan: op ids in order, offset by tensor id. None for a graph that came from no .tflite file.

    What the plan leaves to TFLM (other subgraphs, inputs that nobody reads) is placed as TFLM places it. None as well
    for a file that Vela compiled: its own plan stands; and for one above `MOST_BYTES`.

    Raises
    ------
    InputError
        TFLM cannot take an offline plan for this file.
    """
    from lowtide.write.tflite import planned_bytes

    if not _tflm_file(graph, target) or any(op.type == NPU for op in graph.ops):
        return None
    if Path(graph.source).stat().st_size > MOST_BYTES:
        return None
    return _arena(planned_bytes(Path(graph.source).read_bytes(), order, offsets, graph.source), graph.source, target)


def arena_as_is(graph: Graph, target: Target) -> TflmArena | None:
    """TFLM's arena for a .tflite file as it stands, with the offline plan that it holds, if any.

    Raises
    ------
    InputError
        The file's offline plan is for another number of tensors.
    """
    return _arena(Path(graph.source).read_bytes(), graph.source, target)


def _arena(data: bytes, place: str, target: Target) -> TflmArena | None:
    """The arena of a file, from its bytes. None if it has too many buffers to play TFLM's planner through."""
    from lowtide.read.tflite.model import parse_tflite, read_offline_plan
    from lowtide.read.tflite.reader import graph_of
    from lowtide.runtimes.tflm.builds import build_for
    from lowtide.runtimes.tflm.least import least_parts
    from lowtide.runtimes.tflm.persistent import arena_parts
    from lowtide.runtimes.tflm.planner import tflm_head

    model = parse_tflite(data, place)
    graph = graph_of(model, [], place, "")
    head = tflm_head(model, graph, graph.own_order, read_offline_plan(data, place), target.tflm_rule)
    if head is None:
        return None
    build = build_for(target)
    parts = arena_parts(model, graph, graph.own_order, build)
    hidden = [op.type for op in graph.ops if scratch_unknown(op, target.kernels)]
    least = least_parts(model, graph, target)
    return TflmArena(
        head.bytes,
        parts.smallest_arena(head.bytes),
        RuntimeParts(
            planned=head.bytes,
            scratch=parts.scratch_bytes,
            persistent=parts.persistent_bytes,
            planning=max(parts.planning_bytes, parts.preparing_bytes),
            alignment=16,
            exact=parts.exact_for(head.bytes) and not hidden,
            unknown=list(dict.fromkeys((*parts.unknown, *hidden))),
            least_beside=least.beside_bytes,
            least_planning=least.planning_bytes,
            least_head=least.head_bytes,
            kernels=target.kernels,
            build=build.words,
        ),
        head.buffers,
    )


def buffer_plan_of(made: Plan, model: Graph | str | Path) -> bytes:
    """A plan as TFLM's `BufferPlan`, in a C++ header.

    Raises
    ------
    InputError
        No plan for TFLM, or for another model.
    """
    from lowtide.write.buffer_plan import buffer_plan

    graph = model if isinstance(model, Graph) else load(model)
    if graph.sha256 != made.model_sha256:
        raise InputError("the plan is for another model, or the file has changed; plan it again", graph.source)
    offsets = {int(t): at for t, at in (made.offsets or {}).items()}
    found = None if made.runtime_parts is None else arena_of_plan(graph, BUILT_IN["tflm"], made.order, offsets)
    if found is None:
        raise InputError("a buffer plan is for TFLM; plan a .tflite file under target tflm", graph.source or graph.name)
    name = Path(graph.source).stem
    exact = made.runtime_parts is not None and made.runtime_parts.exact
    return buffer_plan(name, found.buffers, found.head_bytes, found.required_bytes, exact=exact)


def _tflm_file(graph: Graph, target: Target) -> bool:
    return target.rule == "tflm" and graph.source.lower().endswith(".tflite")


def beside(graph: Graph, target: Target) -> int:
    """Bytes of the smallest arena that no plan changes, but for some 16 of alignment; 0 under other targets."""
    if not _tflm_file(graph, target):
        return 0
    from lowtide.read.tflite.model import parse_tflite
    from lowtide.runtimes.tflm.builds import build_for
    from lowtide.runtimes.tflm.persistent import arena_parts

    model = parse_tflite(Path(graph.source).read_bytes(), graph.source)
    return arena_parts(model, graph, graph.own_order, build_for(target)).persistent_bytes + ALIGNMENT


def as_it_stands(made: Plan, model: Graph | str | Path, target: str | Target) -> Plan:
    """A plan of the own order with what TFLM makes of the file itself instead: its own offsets, or its own planner.

    Raises
    ------
    InputError
        The file's offline plan is for another number of tensors.
    VerificationError
        Its offline plan puts tensors over others that are alive, or an output where its input is still to be read.
    """
    import msgspec

    from lowtide.read.tflite.model import read_offline_plan

    graph = model if isinstance(model, Graph) else load(model)
    rules = resolve(target, source=graph.source)
    if not _tflm_file(graph, rules):
        return made
    found = arena_as_is(graph, rules)
    if read_offline_plan(Path(graph.source).read_bytes(), graph.source) is not None:
        verify_file(graph, target)
    if found is None:
        return made
    required = found.required_bytes + (made.reserve_bytes or 0)
    fits = made.budget_bytes is None or required <= made.budget_bytes
    status = "ok" if fits else "impossible" if made.status == "impossible" else "over_budget"
    return msgspec.structs.replace(
        made,
        arena_bytes=found.head_bytes,
        required_bytes=required,
        runtime_arena_bytes=found.required_bytes,
        runtime_parts=found.parts,
        status=status,
    )


def verify_file(model: Graph | str | Path, target: str | Target = "auto") -> Report:
    """Check the offline plan that a .tflite file holds, with code that shares nothing with the planner.

    A file that lowtide wrote says for whose kernels its plan holds, and is judged by that unless `target` names some.

    Raises
    ------
    InputError
        No .tflite file, or one without an offline plan.
    VerificationError
        ``offline_plan``, ``alignment`` or ``overlap``: what TFLM would not notice, and compute wrong results with.
    """
    from dataclasses import replace

    from lowtide.read.tflite.model import parse_file
    from lowtide.rules.tflm.libraries import KERNEL_WORDS
    from lowtide.verify.check.offline import check_offline_plan

    graph = model if isinstance(model, Graph) else load(model)
    if not graph.source.lower().endswith(".tflite"):
        raise InputError("give the plan to check as well; only a .tflite file can hold one itself", str(model))
    data = Path(graph.source).read_bytes()
    file = parse_file(data, graph.source)
    listed = file.offline_plan()
    if listed is None:
        raise InputError("it holds no offline plan; give the plan to check as well", graph.source)
    rules = resolve(target, source=graph.source)
    if rules.rule == "tflm" and rules.kernels == "any" and file.kernels in KERNEL_WORDS:
        rules = replace(rules, kernels=file.kernels)
    return check_offline_plan(graph, rules, listed, file.model.tensor_count)


def with_arena(made: Plan, graph: Graph, target: Target) -> Plan:
    """The plan with what TFLM needs for it: the head that it measures, and the smallest kTensorArenaSize."""
    import msgspec

    found = arena_of_plan(graph, target, made.order, {int(t): at for t, at in (made.offsets or {}).items()})
    if found is None:
        return made
    arena = max(found.head_bytes, made.arena_bytes or 0)
    return msgspec.structs.replace(
        made,
        arena_bytes=arena,
        arena_optimal=arena == made.arena_lower_bound_bytes,
        runtime_arena_bytes=found.required_bytes,
        runtime_parts=msgspec.structs.replace(found.parts, own_planned=_own_head(graph, target)),
    )


def _own_head(graph: Graph, target: Target) -> int | None:
    """Head of the file as it stands; None if TFLM refuses its offline plan."""
    try:
        found = arena_as_is(graph, target)
    except InputError:
        return None
    return None if found is None else found.head_bytes
