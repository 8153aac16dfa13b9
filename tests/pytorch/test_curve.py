"""Fronts of bytes against time, and the least bytes within a time."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.torch import StepOptions, compile_step, curve
from lowtide.torch.work import by_operations
from lowtide_research.bench.train_nets import training

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


@pytest.mark.parametrize("allow", ["recompute", "recompute,tile"])
def test_each_point_is_lower_and_slower_and_can_be_run(allow: str) -> None:
    """Own order first; every plan is replayed to the peak that the curve says."""
    net = training("gpt")
    own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(time=0))
    costs = by_operations(torch, own.program, own.costs)
    result = curve(
        net.model,
        net.loss_fn,
        net.batch,
        options=StepOptions(costs=costs, measure=False, time=4),
        points=6,
        allow=allow,
    )
    assert len(result.points) >= 4
    assert result.points[0].peak_bytes <= own.plan.own_order_peak_bytes
    for a, b in pairwise(result.points):
        assert b.peak_bytes < a.peak_bytes
        assert b.slower > a.slower
    for point in result.points:
        step = compile_step(
            net.model, net.loss_fn, net.batch, options=StepOptions(costs=costs, measure=False), plan=point.plan
        )
        assert step.plan.peak_bytes == point.peak_bytes
        assert point.plan.seconds == pytest.approx(step.plan.own_order_seconds * (1 + point.slower))
    assert str(result).count("\n") == len(result.points)


def test_the_least_bytes_within_a_time_are_within_it() -> None:
    """Twice the time takes no more bytes; no time more is file order, or one that costs nothing."""
    net = training("gpt")
    own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(time=0))
    costs = by_operations(torch, own.program, own.costs)
    peaks = []
    for slower in (0.0, 0.05, 0.1):
        step = compile_step(
            net.model, net.loss_fn, net.batch, options=StepOptions(costs=costs, measure=False, time=3), slower=slower
        )
        assert step.plan.seconds <= step.plan.own_order_seconds * (1 + slower) * (1 + 1e-6)
        peaks.append(step.predicted_peak_bytes)
    assert own.predicted_peak_bytes >= peaks[0] > peaks[1] > peaks[2]


def test_slower_is_no_worse_than_a_point_of_the_curve() -> None:
    """At each of its points' times, where the time is enough for both."""
    net = training("gpt")
    own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(time=0))
    costs = by_operations(torch, own.program, own.costs)
    options = StepOptions(costs=costs, measure=False, time=60)
    points = curve(net.model, net.loss_fn, net.batch, options=options).points
    assert len(points) > 3
    for point in (points[1], points[-2]):
        slower = max(0.0, point.slower)
        step = compile_step(net.model, net.loss_fn, net.batch, options=options, slower=slower + 1e-9)
        assert step.plan.peak_bytes <= point.peak_bytes
        assert step.plan.seconds <= step.plan.own_order_seconds * (1 + slower) * (1 + 1e-5)


def test_bounds_that_contradict_each_other_are_refused() -> None:
    """Bytes and time at once; a time that is none; a curve of one point."""
    net = training("swiglu")
    with pytest.raises(InputError, match="leave budget= and plan= out"):
        compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False), slower=0.1, budget="1MiB")
    with pytest.raises(InputError, match="share of eager's time"):
        compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False), slower=-1)
    with pytest.raises(InputError, match="2 points at least"):
        curve(net.model, net.loss_fn, net.batch, points=1)


def test_what_was_not_measured_is_said() -> None:
    """By the curve as by each step, and with what else its steps do not hold."""
    torch.manual_seed(0)
    net, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)), torch.randn(4, 8)
    result = curve(net, torch.sum, (x.requires_grad_(),), options=StepOptions(measure=False, time=1), points=2)
    count = result.points[0].plan.unmeasured
    assert count > 0
    words = f"{count} of {count} ops not measured: their workspace is not counted"
    gradient = "tensor 0 of the batch gets no gradient: parameters alone do"
    assert str(result).splitlines()[-2:] == [words, gradient]
    assert repr(result).endswith(f"; {words}; {gradient})")
    measured = curve(net, torch.sum, (x.detach(),), points=2, options=StepOptions(time=1))
    assert measured.points[0].plan.unmeasured == 0
    assert measured.caveats == ()
    assert "measured" not in str(measured)
