"""One file for several sizes, planned for the largest: what it takes at the smallest.

onnxruntime's optimiser leaves the sizes free, and the plan changes the order alone, so that the file is right at every
size. At the smallest it has to take no more than today, too.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from lowtide.api.default.onnx import LEAST_GAIN, Trial
from lowtide.comparison import SmallestSizes
from lowtide.plan import Plan


def compared_at_smallest(trial: Trial, plan: Plan) -> Plan:
    """A plan that was measured at the largest sizes, with what it takes at the smallest ones."""
    comparison, request = plan.comparison, trial.request
    assert comparison is not None, "a plan of plan_onnx"
    folder = trial.folder / "smallest"
    folder.mkdir()
    small = replace(trial, folder=folder, request=replace(request, dims={**request.dims, **request.smallest}))
    seen = small.settled(plan, plan.weights)
    today, planned = seen.today.model_bytes, seen.planned.model_bytes
    good = planned <= (1 + LEAST_GAIN) * today and bool(seen.outputs) and not seen.too_slow
    smallest = SmallestSizes(
        sizes=dict(request.smallest),
        largest={k: n for k, n in request.dims.items() if k in request.smallest and isinstance(n, int)},
        today_bytes=today,
        planned_bytes=planned,
        slowdown=seen.slowdown,
        outputs=seen.outputs,
        good=good,
    )
    comparison = msgspec.structs.replace(comparison, smallest=smallest, better=comparison.better and good)
    return msgspec.structs.replace(plan, comparison=comparison)
