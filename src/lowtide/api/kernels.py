"""What each choice of kernels would give a model under TFLM: how far outputs may overlap depends on whose run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.api.models import load
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.runtimes.registry import runtime_of
from lowtide.target import Target, resolve


@dataclass(frozen=True)
class KernelChoice:
    """The best plan found for one choice of kernels, in bytes.

    `head_bytes`: tensors and scratch as TFLM places them. `required_bytes`: the smallest kTensorArenaSize; `exact`: to
    the byte for the target's build, else at least that. `optimal`: the peak is proved least. `plan`: all of it.
    """

    head_bytes: int
    required_bytes: int
    exact: bool
    optimal: bool
    plan: Plan


def kernel_choices(
    model: Graph | str | Path, target: str | Target = "auto", **settings: Any
) -> Mapping[str, KernelChoice]:
    """Plan a .tflite model for any kernels, the reference ones, CMSIS-NN's and ESP-NN's.

    Parameters
    ----------
    model
        A .tflite file, or a graph read from one.
    target
        TFLM's; its other fields stay as they are.
    settings
        Those of `lowtide.plan`.

    Raises
    ------
    InputError
        The target is not TFLM's; and as `lowtide.plan`.
    """
    from lowtide.api.planning import plan

    graph = model if isinstance(model, Graph) else load(model)
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
