"""Are the runtime's figures in a plan those of the plan, and of its order?

What a runtime takes by its defaults is not checked here: `--run` measures it.
"""

from __future__ import annotations

import msgspec

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Figures, Plan, RuntimeFigure
from lowtide.target import Target, resolve
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.order import simulate

_COUNTS = {field.name for field in msgspec.structs.fields(Figures)} - {"arena_lost"}


_KNOWN = {
    ("TFLM", "kTensorArenaSize"),
    ("TFLM", "head"),
    ("LiteRT", "arena"),
    ("onnxruntime", "in use"),
    ("onnxruntime", "arena"),
    ("PyTorch, eager", "in use"),
}
"""Runtimes, and what is said of them."""


def check_counts(plan: Plan) -> None:
    """See that what a search reports of itself can be read; whether it is true cannot be checked afterwards. Raises
    `VerificationError`: ``search``: text, or less than nothing, under a name of `Figures` that is of numbers."""
    for name, value in (plan.search or {}).items():
        if name in _COUNTS and (isinstance(value, str) or (isinstance(value, int | float) and value < 0)):
            raise VerificationError("search", f"search.{name} is {value!r}, which counts nothing")


def check_figures(graph: Graph, plan: Plan, target: Target, *, thorough: bool) -> str:
    """Check what the figures say of the plan: what was seen, or nothing if there are none. `thorough`: whether to
    follow the order under the rules of a runtime that is not the target's. Raises `VerificationError`:
    ``runtime_figures``: bytes that are not the plan's, or a figure of a runtime that has nothing to do with it."""
    own = target.rule or target.name
    kinds = [(figure.runtime, figure.what) for figure in plan.runtime_figures or ()]
    if len(set(kinds)) < len(kinds) or not _KNOWN.issuperset(kinds):
        raise VerificationError("runtime_figures", f"one of {kinds} stands there twice, or is not known")
    for figure in plan.runtime_figures or ():
        if figure.default_bytes < 0:
            raise _wrong(figure, "its defaults take less than nothing")
        if own in ("tflm", "tflite", "onnxruntime", "torch"):
            expected = {
                "head": plan.arena_bytes,
                "kTensorArenaSize": plan.runtime_arena_bytes,
                "arena": plan.runtime_arena_bytes,
                "in use": plan.peak_bytes,
            }.get(figure.what)
            if figure.planned_bytes != expected:
                raise _wrong(figure, f"the plan has {expected}")
        elif graph.dialect != "onnx" or figure.runtime != "onnxruntime":
            raise _wrong(figure, f"target {target.name} and this model have nothing to do with it")
        elif thorough and figure.planned_bytes is not None:
            needed = _in_use(graph, plan)
            if figure.planned_bytes < needed or (figure.what == "in use" and figure.planned_bytes > needed):
                raise _wrong(figure, f"the plan's order needs {needed}")
    return (
        ""
        if not plan.runtime_figures
        else "follow from the plan; those of today were not checked (--run measures them)"
    )


def _wrong(figure: RuntimeFigure, why: str) -> VerificationError:
    said = f"{figure.runtime}: {figure.what} {figure.planned_bytes}"
    return VerificationError("runtime_figures", f"{said}, and {why}")


def _in_use(graph: Graph, plan: Plan) -> int:
    """Most bytes at once in onnxruntime, for the file that has the plan's ops in its order and all others in place."""
    target = resolve("onnxruntime")
    seen = target.as_seen(graph)
    planned, following = set(plan.order), iter(plan.order)
    in_file = [next(following) if op in planned else op for op in sorted(o.id for o in seen.ops)]
    return simulate(seen, work_out(seen, target), target.as_run(seen, in_file)).peak
