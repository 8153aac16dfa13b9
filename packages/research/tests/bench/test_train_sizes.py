"""The networks of MAGIS's evaluation as PyTorch models: small ones are trained within a budget, whole ones traced."""

from __future__ import annotations

import copy
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.torch import StepOptions, compile_step
from lowtide.torch.meter import allocator_peak
from lowtide_research.bench.train_sizes import SIZES, Sized

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


@pytest.mark.parametrize("sized", SIZES, ids=lambda sized: sized.name)
def test_a_small_one_within_a_budget_computes_what_eager_computes(sized: Sized) -> None:
    """Loss and gradients bit by bit; the allocator gives out what was planned, which is below file order."""
    torch.manual_seed(0)
    net = sized.small()
    eager = copy.deepcopy(net.model)
    step = compile_step(net.model, net.loss_fn, net.batch, budget="85%", options=StepOptions(time=1))
    torch.manual_seed(1)
    loss = step(*net.batch)
    torch.manual_seed(1)
    expected = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
    expected.backward()
    assert torch.equal(loss, expected.detach())
    for a, b in zip(net.model.parameters(), eager.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    assert len(step.plan.ops) > len(step.graph.ops)
    _, measured = allocator_peak(step.prepare(*net.batch))
    assert abs(measured - step.predicted_peak_bytes) <= step.predicted_peak_bytes / 1000


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet50", 25_557_032),
        ("bert", 109_514_298 - 2 * 768),
        ("vit", 86_567_656),
        ("unet", 31_037_633),
        ("gpt-neo", 1_315_575_808 - (2048 - 512) * 2048),
    ],
)
def test_whole_ones_have_the_weights_that_are_published(name: str, parameters: int) -> None:
    """Of BERT with its head and without kinds of tokens; of GPT-Neo with as many places as the step has tokens."""
    sized = next(s for s in SIZES if s.name == name)
    with torch.device("meta"):
        assert sum(p.numel() for p in sized.full().model.parameters()) == parameters
