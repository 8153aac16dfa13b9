"""The front door: one function for each command, each a recipe of the steps in which data flows.

Heavy imports are inside the functions, so that `import lowtide` and `lowtide check` start at once.
"""

from __future__ import annotations

from lowtide.api.banks import MemoryUse, board, boards
from lowtide.api.checking import prove, run, verify
from lowtide.api.exports import Exports, export
from lowtide.api.models import load
from lowtide.api.optimizing import runtime_optimized
from lowtide.api.placing import Placement, allocate
from lowtide.api.planning import Check, check, plan
from lowtide.api.probing import probe
from lowtide.api.sharing import Shared, share
from lowtide.api.spilling import too_small
from lowtide.api.surveys import MethodResult, compare, inspect, target, targets
from lowtide.api.writing import apply, write_all

__all__ = [
    "Check",
    "Exports",
    "MemoryUse",
    "MethodResult",
    "Placement",
    "Shared",
    "allocate",
    "apply",
    "board",
    "boards",
    "check",
    "compare",
    "export",
    "inspect",
    "load",
    "plan",
    "probe",
    "prove",
    "run",
    "runtime_optimized",
    "share",
    "target",
    "targets",
    "too_small",
    "verify",
    "write_all",
]
