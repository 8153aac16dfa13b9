"""Are the runtime's figures in a plan those of the plan, and of its order?

What a runtime takes by its defaults is not checked here: `--run` measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Op
from lowtide.ops.families import flops_of
from lowtide.ops.forms import Contraction, Convolution
from lowtide.ops.meaning import meaning
from lowtide.plan import Figures, Plan, RuntimeFigure
from lowtide.rewrites import CutRegion
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


def check_halos(rounds: Sequence[tuple[Graph, Plan]], plan: Plan) -> str | None:
    """``halos``: the multiplications that the plan says it adds are those of its parts; None: no row runs twice.
    `rounds`: the graph that each round of the plan cuts, and what is said of it. Raises `VerificationError`: the plan
    gives another figure, or none where rows are recomputed."""
    extra, ops = Fraction(0), 0
    for graph, one in rounds:
        recomputed = [c for r in one.rewrites or () if isinstance(r, CutRegion) for c in r.ops if c.begins is not None]
        for c in recomputed:
            listed = [p.part for p in one.ops if p.part is not None and p.part.role == "part" and p.origin == [c.op]]
            rows = [row for part in listed for row in range(*(part.rows or (0, 0)))]
            twice, known = len(rows) - len(set(rows)), meaning(graph, graph.op_by_id[c.op])
            if twice and known is not None:
                extra += Fraction(_macs(graph, graph.op_by_id[c.op]) * twice, known.access.sizes[c.axis])
        ops += len(recomputed)
    given = plan.halos
    if not ops and given is None:
        return None
    macs = sum(_macs(rounds[0][0], op) for op in rounds[0][0].ops)
    if given is None or (given.macs, given.extra_macs) != (macs, extra):
        claim = "the plan says nothing" if given is None else f"the plan says {given.extra_macs:,} of {given.macs:,}"
        raise VerificationError("halos", f"recomputed rows add {extra} multiplications to {macs:,}; {claim}")
    return f"{ops:,} ops recompute rows: {100 * given.overhead:.3f} % more multiplications"


def _macs(graph: Graph, op: Op) -> int:
    known = meaning(graph, op)
    if known is None or not isinstance(known.form, Convolution | Contraction):
        return 0
    given = tuple([None if t is None else graph.tensor_by_id[t].shape for t in op.operands or op.inputs])
    return flops_of(known.form, given, tuple([graph.tensor_by_id[t].shape for t in op.outputs])) // 2
