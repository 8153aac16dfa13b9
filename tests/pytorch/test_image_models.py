"""Networks for images as people bring them, of `timm` and `torchvision`, with random weights; nothing is downloaded."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

import pytest

from lowtide.torch import StepOptions, compile_step

pytestmark = pytest.mark.slow


def package(name: str) -> Any:
    """A package, or a skip with the reason why it is not there: torchvision may be built for another torch."""
    try:
        import_module("torch")
        return import_module(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"needs torch and {name}: {error}")


def trained(model: Any, size: int) -> tuple[int, int, list[str]]:
    """Bytes of the step in its own order, and within half of what can be saved; and what differs from eager's after
    two steps with AdamW."""
    torch = import_module("torch")
    torch.set_num_threads(1)
    batch = (torch.randn(2, 3, size, size), torch.randint(10, (2,)))
    eager, loss_fn = copy.deepcopy(model), torch.nn.functional.cross_entropy
    optimizer, other = (torch.optim.AdamW(m.parameters()) for m in (model, eager))
    own = compile_step(model, loss_fn, batch, optimizer=optimizer, options=StepOptions(measure=False, time=0))
    budget = (own.plan.floor_bytes + own.plan.peak_bytes) // 2
    step = compile_step(
        model, loss_fn, batch, optimizer=optimizer, options=StepOptions(measure=False, time=3), budget=budget
    )
    differ = []
    for k in range(2):
        torch.manual_seed(k)
        loss = step(*batch)
        torch.manual_seed(k)
        other.zero_grad()
        expected = loss_fn(eager(batch[0]), batch[1])
        expected.backward()
        other.step()
        differ += [] if torch.equal(loss, expected.detach()) else [f"loss {k}"]
    both = zip(model.state_dict().items(), eager.state_dict().values(), strict=True)
    differ += [name for (name, a), b in both if not torch.equal(a, b)]
    return own.plan.peak_bytes, step.plan.peak_bytes, differ


@pytest.mark.parametrize(
    ("name", "size"), [("vit_tiny_patch16_224", 224), ("convnext_atto", 64), ("efficientnet_b0", 64)]
)
def test_of_timm(name: str, size: int) -> None:
    """Within the budget, eager's bits."""
    model = package("timm").create_model(name, num_classes=10, pretrained=False)
    own, planned, differ = trained(model, size)
    assert planned < own
    assert differ == []


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_of_torchvision(name: str) -> None:
    """Within the budget, eager's bits."""
    model = getattr(package("torchvision").models, name)(num_classes=10)
    own, planned, differ = trained(model, 64)
    assert planned < own
    assert differ == []
