"""The names of `lowtide.api`, and what a plan can do for its user."""

from __future__ import annotations

from lowtide.api.banks import MemoryUse, board, boards
from lowtide.api.checking import prove, verify
from lowtide.api.comparing import MethodResult, compare, slow_methods
from lowtide.api.curve import curve
from lowtide.api.default.on_boards import board_fits
from lowtide.api.emitting import emit_c
from lowtide.api.exports import Exports, export
from lowtide.api.fitting import Check, check
from lowtide.api.goals import FastMemory, OneArena, SeveralMemories
from lowtide.api.job import Job, Search
from lowtide.api.kernels import choices_to_show, kernel_choices
from lowtide.api.measuring import measure
from lowtide.api.models import load
from lowtide.api.moves.front import front
from lowtide.api.placing import Placement, allocate
from lowtide.api.planning import method_name, plan, plan_job, too_small
from lowtide.api.probing import probe
from lowtide.api.problem import Rules
from lowtide.api.reporting import (
    Pictures,
    curve_words,
    front_words,
    plan_brief,
    plan_html,
    plan_svg,
    plan_words,
    plot,
    report,
    to_pandas,
)
from lowtide.api.running import run
from lowtide.api.sharing import Shared, share
from lowtide.api.size_table import plan_sizes
from lowtide.api.surveys import inspect, schema, target, targets
from lowtide.api.sweeps.sweeping import Sweep, sweep
from lowtide.api.ways_to_fit import WayToFit, ways_to_fit
from lowtide.api.writing import PlanFiles, apply, write_all
from lowtide.optimize.curve import Curve, Front
from lowtide.plan import Plan

# Promised to users, and what a plan cannot do from the ground up.
Plan.apply, Plan.report, Plan.plot, Plan.to_pandas = apply, report, plot, to_pandas
Plan.__str__, Plan.__repr__ = plan_words, plan_brief  # type: ignore[method-assign]
Plan._repr_html_, Plan._repr_svg_ = plan_html, plan_svg  # type: ignore[attr-defined]
Curve.__str__, Front.__str__ = curve_words, front_words  # type: ignore[method-assign]

__all__ = [
    "Check",
    "Exports",
    "FastMemory",
    "Job",
    "MemoryUse",
    "MethodResult",
    "OneArena",
    "Pictures",
    "Placement",
    "PlanFiles",
    "Rules",
    "Search",
    "SeveralMemories",
    "Shared",
    "Sweep",
    "WayToFit",
    "allocate",
    "apply",
    "board",
    "board_fits",
    "boards",
    "check",
    "choices_to_show",
    "compare",
    "curve",
    "emit_c",
    "export",
    "front",
    "inspect",
    "kernel_choices",
    "load",
    "measure",
    "method_name",
    "plan",
    "plan_job",
    "plan_sizes",
    "probe",
    "prove",
    "report",
    "run",
    "schema",
    "share",
    "slow_methods",
    "sweep",
    "target",
    "targets",
    "too_small",
    "verify",
    "ways_to_fit",
    "write_all",
]
