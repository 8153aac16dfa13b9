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
import lowtide.target
import lowtide.verify  # noqa: F401
from lowtide.api import (
    Check,
    MethodResult,
    Placement,
    allocate,
    apply,
    board,
    boards,
    check,
    compare,
    curve,
    export,
    front,
    inspect,
    load,
    measure,
    plan,
    plan_sizes,
    probe,
    prove,
    run,
    runtime_optimized,
    schema,
    share,
    target,
    targets,
    verify,
)
from lowtide.errors import InputError, LowtideError, MissingExtraError, VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.target import Target
from lowtide.version import __version__

Plan.apply = apply  # promised to users, and the one thing that a plan cannot do from the ground up

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
    "__version__",
    "allocate",
    "apply",
    "board",
    "boards",
    "check",
    "compare",
    "curve",
    "export",
    "front",
    "inspect",
    "load",
    "measure",
    "plan",
    "plan_sizes",
    "probe",
    "prove",
    "run",
    "runtime_optimized",
    "schema",
    "share",
    "target",
    "targets",
    "verify",
]
