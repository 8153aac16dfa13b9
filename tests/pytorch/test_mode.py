"""What surrounds a step in a training loop: micro-steps, autocast, frozen parameters, other modes; with torch alone."""

from __future__ import annotations

import copy
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.torch import StepOptions, compile, compile_step
from lowtide.torch.meter import allocator_peak
from lowtide.torch.mode import Mode

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

needs_torch = pytest.mark.skipif(torch is None, reason="needs the extra torch")
pytestmark = pytest.mark.slow


def layers(width: int = 64) -> tuple[Any, Any, tuple[Any, Any]]:
    """Four layers alike, a loss and a batch."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(4)))
    return model, nn.functional.mse_loss, (torch.randn(32, width), torch.randn(32, width))


def alike(model: Any, eager: Any) -> bool:
    """Whether parameters and buffers are equal bit by bit, and gradients where both have them: a step that updates its
    parameters leaves none."""
    pairs = list(zip(model.state_dict().values(), eager.state_dict().values(), strict=True))
    both = zip(model.parameters(), eager.parameters(), strict=True)
    pairs += [(a.grad, b.grad) for a, b in both if type(a.grad) is torch.Tensor and b.grad is not None]
    return all(torch.equal(a, b) for a, b in pairs)


@needs_torch
@pytest.mark.parametrize("accumulate", [False, True])
def test_two_micro_steps_and_one_optimizer_step_are_eagers(accumulate: bool) -> None:
    """Twice over, gradients set to None between; and the step takes as much as it says."""
    model, loss_fn, batch = layers()
    eager = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(m.parameters()) for m in (model, eager))

    def half(output: Any, target: Any) -> Any:
        return loss_fn(output, target) / 2

    step = compile_step(model, half, batch, accumulate=accumulate, options=StepOptions(time=0))
    for k in range(4):
        torch.manual_seed(k)
        micro = tuple([torch.randn_like(t) for t in batch])
        loss = step(*micro)
        expected = half(eager(micro[0]), micro[1])
        expected.backward()
        assert torch.equal(loss, expected.detach())
        assert all(p.grad is not None for p in model.parameters())
        assert alike(model, eager)
        if k % 2:
            for own in (optimizer, other):
                own.step()
                own.zero_grad()
            assert alike(model, eager)
    _, measured = allocator_peak(step.prepare(*batch))
    assert abs(measured - step.predicted_peak_bytes) <= step.predicted_peak_bytes / 1000


@needs_torch
def test_gradients_that_are_added_at_once_need_not_fit_together() -> None:
    """A budget below the bytes of all gradients, which without accumulate no plan can meet."""
    model, loss_fn, batch = layers(width=128)
    budget = sum(p.numel() * 4 for p in model.parameters()) * 3 // 4
    step = compile_step(model, loss_fn, batch, accumulate=True, options=StepOptions(measure=False), budget=budget)
    assert step.predicted_peak_bytes <= budget
    eager = copy.deepcopy(model)
    step(*batch)
    loss_fn(eager(batch[0]), batch[1]).backward()
    assert alike(model, eager)
    options = StepOptions(measure=False, time=1)
    with pytest.raises(InputError, match="no plan within"):
        compile_step(model, loss_fn, batch, options=options, budget=budget, allow="recompute")
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.raises(InputError, match="drop optimizer="):
        compile_step(model, loss_fn, batch, accumulate=True, optimizer=optimizer)


@needs_torch
@pytest.mark.parametrize("kind", ["linear", "convolution", "attention"])
def test_autocast_around_the_loss_is_part_of_the_step(kind: str) -> None:
    """Traced under it, with the backward pass outside; the bits are eager's, within a budget, too."""
    nn = torch.nn
    torch.manual_seed(0)
    if kind == "linear":
        model, loss_fn, batch = layers()
    elif kind == "convolution":
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
        loss_fn, batch = nn.functional.cross_entropy, (torch.randn(5, 3, 8, 8), torch.randint(4, (5,)))
    else:
        model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        loss_fn, batch = nn.functional.mse_loss, (torch.randn(2, 6, 16), torch.randn(2, 6, 16))
    eager = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(m.parameters()) for m in (model, eager))

    def autocast() -> Any:
        return torch.autocast("cpu", dtype=torch.bfloat16)

    with autocast():
        own = compile_step(model, loss_fn, batch, optimizer=optimizer, options=StepOptions(time=0))
        budget = (own.plan.floor_bytes + own.predicted_peak_bytes) // 2
        step = compile_step(
            model, loss_fn, batch, optimizer=optimizer, options=StepOptions(costs=own.costs, time=2), budget=budget
        )
    for k in range(3):
        torch.manual_seed(k)
        with autocast():
            loss = step(*batch)
        torch.manual_seed(k)
        other.zero_grad()
        with autocast():
            expected = loss_fn(eager(batch[0]), batch[1])
        expected.backward()
        other.step()
        assert torch.equal(loss, expected.detach())
        assert alike(model, eager)
    with autocast():
        run = step.prepare(*batch)
    _, measured = allocator_peak(run)
    assert abs(measured - step.predicted_peak_bytes) <= step.predicted_peak_bytes / 100


@needs_torch
def test_another_mode_is_refused_or_planned_anew() -> None:
    """Autocast that is on or off, evaluation mode, frozen parameters: each is named."""
    model, loss_fn, batch = layers()
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(InputError, match="planned without autocast"):
        step(*batch)
    model[1].eval()
    with pytest.raises(InputError, match="other modules in training mode"):
        step(*batch)
    model[1].train()
    model[0].requires_grad_(False)
    with pytest.raises(InputError, match="other parameters frozen"):
        step(*batch)
    anew = compile_step(model, loss_fn, batch, options=StepOptions(measure=False, replan=True))
    model[0].requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = anew(*batch)
        expected = loss_fn(model(batch[0]), batch[1])
    assert torch.equal(loss, expected.detach())
    assert all(p.grad is not None for p in model.parameters())


@needs_torch
def test_frozen_parameters_have_no_gradient_and_do_not_move() -> None:
    """The optimizer holds all of them; within a budget and with its state, eager's bits."""
    model, loss_fn, batch = layers()
    for part in (model[0], model[2][0].bias):
        part.requires_grad_(False)
    before = [p.clone() for p in model[0].parameters()]
    eager = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(m.parameters(), weight_decay=0.1) for m in (model, eager))
    own = compile_step(model, loss_fn, batch, optimizer=optimizer, options=StepOptions(time=0))
    budget = (own.plan.floor_bytes + own.predicted_peak_bytes) // 2
    step = compile_step(
        model, loss_fn, batch, optimizer=optimizer, options=StepOptions(costs=own.costs, time=2), budget=budget
    )
    for _ in range(3):
        loss = step(*batch)
        other.zero_grad()
        expected = loss_fn(eager(batch[0]), batch[1])
        expected.backward()
        other.step()
        assert torch.equal(loss, expected.detach())
        assert alike(model, eager)
    assert all(torch.equal(a, b) for a, b in zip(before, model[0].parameters(), strict=True))
    assert {id(p) for p in optimizer.state} == {id(p) for p in model.parameters() if p.requires_grad}


@needs_torch
def test_an_inference_step_under_autocast() -> None:
    """Its outputs are eager's; a call without it is refused."""
    model, _, (x, _) = layers()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        step = compile(model, (x,), options=StepOptions(measure=False))
        assert torch.equal(step(x), model(x))
    with pytest.raises(InputError, match="under autocast of cpu to bfloat16, and is called without autocast"):
        step(x)


def test_a_mode_says_what_differs() -> None:
    """Each of the four, and nothing of one that is the same."""
    mode = Mode((), (True, True), (True,))
    assert mode.difference(mode) == ""
    other = Mode((("cpu", "bfloat16"),), (False, True), (False,))
    assert "under autocast of cpu to bfloat16" in mode.difference(other)
    assert "train() and eval()" in mode.difference(Mode((), (False, True), (True,)))
    assert "requires_grad" in mode.difference(Mode((), (True, True), (False,)))
    assert "some were replaced" in mode.difference(Mode((), (True, True), (True,), ((1, "float32", "cpu"),)))


@needs_torch
def test_parameters_that_are_others_are_refused_or_planned_anew() -> None:
    """Replaced, loaded with `assign`, of another type: eager would train these. What is copied into them is theirs."""
    model, loss_fn, batch = layers()
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    model.load_state_dict({name: tensor + 1 for name, tensor in model.state_dict().items()})
    assert torch.equal(step(*batch), loss_fn(model(batch[0]), batch[1]).detach())
    anew = compile_step(model, loss_fn, batch, options=StepOptions(measure=False, replan=True))
    for _ in range(2):
        model[0][0].weight = torch.nn.Parameter(torch.zeros(64, 64))
        with pytest.raises(InputError, match="planned with other parameters"):
            step(*batch)
        assert torch.equal(anew(*batch), loss_fn(model(batch[0]), batch[1]).detach())
        assert model[0][0].weight.grad is not None
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    with pytest.raises(InputError, match="planned with other parameters"):
        step(*batch)
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    model.bfloat16()
    with pytest.raises(InputError, match="of another type"):
        step(*batch)
