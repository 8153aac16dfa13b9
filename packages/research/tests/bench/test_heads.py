"""Language models whose loss heads others cut by hand, small: cut by a budget, within eager's class."""

from __future__ import annotations

import copy
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.torch import StepOptions, compile_step
from lowtide_research.bench.heads import HEADS, Head

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


FROM_EAGER, FROM_FLOAT64 = 1e-2, 1.5e-2
"""Largest difference over the largest value of a tensor, in bfloat16: what docs/pytorch.md announces, and what eager
itself is from float64, about."""


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_a_head_is_cut_within_a_budget(head: Head) -> None:
    """Below what its largest op takes alone, so that it must be; loss and gradients in the class that is announced."""
    torch.manual_seed(0)
    net = head.small()
    eager, exact = copy.deepcopy(net.model), copy.deepcopy(net.model).double()
    autocast = torch.autocast("cpu", dtype=torch.bfloat16) if head.autocast else nullcontext()
    with autocast:
        own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
        budget = own.plan.floor_bytes * 9 // 10
        allow = "recompute,tile"
        step = compile_step(
            net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=4), budget=budget, allow=allow
        )
        loss = step(*net.batch)
        expected = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
    assert step.plan.cuts
    assert step.predicted_peak_bytes <= budget < own.plan.floor_bytes
    wanted = net.loss_fn(exact(net.batch[0]), *net.batch[1:])
    for other, of, far in ((eager, expected, FROM_EAGER), (exact, wanted, FROM_FLOAT64)):
        of.backward()
        pairs = [(loss, of.detach())]
        pairs += [(a.grad, b.grad) for a, b in zip(net.model.parameters(), other.parameters(), strict=True)]
        for a, b in pairs:
            assert float((a.double() - b.double()).abs().max()) <= far * float(b.abs().max())


def test_full_sizes_take_no_memory() -> None:
    """On the meta device: as many parameters as the models have."""
    with torch.device("meta"):
        counts = {head.name: sum(p.numel() for p in head.full().model.parameters()) for head in HEADS}
    assert counts == {"llama3-8b": 8_030_261_248, "gpt2": 124_439_808, "head": 4096 * 1024 + 151936 * 1024}
