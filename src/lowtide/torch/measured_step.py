"""A step compared with eager mode, measured: most bytes that the allocator gives out, and seconds, of the same batch.

Both run on the module itself, in turn. Afterwards parameters, buffers, gradients and the optimizer's state are as
before, and so are random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lowtide.report.columns import columns
from lowtide.report.first_screen import percent, size_text
from lowtide.torch.batch import loss_alone, loss_place, step_output
from lowtide.torch.capture import library
from lowtide.torch.cuda_meter import Device
from lowtide.torch.meter import allocator_peak, run_seconds

RUNS, SECONDS = 5, 3.0  # timed runs of each; fewer, if they take longer


@dataclass(frozen=True, repr=False)
class StepMeasure:
    """What one batch took, in eager mode and with the planned step.

    Attributes
    ----------
    eager_peak_bytes, planned_peak_bytes
        Most bytes that the allocator gave out at once; what existed before does not count: parameters, buffers, the
        batch, the optimizer's state.
    predicted_peak_bytes
        What the plan says of the latter.
    eager_seconds, planned_seconds
        The fastest of `runs` runs each, in turn.
    runs
        Timed runs of each.
    """

    eager_peak_bytes: int
    planned_peak_bytes: int
    predicted_peak_bytes: int
    eager_seconds: float
    planned_seconds: float
    runs: int

    def __repr__(self) -> str:
        peaks = (self.eager_peak_bytes, self.planned_peak_bytes)
        milliseconds = [f"{1000 * seconds:.3g} ms" for seconds in (self.eager_seconds, self.planned_seconds)]
        predicted = size_text(self.predicted_peak_bytes, *peaks)
        rows = [
            ("", "eager", "planned", "", ""),
            ("peak memory", *(size_text(size, *peaks) for size in peaks), percent(*peaks), f"predicted {predicted}"),
            (
                "time of a step",
                *milliseconds,
                percent(self.eager_seconds, self.planned_seconds),
                f"fastest of {self.runs}",
            ),
        ]
        return columns(rows, right=[1, 2])


@dataclass(frozen=True)
class EagerCall:
    """What eager mode runs: module, loss, optimizer; and the batch. `training`: with the backward pass."""

    model: Any
    loss_fn: Callable[..., Any] | None
    optimizer: Any
    clip: float | None
    training: bool
    batch: Sequence[Any]

    def __call__(self) -> Any:
        """A step of an eager training loop, or a forward pass."""
        torch = library()
        if not self.training:
            with torch.no_grad():
                return step_output(self.model, self.loss_fn, self.batch)
        output = step_output(self.model, self.loss_fn, self.batch)
        output = loss_alone(output) if self.loss_fn is None else output
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        leaves[loss_place(torch, output)].backward()
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        if self.optimizer is not None:
            self.optimizer.step()
        return None

    def clear(self) -> None:
        """No gradients, as after ``zero_grad()``."""
        for parameter in self.model.parameters():
            parameter.grad = None


def measured(eager: EagerCall, prepare: Callable[[], Callable[[], Any]], predicted: int, device: Device) -> StepMeasure:
    """Both sides. `prepare`: does what comes before the first op of the planned step, and returns its ops."""
    torch = library()

    def planned() -> Callable[[], Any]:
        eager.clear()
        return prepare()

    def unplanned() -> Callable[[], Any]:
        eager.clear()
        return eager

    sides = (unplanned, planned)
    with torch.random.fork_rng(), _kept(torch, eager.model, eager.optimizer):
        for side in sides:
            side()()  # makes the optimizer's state, and warms up
        eager_peak, planned_peak = (allocator_peak(side(), device)[1] for side in sides)
        seconds: list[list[float]] = [[], []]
        while len(seconds[0]) < RUNS and (not seconds[0] or sum(map(sum, seconds)) < SECONDS):
            for taken, side in zip(seconds, sides, strict=True):
                taken.append(run_seconds(side(), device))
    return StepMeasure(eager_peak, planned_peak, predicted, min(seconds[0]), min(seconds[1]), len(seconds[0]))


@contextmanager
def _kept(torch: Any, model: Any, optimizer: Any) -> Iterator[None]:
    """Parameters, buffers, gradients and the optimizer's state, as they were when this ends."""
    tensors = [(tensor, tensor.detach().clone()) for tensor in (*model.parameters(), *model.buffers())]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    states: Any = {} if optimizer is None else optimizer.state
    state = {key: dict(values) for key, values in states.items()}
    held = [value for values in state.values() for value in values.values() if isinstance(value, torch.Tensor)]
    tensors += [(value, value.detach().clone()) for value in held]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in tensors:
                tensor.copy_(before)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for key in list(states):
            states[key].clear()
            states[key].update(state.get(key, {}))
            if key not in state:
                del states[key]
