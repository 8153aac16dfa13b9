"""The one place that knows which runtime a target is of."""

from __future__ import annotations

from lowtide.runtimes.base import Runtime
from lowtide.target import Target


def runtime_of(target: Target) -> Runtime:
    """The runtime whose rule a target names; one that takes the plan as it is if it names none."""
    if target.rule == "tflm":
        from lowtide.runtimes.tflm.arena import Tflm

        return Tflm(target)
    if target.rule == "tflite":
        from lowtide.runtimes.litert import Litert

        return Litert(target)
    if target.rule == "onnxruntime":
        from lowtide.runtimes.onnxruntime import Onnxruntime

        return Onnxruntime(target)
    if target.allocates_one_by_one:
        from lowtide.runtimes.base import Eager

        return Eager(target)
    return Runtime(target)
