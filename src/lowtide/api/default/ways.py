"""What else would do where no plan fits a budget, or none takes less than today: the next commands, with their bytes.

Where bytes are said, a plan was made. Of onnxruntime, where plans are measured, none is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lowtide.api.default.predicted import STEPS, plan_predicted
from lowtide.api.default.request import Request, Tell, finished
from lowtide.errors import InputError
from lowtide.report.first_screen import size_text
from lowtide.target import resolve

if TYPE_CHECKING:
    from lowtide.plan import Plan

MOST = 3
"""Commands of a screen."""
_LIBRARIES = {"reference": "TFLM's reference kernels", "cmsis_nn": "CMSIS-NN", "esp_nn": "ESP-NN"}


@dataclass(frozen=True)
class NextCommand:
    """A command to type next."""

    name: str  # of the command, with what follows it
    gives: str  # what it gives, in a few words
    # Values of options that differ from those of the plan.
    options: Mapping[str, str] = field(default_factory=dict[str, str])


def next_commands(request: Request, plan: Plan, tell: Tell) -> list[NextCommand]:
    """Commands for a plan that does not do: over the budget, or no better than today. Ctrl-C leaves out what was not
    tried yet."""
    found: list[NextCommand] = []
    try:
        for command in _commands(request.with_sizes(), plan, tell):
            found.append(command)
            if len(found) == MOST:
                break
    except KeyboardInterrupt:
        pass
    return found or [*_smallest_budget(request, plan), NextCommand("inspect", "what is live at the peak")]


def _smallest_budget(request: Request, plan: Plan) -> Iterator[NextCommand]:
    """The plan's own bytes, where they are over the budget."""
    comparison = plan.comparison
    assert comparison is not None, "a plan of plan_request"
    if request.budget_bytes is not None and not comparison.measured and comparison.better:
        yield NextCommand("plan", "the smallest budget that was found", {"--budget": f"{comparison.planned_bytes}B"})


def _commands(request: Request, plan: Plan, tell: Tell) -> Iterator[NextCommand]:
    comparison = plan.comparison
    assert comparison is not None, "a plan of plan_request"
    if plan.above_limit:
        yield NextCommand("plan", "the smallest limit that was found", {"--max-tensor": str(plan.largest_tensor_bytes)})
    if plan.stopped != "interrupt":
        if request.is_file and request.path.lower().endswith(".tflite") and not plan.above_limit:
            yield from _kernels(request, plan, tell)
            yield from _as_c(request, plan, tell)
        yield from _slower(request, plan, tell)
    kept = comparison.planned_bytes - (comparison.tensors_bytes or 0) if comparison.measured else 0  # at any size
    if request.budget_bytes is not None and comparison.sizes and not plan.above_limit and kept < request.budget_bytes:
        yield NextCommand("fit", "the largest size that fits")


def _fits(request: Request, plan: Plan, size: int) -> bool:
    """Whether bytes fit the budget; without one whether they are fewer than today's."""
    assert plan.comparison is not None, "a plan of plan_request"
    wanted = request.budget_bytes
    return size < plan.comparison.today_bytes if wanted is None else size <= wanted


def _kernels(request: Request, plan: Plan, tell: Tell) -> Iterator[NextCommand]:
    """The kernels that need the fewest bytes; a plan that does not name them is enough for all."""
    from lowtide.api.kernels import kernel_choices

    rules = resolve(request.target_name, source=request.path)
    if rules.rule != "tflm" or rules.kernels != "any":
        return
    tell("planning for each library of kernels")
    choices = kernel_choices(request.path, rules, dims=request.dims, time=request.seconds, quick=True)
    kernels, choice = min(
        ((name, choice) for name, choice in choices.items() if name in _LIBRARIES and finished(choice.plan)),
        key=lambda each: each[1].required_bytes,
    )
    gains = any((f.planned_bytes or f.default_bytes) < f.default_bytes for f in choice.plan.runtime_figures or ())
    if gains and _fits(request, plan, choice.required_bytes):
        gives = f"{size_text(choice.required_bytes)} where {_LIBRARIES[kernels]} run; WRONG results with others"
        yield NextCommand("plan", gives, {"--for": f"{request.target or 'tflm'},kernels={kernels}"})


def _as_c(request: Request, plan: Plan, tell: Tell) -> Iterator[NextCommand]:
    """C, with row streaming where that needs less."""
    from lowtide.api.emitting import TARGET, check_emit, project_of
    from lowtide.api.planning import plan as plan_of

    try:
        check_emit(request.path, request.dims)
    except InputError:
        return
    tell("planning it as C")
    for streamed in (False, True):
        made = plan_of(
            request.path, target=TARGET, allow="row-streaming", dims=request.dims, time=request.seconds,
            stream_input=streamed,
        )  # fmt: skip
        takes = finished(made).required_bytes + project_of(made, request.path).sizes.other_static_bytes
        if _fits(request, plan, takes):
            how = "with row streaming" if made.loops else "without an interpreter"
            how += ", fed rows of its input" if streamed else ""
            yield NextCommand(f"emit{' --stream-input' if streamed else ''}", f"{size_text(takes)}, C {how}")
            return


def _slower(request: Request, plan: Plan, tell: Tell) -> Iterator[NextCommand]:
    """More time: of predicted plans the step that is enough, where one is."""
    if request.slower is None:
        return
    if request.runs_in_onnxruntime:
        more = max(0.2, 4 * request.slower)
        yield NextCommand("plan", "if it may take longer", {"--slower": f"{round(100 * more)}%"})
        return
    for step in STEPS:
        if step > request.slower:
            other = finished(plan_predicted(replace(request, slower=step), tell))
            better = other.comparison is not None and other.comparison.better
            if better and not other.above_limit and (plan.above_limit or _fits(request, plan, other.required_bytes)):
                gives = f"{size_text(other.required_bytes)}, with more time"
                yield NextCommand("plan", gives, {"--slower": f"{round(100 * step)}%"})
                return
