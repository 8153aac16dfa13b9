"""Eager's predicted peak against the allocator's own events, and the first screen; only where torch is installed."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.sizes import format_size
from lowtide.torch import StepOptions, compile_step
from lowtide.torch.capture import capture
from lowtide.torch.meter import allocator_peak
from lowtide_research.bench.train_nets import NETS, training

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "foreach adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=True),
    "fused adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
}


def eager_peak(net: Any, model: Any, optimizer: Any) -> int:
    """What the allocator gives out in the second eager step, whose optimizer has its state."""

    def run() -> Any:
        loss = net.loss_fn(model(net.batch[0]), *net.batch[1:])
        loss.backward()
        optimizer.step()
        return loss

    run()
    optimizer.zero_grad()
    return allocator_peak(run)[1]


@pytest.mark.parametrize("name", NETS)
def test_eagers_peak_is_predicted(name: str) -> None:
    """As the allocator counts it, the optimizer's update behind the backward pass included."""
    for make in OPTIMIZERS.values():
        net = training(name)
        eager = copy.deepcopy(net.model)
        plan = compile_step(
            net.model, net.loss_fn, net.batch, optimizer=make(net.model.parameters()), options=StepOptions(time=0)
        ).plan
        measured = eager_peak(net, eager, make(eager.parameters()))
        assert abs(plan.eager_peak_bytes - measured) <= measured / 1000


def test_every_storage_of_eagers_run_has_a_number_of_its_own() -> None:
    """Also behind ops with several results, such as a norm; and each is freed at most once."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    run = capture(model, lambda output: output.mean(1).sum(), (torch.randn(2, 3, 8),)).eager
    assert run is not None
    made = [number for event in run.events if not isinstance(event, int) for number, _, _ in event[1]]
    freed = [event for event in run.events if isinstance(event, int)]
    assert len(set(made)) == len(made) > len(freed) == len(set(freed)) > 0
    assert set(freed) < set(made)
    run.live_bytes({}, {})


def test_a_step_prints_eight_lines_at_most() -> None:
    """Eager's peak, what updates inside the backward pass save of it, the plan, its time, the bound, what to type."""
    net = training("swiglu")
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1)
    step = compile_step(net.model, net.loss_fn, net.batch, optimizer=optimizer, budget="50%")
    plan, lines = step.plan, repr(step).splitlines()
    assert len(lines) <= 8
    words: dict[str, str] = dict(re.findall(r"^  (\w+(?: \w+)*)  +(.*)$", "\n".join(lines[1:]), re.MULTILINE))
    assert list(words) == ["eager", "updates", "planned", "time", "lower bound", "next"]
    assert words["eager"].startswith(format_size(plan.eager_peak_bytes))
    assert words["updates"].startswith(f"{plan.update_saving_bytes / plan.eager_peak_bytes:.1%} of eager is saved")
    less = f"{1 - plan.peak_bytes / plan.eager_peak_bytes:.1%} less than eager"
    assert words["planned"] == f"{format_size(plan.peak_bytes)}, {less}"
    assert words["time"].startswith(f"{plan.seconds / plan.own_order_seconds - 1:+.1%} of eager")
    assert words["lower bound"].startswith(format_size(plan.floor_bytes))
    percent = re.search(r'budget="(\d+)%"', words["next"])
    assert percent is not None
    assert plan.floor_bytes < int(percent[1]) / 100 * plan.eager_peak_bytes < plan.peak_bytes


def test_without_an_optimizer_no_update_is_counted() -> None:
    """The row is left out, and a step at its lower bound proposes no smaller budget."""
    model, batch = torch.nn.Linear(4, 4), (torch.randn(3, 4),)
    step = compile_step(model, torch.sum, batch)
    assert step.plan.update_saving_bytes == 0
    assert "updates" not in repr(step)
    assert ("budget=" in repr(step)) == (step.plan.peak_bytes > step.plan.floor_bytes * 1.02)
