"""Networks at known sizes and PyTorch's own knob, on small ones of their kinds."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import msgspec
import pytest

from lowtide.run.torch import storages_peak
from lowtide.torch import StepOptions, compile_step
from lowtide_research.bench.activation_budget import as_sequence, halves
from lowtide_research.bench.train_known import gpt_plain, swiglu_stack, unet_batch_norm
from lowtide_research.bench.train_nets import Training

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


def small(name: str) -> Training:
    """One of the networks, small."""
    torch.manual_seed(0)
    if name == "unet":
        return unet_batch_norm(torch, torch.nn, 2, 32, 4)
    if name == "gpt":
        return gpt_plain(torch, torch.nn, 2, 16, 2, 16, 50)
    return swiglu_stack(torch, torch.nn, 4, 16, 32)


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("name", ["unet", "gpt", "swiglu"])
def test_the_halves_compute_what_eager_computes(name: str, ratio: float) -> None:
    """Loss and gradients, bit by bit, whatever is kept between them."""
    net = small(name)
    parameters = list(net.model.parameters())
    loss, *gradients = halves(net.model, net.loss_fn, net.batch, ratio)()
    expected = net.loss_fn(net.model(net.batch[0]), *net.batch[1:])
    assert torch.equal(loss, expected.detach())
    for a, b in zip(gradients, torch.autograd.grad(expected, parameters), strict=True):
        assert torch.equal(a, b)


def test_the_ratio_is_heard() -> None:
    """Half of what there is to keep takes less at once than all of it."""
    net = small("swiglu")
    given = [*net.batch, *net.model.parameters()]
    peaks = [storages_peak(halves(net.model, net.loss_fn, net.batch, r), given)[1] for r in (1.0, 0.3)]
    assert peaks[1] < peaks[0]


def test_what_torch_chooses_is_a_sequence_of_the_steps_ops() -> None:
    """At each ratio it takes what the halves do by a meter of storages, it runs, and its results are eager's bits: each
    op once where all is kept, and most of the forward pass again where nothing is."""
    net = small("gpt")
    step = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
    given = [*net.batch, *net.model.parameters()]
    loss = net.loss_fn(net.model(net.batch[0]), *net.batch[1:])
    gradients = torch.autograd.grad(loss, list(net.model.parameters()))
    again = []
    for ratio in (1.0, 0.0):
        order = as_sequence(step, net.model, net.loss_fn, net.batch, ratio)
        plan = msgspec.structs.replace(step.plan, ops=list(order))
        replayed = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False), plan=plan)
        _, peak = storages_peak(halves(net.model, net.loss_fn, net.batch, ratio), given)
        assert replayed.predicted_peak_bytes == peak
        net.model.zero_grad()
        assert torch.equal(replayed(*net.batch), loss.detach())
        assert all(torch.equal(p.grad, g) for p, g in zip(net.model.parameters(), gradients, strict=True))
        again.append(len(order) - len(step.graph.ops))
    assert again[1] > 3 * again[0] > 0
