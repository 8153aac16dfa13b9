"""The largest free size of a model with which it fits a memory: `lowtide fit MODEL --budget 4GiB`.

The batch is sought where it is free, else all free sizes at once. In onnxruntime a few sizes are measured, and those
in between are predicted from their plans; elsewhere every size that is tried is planned.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lowtide.api.default import plan_request
from lowtide.api.default.onnx import Trial
from lowtide.api.default.request import NO_PROGRESS, Request, Tell, finished
from lowtide.api.models import load
from lowtide.api.objects import Model
from lowtide.arguments import typed
from lowtide.comparison import Comparison
from lowtide.errors import FreeDimensionError, InputError
from lowtide.graph import Kind
from lowtide.plan import Plan
from lowtide.report.first_screen import size_text
from lowtide.sizes import NO_DIMS, Dims, Size
from lowtide.target import Target

LARGEST = 2**20
"""No larger size is tried."""
SECONDS = 2.0
"""For the plan of each size."""
_CORRECTIONS = 3
"""Sizes that are measured after the first at the most."""

OfSize = Callable[[int], Request]
"""The request for a size."""


@dataclass(frozen=True, repr=False)
class Fit:
    """What was found.

    Attributes
    ----------
    model, names
        The model, and the free dimensions that have the size.
    size
        The largest that fits; 0 if none does.
    figure, budget_bytes
        What the bytes are (`Comparison.figure`), and how many there are.
    takes_bytes, next_bytes
        What the size takes, and what the next larger one does; of size 0 the former is that of size 1.
    next_bound_bytes
        Bytes that no order of its ops needs less than at the next larger size, where that is known.
    measured
        Whether `takes_bytes` was measured; all else is predicted.
    base_bytes
        What the process takes beyond that, where the bytes are those of a process.
    others
        Other free sizes, by name.
    """

    model: str
    names: tuple[str, ...]
    size: int
    figure: str
    budget_bytes: int
    takes_bytes: int
    next_bytes: int | None = None
    next_bound_bytes: int | None = None
    measured: bool = False
    base_bytes: int = 0
    others: Mapping[str, int] = field(default_factory=dict[str, int])

    def __repr__(self) -> str:
        name, budget = " = ".join(self.names), size_text(self.budget_bytes)
        takes = f"{self.figure} {size_text(self.takes_bytes)} ({'measured' if self.measured else 'predicted'})"
        takes += f", above the {size_text(self.base_bytes)} of Python and onnxruntime" if self.base_bytes else ""
        takes += "".join(f", {key} = {size}" for key, size in self.others.items())
        if not self.size:
            return f"{self.model}: {name} = 1 does not fit {budget}: {takes}"
        text = f"{self.model}: {name} = {self.size} fits {budget}: {takes}"
        if self.next_bytes is None:
            return text
        proof, bound = "", self.next_bound_bytes
        if bound is not None and bound > self.budget_bytes:
            proof = f"; no order of its operators needs less than {size_text(bound)}"
        return f"{text}\n{name} = {self.size + 1} takes {size_text(self.next_bytes)} (predicted){proof}"


@typed
def fit(
    model: Model,
    budget: Size,
    *,
    slower: str | float | None = None,
    target: str | Target | None = None,
    dims: Dims = NO_DIMS,
    only: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> Fit:
    """Find the largest batch, or other free size, with which a model fits a budget.

    Parameters are those of `lowtide.plan`. In onnxruntime order and places alone are planned, and `only` and `without`
    are refused. The batch is sought where the file leaves it free and `dims` does not say it; else all free sizes are,
    together. Memory is taken to grow with the size.

    Raises
    ------
    InputError
        The model or an argument is wrong, or no size is free.
    """
    return fit_request(Request.of(model, budget, slower, target, dims, only, without))


def fit_request(request: Request, tell: Tell = NO_PROGRESS) -> Fit:
    """What `fit` does, saying how far it is. Raises as it does."""
    if request.runs_in_onnxruntime and (request.only is not None or request.without):
        raise InputError(
            "in onnxruntime fit plans order and places alone; leave out --only and --without", request.path
        )
    names, sizes = _free_sizes(request)
    budget = request.budget_bytes
    assert budget is not None

    def of_size(size: int) -> Request:
        tell(f"{' = '.join(names)} = {size}")
        return replace(request, dims={**sizes, **dict.fromkeys(names, size)})

    search = _in_onnxruntime if request.runs_in_onnxruntime else _planned
    others = {key: size for key, size in sizes.items() if key not in names}
    return replace(search(names, of_size, budget, tell), others=others)


def _free_sizes(request: Request) -> tuple[tuple[str, ...], dict[str, int]]:
    """The dimensions that are sought, and sizes for all. Raises `InputError` if none is free."""
    try:
        load(request.model, request.dims)
    except FreeDimensionError as error:
        return error.batches or tuple(error.sizes), {**request.dims, **error.sizes}  # type: ignore[dict-item]
    raise InputError("every size of the model is fixed; `lowtide plan` says what it takes", request.path)


def _planned(names: tuple[str, ...], of_size: OfSize, budget: int, tell: Tell) -> Fit:
    """Plan every size that is tried."""
    plans: dict[int, Plan] = {}

    def takes(size: int) -> int:
        if size not in plans:
            plans[size] = finished(plan_request(replace(of_size(size), seconds=SECONDS), tell))
        return _comparison(plans[size]).planned_bytes

    size = _largest(takes, budget)
    after = plans.get(size + 1)
    return Fit(
        of_size(size).name, names, size, _comparison(plans[max(size, 1)]).figure, budget, takes(max(size, 1)),
        None if after is None else takes(size + 1), None if after is None else after.lower_bound_bytes,
    )  # fmt: skip


def _in_onnxruntime(names: tuple[str, ...], of_size: OfSize, budget: int, tell: Tell) -> Fit:
    """Measure size 1, predict the others from their plans, and measure the largest that should fit. Where that takes
    more than predicted, all predictions are raised by as much for each unit of the size."""
    known: dict[int, int] = {}
    base = 0

    def growing(size: int, *, measure: bool = False) -> tuple[int, int]:
        """Bytes of the arena, the inputs and the outputs; and of the process, if it is measured."""
        nonlocal base
        with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
            trial = Trial.of(replace(of_size(size), seconds=SECONDS), Path(folder), tell)
            plan = finished(trial.order())
            held = sum(t.size for t in plan.tensors if t.kind in (Kind.INPUT, Kind.OUTPUT))
            known[size] = (plan.runtime_arena_bytes or 0) + held
            if not measure:
                return known[size], 0
            ran = trial.alone(plan)
            base = ran.base_bytes
            return known[size], ran.model_bytes

    first, at_one = growing(1, measure=True)
    if at_one > budget:
        return Fit(of_size(1).name, names, 0, "process memory", budget, at_one, measured=True, base_bytes=base)
    more_each = 0

    def takes(size: int) -> int:
        return at_one - first + (known.get(size) or growing(size)[0]) + more_each * (size - 1)

    size, measured = _largest(takes, budget), at_one
    for _ in range(_CORRECTIONS):
        if size == 1:
            break
        expected, measured = takes(size), growing(size, measure=True)[1]
        if measured <= budget:
            break
        more_each += -((expected - measured) // (size - 1))
        size = _largest(takes, budget)
    fits = measured <= budget
    return Fit(
        of_size(size).name, names, size, "process memory", budget, measured if fits else takes(size), takes(size + 1),
        measured=fits, base_bytes=base,
    )  # fmt: skip


def _comparison(plan: Plan) -> Comparison:
    assert plan.comparison is not None, "a plan of plan_request"
    return plan.comparison


def _largest(takes: Callable[[int], int], budget: int) -> int:
    """The largest size that fits: doubled until one does not, then the gap halved. 0: none does."""
    low, high = 0, 1
    while high <= LARGEST and takes(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if takes(middle) <= budget else (low, middle)
    return low
