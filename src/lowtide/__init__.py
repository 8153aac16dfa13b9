"""lowtide lowers the memory high-water mark of neural networks, and proves how low it can go.

>>> import lowtide
>>> made = lowtide.plan("zoo:nasnet_a_cifar", target="strict")
>>> made.own_order_peak_bytes, made.peak_bytes, made.optimal
(2359296, 1786624, True)
"""

from __future__ import annotations

from lowtide.interrupt import end_at_once, is_command

if is_command():
    end_at_once()

# The functions below share their names with modules; those are imported first, so that the functions stay.
import lowtide.allocate
import lowtide.plan
import lowtide.report
import lowtide.target
import lowtide.verify  # noqa: F401
from lowtide.api import (
    Check,
    MethodResult,
    Placement,
    WayToFit,
    allocate,
    apply,
    board,
    boards,
    check,
    compare,
    curve,
    emit_c,
    export,
    front,
    inspect,
    load,
    measure,
    plan,
    plan_sizes,
    probe,
    prove,
    report,
    run,
    runtime_optimized,
    schema,
    share,
    sweep,
    target,
    targets,
    verify,
    ways_to_fit,
)
from lowtide.api.reporting import curve_words, front_words, plan_html, plan_svg, plan_words, plot, to_pandas
from lowtide.errors import InputError, LowtideError, MissingExtraError, VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.curve import Curve
from lowtide.optimize.recompute.front import Front
from lowtide.plan import Plan
from lowtide.target import Target
from lowtide.version import __version__

# Promised to users, and what a plan cannot do from the ground up.
Plan.apply, Plan.report, Plan.plot, Plan.to_pandas = apply, report, plot, to_pandas
Plan.__str__, Plan._repr_html_, Plan._repr_svg_ = plan_words, plan_html, plan_svg  # type: ignore[method-assign,attr-defined]
Curve.__str__, Front.__str__ = curve_words, front_words  # type: ignore[method-assign]

__all__ = [
    "Check",
    "Graph",
    "InputError",
    "Kind",
    "LowtideError",
    "MethodResult",
    "MissingExtraError",
    "Op",
    "Placement",
    "Plan",
    "Target",
    "Tensor",
    "VerificationError",
    "WayToFit",
    "__version__",
    "allocate",
    "apply",
    "board",
    "boards",
    "check",
    "compare",
    "curve",
    "emit_c",
    "export",
    "front",
    "inspect",
    "load",
    "measure",
    "plan",
    "plan_sizes",
    "probe",
    "prove",
    "report",
    "run",
    "runtime_optimized",
    "schema",
    "share",
    "sweep",
    "target",
    "targets",
    "verify",
    "ways_to_fit",
]
