"""What a call can write at all: said before time is spent on a plan, not after.

What only the plan's own order or the model's file can show is still found when it is written (`api/writing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.api.goals import FastMemory
from lowtide.api.models import user_function
from lowtide.api.planning import job_of
from lowtide.api.writing import PlanFiles
from lowtide.errors import InputError
from lowtide.rewrites import ALL

_SPELT_ANEW = {ALL, "tile", "concat", "accumulate", "recompute"}
"""Changes after which the model's own file is not the plan's any more."""


def check_external_data(place: str, files: PlanFiles) -> None:
    """See that the weights of a model can go where it is written. `place`: the model's path. Raises `InputError`: they
    are not in its folder, or are to be copied without leave."""
    if files.out is not None and place.lower().endswith(".onnx") and user_function(place) is None:
        from lowtide.api.models import external_locations
        from lowtide.write.onnx import to_copy

        to_copy(external_locations(Path(place)), Path(place), Path(files.out), files.copy_external)


def check_files(model: str | Path, settings: Mapping[str, Any], files: PlanFiles) -> None:
    """See that the plan of a call could be written as these files; `settings` are those of `lowtide.research.plan`.
    Raises `InputError`: a format or a file that such plans do not have, or the call itself is wrong."""
    job = job_of(model, **settings)
    words, place = set(job.allow), job.source
    check_external_data(place, files)
    layout = bool(files.exports.paths)
    if files.commands is not None and not isinstance(job.goal, FastMemory):
        raise InputError("commands are for a plan with spilling; name the memories with --memory")
    if layout and isinstance(job.goal, FastMemory):
        raise InputError("with --memory tensors move, so that they have no one place; write --commands instead")
    if files.snippet is not None and job.target.rule != "onnxruntime":
        name = job.target.name
        raise InputError(f"a snippet is for onnxruntime, not for target {name}; plan with --target onnxruntime")
    if files.snippet is not None and files.out is None and words & _SPELT_ANEW:
        raise InputError("a snippet opens the model, which such a plan changes; write that with -o", place)
    if files.buffer_plan is not None and job.target.rule != "tflm":
        raise InputError("a buffer plan is for TFLM; plan a .tflite file under target tflm", place)
    shown = (files.out, files.snippet, files.buffer_plan)
    if not layout and all(path is None for path in shown):
        return
    if "row-streaming" in words:
        raise InputError(
            "--allow row-streaming streams rows, which no model file can express; write the plan alone", place
        )
    if {"recompute", "tile"} <= words and _has_labels(place):
        raise InputError("a tiled training step has no form as graph JSON; write the plan alone", place)
    if "offload" in words:
        raise InputError(
            "with --allow offload tensors are offloaded, which no such file can express; write the plan alone", place
        )
    if "recompute" in words and files.out is not None and not str(files.out).lower().endswith(".onnx"):
        raise InputError(
            "--allow recompute recomputes operators, which only ONNX files can express; write the plan", place
        )
    if words == {"recompute"} and layout:
        raise InputError(
            "--allow recompute recomputes operators, which a layout cannot express; write the plan, or -o", place
        )


def _has_labels(source: str) -> bool:
    """Whether a model's format is one whose training steps run in parts; a function's is seen when it has run."""
    return user_function(source) is None and (source.startswith("zoo:") or source.lower().endswith(".json"))
