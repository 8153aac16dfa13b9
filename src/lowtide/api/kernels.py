"""What each choice of kernels would give a model under TFLM: how far outputs may overlap depends on whose run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.api.models import load
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.report.figures import KernelChoice
from lowtide.runtimes.registry import runtime_of
from lowtide.sizes import NO_DIMS
from lowtide.target import Target, resolve

MOST_OPS = 300  # screens show the choices for models of this many ops at most; each choice is a plan of its own
_SHOWN = ("method", "options", "time", "search_memory", "seed", "overwrite_inputs", "pin_inputs")
_SHOWN += ("persistent", "double_buffered", "fixed")


def kernel_choices(
    model: Graph | str | Path, target: str | Target = "auto", **settings: Any
) -> Mapping[str, KernelChoice]:
    """Plan a .tflite model for any kernels, the reference ones, CMSIS-NN's and ESP-NN's. `model`: a .tflite file, or
    a graph read from one. `target`: TFLM's; its other fields stay as they are. `settings`: those of
    `lowtide.research.plan`, but for the reserve and memories apart. Raises `InputError`: the target is not TFLM's;
    and as `lowtide.research.plan`."""
    from lowtide.api.planning import plan

    graph = load(model, settings.pop("dims", NO_DIMS))
    rules = resolve(target, source=graph.source)
    targets = runtime_of(rules).kernel_targets()
    if not targets:
        raise InputError(f"kernels are chosen under target tflm only, and this is {rules.name}", graph.source)
    choices: dict[str, KernelChoice] = {}
    for kernels, chosen in targets.items():
        chosen_plan = plan(graph, target=chosen, **settings)
        parts = chosen_plan.runtime_parts
        choices[kernels] = KernelChoice(
            chosen_plan.arena_bytes or 0,
            chosen_plan.required_bytes,
            parts is not None and parts.exact,
            chosen_plan.optimal,
            chosen_plan,
        )
    return choices


def choices_to_show(model: Graph | str | Path, settings: Mapping[str, Any]) -> Mapping[str, KernelChoice] | None:
    """The choices for a screen, under the settings of a `plan`, `inspect` or `check` that leaves them open. None if
    there are none: another target, kernels that are named, several memories, cuts, no .tflite file, one whose own
    plan cannot be replaced, or one of more than `MOST_OPS` ops."""
    from lowtide.read.tflite.model import TfliteFile

    source = model.source if isinstance(model, Graph) else str(model)
    rules = resolve(settings.get("target", "auto"), source=source)
    several = any(settings.get(name) for name in ("banks", "board", "memories", "allow"))
    runtime = runtime_of(rules)
    if not runtime.kernel_targets() or rules.kernels != "any" or several:
        return None
    graph = load(model, settings.get("dims", NO_DIMS))
    file = graph.file
    if not isinstance(file, TfliteFile) or len(graph.ops) > MOST_OPS or runtime.keeps_own_plan(graph):
        return None
    kept = {name: settings[name] for name in _SHOWN if name in settings}
    return kernel_choices(graph, rules, quick=True, **kept)
