"""What a runtime takes by its defaults for the unmodified file, and with a plan: the first row of every screen.

A target that is of no runtime has none of its own. For an ONNX file under one of those onnxruntime's follow the
plan: what it takes for the plan's order, though another order may suit it better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.graph import Graph
from lowtide.plan import RuntimeFigure
from lowtide.runtimes.base import Planned, Runtime
from lowtide.runtimes.registry import runtime_of
from lowtide.target import resolve


def runtime_figures(
    memory: MemoryModel, planned: Planned, *, quick: bool = False, uncut: MemoryModel | None = None
) -> list[RuntimeFigure] | None:
    """Both sides of each figure of a target's runtime. `memory`: the graph under its target. `quick`: whether to
    leave out the arena that another runtime's own planner makes of the plan, which takes a search. `uncut`: the
    user's own graph where `memory` is of its parts: what is taken by the defaults is of that. Returns: none if there
    is nothing to say: the graph came from no file of the runtime's."""
    own = runtime_of(memory.target)
    if type(own) is Runtime and memory.graph.dialect == "onnx":
        figures = _of_onnxruntime(memory.graph, planned, quick=quick)
        return figures if uncut is None else _with_defaults_of(uncut.graph, figures)
    return own.figures(memory if uncut is None else uncut, planned)


def _with_defaults_of(graph: Graph, figures: Sequence[RuntimeFigure]) -> list[RuntimeFigure]:
    """The figures, but with what is taken by the defaults for another graph."""
    own = _of_onnxruntime(graph, Planned(graph.own_order, 0, 0, None), quick=True)
    return [
        msgspec.structs.replace(figure, default_bytes=today.default_bytes)
        for figure, today in zip(figures, own, strict=True)
    ]


def _of_onnxruntime(graph: Graph, planned: Planned, *, quick: bool) -> list[RuntimeFigure]:
    """onnxruntime's figures for a plan that was made under rules of no runtime."""
    from lowtide.analyse.liveness import profile
    from lowtide.runtimes.onnxruntime import least_block
    from lowtide.runtimes.onnxruntime_defaults import figures

    target = resolve("onnxruntime")
    seen = target.as_seen(graph)
    memory = memory_model(seen, target)
    order = [seen.index_of[op] for op in target.as_run(seen, in_the_file(seen, planned.order))]
    steps = profile(memory, order)
    return figures(memory, steps.peak, None if quick else least_block(memory, order, steps))


def in_the_file(seen: Graph, order: Sequence[int]) -> list[int]:
    """Op ids in the order in which a written file has them: those that a plan leaves out keep their places.

    >>> from lowtide.graph import Graph, Op
    >>> in_the_file(Graph("g", (), tuple(Op(i, (), ()) for i in range(4))), [3, 1])
    [0, 3, 2, 1]
    """
    place: Mapping[int, int] = dict(zip(sorted(order), order, strict=True))
    return [place.get(op.id, op.id) for op in sorted(seen.ops, key=lambda op: op.id)]
