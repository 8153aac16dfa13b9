"""What people do in an eager training loop, done with a step: equal to eager bit by bit, or refused with the way on."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections import UserDict
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.torch import StepOptions, compile_step, curve
from lowtide.torch.meter import allocator_peak

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


def perceptron() -> tuple[Any, Any, tuple[Any, Any]]:
    """A small net without surprises, its loss, a batch."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return model, torch.nn.functional.mse_loss, (torch.randn(5, 8), torch.randn(5, 4))


def assert_same(model: Any, eager: Any) -> None:
    """Parameters, and gradients where eager has some."""
    for a, b in zip(model.parameters(), eager.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("most", [0.01, 100.0])
def test_clipped_gradients_are_eagers(most: float) -> None:
    """Clipped or within the norm: parameters, loss and norm are eager's; a frozen layer and the norm's order too."""
    model, loss_fn, batch = perceptron()
    model[2].bias.requires_grad_(False)
    eager = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(m.parameters(), lr=0.1) for m in (model, eager))
    step = compile_step(model, loss_fn, batch, optimizer=optimizer, clip_grad_norm=most)
    for _ in range(3):
        loss = step(*batch)
        other.zero_grad()
        expected = loss_fn(eager(batch[0]), batch[1])
        expected.backward()
        norm = torch.nn.utils.clip_grad_norm_(eager.parameters(), most)
        other.step()
        assert torch.equal(loss, expected.detach())
        assert torch.equal(step.gradient_norm, norm)
        assert_same(model, eager)


def test_what_clipping_costs_is_said() -> None:
    """All gradients are live until their norm is known; without an optimizer nothing clips."""
    model, loss_fn, batch = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    clipped = compile_step(model, loss_fn, batch, optimizer=optimizer, clip_grad_norm=1.0)
    inside = compile_step(model, loss_fn, batch, optimizer=optimizer, options=StepOptions(costs=clipped.costs))
    assert clipped.plan.own_order_peak_bytes > inside.plan.own_order_peak_bytes
    assert clipped.plan.update_saving_bytes == inside.plan.update_saving_bytes > 0
    assert "\n  clipping " in repr(clipped)
    assert "\n  updates " in repr(inside)
    points = curve(
        model, loss_fn, batch, optimizer=optimizer, clip_grad_norm=1.0, options=StepOptions(costs=clipped.costs, time=1)
    ).points
    again = compile_step(model, loss_fn, batch, optimizer=optimizer, clip_grad_norm=1.0, plan=points[-1].plan)
    assert again.plan.peak_bytes == points[-1].peak_bytes
    with pytest.raises(InputError, match="optimizer= brings into the step"):
        compile_step(model, loss_fn, batch, clip_grad_norm=1.0)
    with pytest.raises(InputError, match="clip_grad_norm is -1"):
        compile_step(model, loss_fn, batch, optimizer=optimizer, clip_grad_norm=-1)


def test_metrics_come_beside_the_loss() -> None:
    """In a tuple or a dict, as the loss function returns them; gradients are those of the loss alone."""
    model, loss_fn, batch = perceptron()
    eager = copy.deepcopy(model)

    def both(output: Any, y: Any) -> Any:
        return loss_fn(output, y), {"error": (output - y).abs().mean(), "output": output, "name": "mse"}

    loss, metrics = compile_step(model, both, batch)(*batch)
    expected, others = both(eager(batch[0]), batch[1])
    expected.backward()
    assert torch.equal(loss, expected.detach())
    assert torch.equal(metrics["error"], others["error"].detach())
    assert torch.equal(metrics["output"], others["output"].detach())
    assert metrics["name"] == "mse"
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), eager.parameters(), strict=True))
    model.zero_grad()
    named = compile_step(model, lambda out, y: {"zero": (out - out).sum(), "loss": loss_fn(out, y)}, batch)(*batch)
    assert torch.equal(named["loss"], expected.detach())
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), eager.parameters(), strict=True))


def test_losses_that_are_not_summed_are_pointed_at() -> None:
    """Several in a list or a dict, of which the first gets gradients; a metric without a gradient is none, nor is what
    comes beside a named loss."""
    model, loss_fn, batch = perceptron()
    words = "gradients are those of the first value alone; if the 1 other scalars are losses, return the sum first"

    def screen(returned: Callable[[Any, Any], Any]) -> str:
        loss = lambda output, y: returned(loss_fn(output, y), output.abs().mean())  # noqa: E731
        return repr(compile_step(model, loss, batch, options=StepOptions(measure=False)))

    assert words in screen(lambda first, second: [first, second])
    assert words in screen(lambda first, second: {"first": first, "second": second})
    assert "first value" not in screen(lambda first, second: {"loss": first + second, "second": second})
    assert "first value" not in screen(lambda first, second: (first, second.detach()))


def with_loss() -> Any:
    """A module that takes a batch by names and returns its loss among others, as models of transformers do."""

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def forward(self, inputs: Any = None, labels: Any = None) -> Any:
            logits = self.layer(inputs)
            return {"logits": logits, "loss": torch.nn.functional.mse_loss(logits, labels)}

    return WithLoss()


def test_a_dict_is_a_batch_by_names() -> None:
    """In a tuple, alone, as keywords, in another order, or as another kind of mapping: one step serves all."""
    torch.manual_seed(0)
    batch = {"inputs": torch.randn(5, 8), "labels": torch.randn(5, 4)}
    model = with_loss()
    expected = model(**batch)["loss"].detach()
    for example in ((batch,), batch, UserDict(batch)):
        step = compile_step(model, None, example, options=StepOptions(measure=False, replan=0))
        swapped = dict(reversed(batch.items()))
        for loss in (step(batch), step(**batch), step(swapped), step(**swapped), step(UserDict(batch))):
            assert torch.equal(loss, expected)
    step = compile_step(model, None, tuple(batch.values()), options=StepOptions(measure=False))
    assert torch.equal(step(labels=batch["labels"], inputs=batch["inputs"]), expected)
    named = {"inputs": batch["inputs"], "y": batch["labels"]}

    def apart(output: Any, y: Any) -> Any:
        return torch.nn.functional.mse_loss(output, y)

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 4)
    layer.forward = lambda inputs: torch.nn.Linear.forward(layer, inputs)
    step = compile_step(layer, apart, named, options=StepOptions(measure=False))
    assert torch.equal(step(**named), apart(layer(named["inputs"]), named["y"]).detach())


def test_a_batch_may_be_given_by_name() -> None:
    """Names of the module's and the loss's parameters; one that nobody knows stands for the only part left."""
    model, loss_fn, (x, y) = perceptron()
    expected = loss_fn(model(x), y).detach()
    step = compile_step(model, lambda out, y: loss_fn(out, y), (x, y), options=StepOptions(measure=False))
    for loss in (step(input=x, y=y), step(x, y=y), step(y=y, x=x)):
        assert torch.equal(loss, expected)
    with pytest.raises(InputError, match="the step takes input, y, and got a, b; give the batch by position"):
        step(a=x, b=y)
    with pytest.raises(InputError, match="the step takes input, y, and got 0, 1, y"):
        step(x, y, y=y)


def test_a_shorter_last_batch_is_planned_when_it_comes() -> None:
    """Three other shapes, and no fourth; another type is another step."""
    model, loss_fn, (x, y) = perceptron()
    step = compile_step(model, loss_fn, (x, y), options=StepOptions(measure=False), budget="95%")
    for rows in (4, 3, 2, 4):
        loss = step(x[:rows], y[:rows])
        assert torch.equal(loss, loss_fn(model(x[:rows]), y[:rows]).detach())
        assert step.for_batch(x[:rows], y[:rows]).predicted_peak_bytes <= step.predicted_peak_bytes
    with pytest.raises(InputError, match=r"got float32\[1, 8\].*plans 3 other shapes at most"):
        step(x[:1], y[:1])
    with pytest.raises(InputError, match=r"got float64\[5, 8\]"):
        step(x.double(), y)


def test_backward_of_a_returned_loss_says_that_it_was_done() -> None:
    """Scaled or summed too; what else one does with a loss works as with any tensor."""
    model, loss_fn, batch = perceptron()
    loss = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))(*batch)
    for value in (loss, loss / 4, loss + loss):
        with pytest.raises(InputError, match="has run the backward pass already"):
            value.backward()
    assert f"{loss:.3f}" == f"{float(loss):.3f}"
    assert repr(loss).startswith("tensor(")
    assert type(pickle.loads(pickle.dumps(loss))) is torch.Tensor
    weight = torch.ones((), requires_grad=True)
    (loss * weight).backward()
    assert torch.equal(weight.grad, loss)


def test_a_loss_may_close_over_modules() -> None:
    """A GAN's two steps: the other net is read as it is now, and gets gradients where eager gives it some."""
    torch.manual_seed(0)
    nn = torch.nn
    makers = nn.Linear(8, 4), nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    eager_g, eager_d = copy.deepcopy(makers[0]), copy.deepcopy(makers[1])
    g, d = makers
    noise, real = torch.randn(5, 8), torch.randn(5, 4)

    def losses(g: Any, d: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return (lambda out, z: out.mean() - d(g(z).detach()).mean()), (lambda fake: d(fake).mean())

    steps = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in (g, d, eager_g, eager_d)]
    of_d, of_g = losses(g, d)
    d_step = compile_step(d, of_d, (real, noise), optimizer=steps[1], options=StepOptions(measure=False))
    g_step = compile_step(g, of_g, (noise,), optimizer=steps[0], options=StepOptions(measure=False))
    of_d, of_g = losses(eager_g, eager_d)
    for _ in range(3):
        steps[3].zero_grad()
        loss = of_d(eager_d(real), noise)
        loss.backward()
        steps[3].step()
        steps[2].zero_grad()
        of_g(eager_g(noise)).backward()
        steps[2].step()
        d.zero_grad()
        assert torch.equal(d_step(real, noise), loss.detach())
        d.zero_grad()
        g_step(noise)
        assert_same(g, eager_g)
        assert_same(d, eager_d)
    d.eval()
    with pytest.raises(InputError, match="other modules in training mode"):
        g_step(noise)


def test_a_loss_may_close_over_tensors() -> None:
    """Class weights, which a variable holds: the step reads what it holds now, and refuses another shape."""
    model, loss_fn, (x, y) = perceptron()
    weights = torch.rand(4)

    def weighted(output: Any, y: Any) -> Any:
        return (loss_fn(output, y, reduction="none") * weights).mean()

    step = compile_step(model, weighted, (x, y), options=StepOptions(measure=False))
    assert torch.equal(step(x, y), weighted(model(x), y).detach())
    weights = torch.rand(4)
    assert torch.equal(step(x, y), weighted(model(x), y).detach())
    weights = torch.rand(1)
    with pytest.raises(InputError, match=r"the loss reads 'weights', which is now float32\[1\], and was float32\[4\]"):
        step(x, y)
    weights = torch.rand(4, requires_grad=True)
    with pytest.raises(InputError, match="needs a gradient and is no parameter"):
        compile_step(model, weighted, (x, y), options=StepOptions(measure=False))


def test_a_gradient_scaler_scales_inside_the_loss() -> None:
    """Its step and update behind the step are eager's, also where a gradient is infinite; not with an optimizer."""
    model, loss_fn, (x, y) = perceptron()
    eager = copy.deepcopy(model)
    optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, eager))
    scaler, eager_scaler = (torch.amp.GradScaler("cpu", growth_interval=1) for _ in range(2))
    step = compile_step(model, lambda out, y: scaler.scale(loss_fn(out, y)), (x, y), options=StepOptions(measure=False))
    for scale in (1.0, 1e38, 1.0):
        optimizer.zero_grad()
        other.zero_grad()
        loss = step(x * scale, y)
        scaler.step(optimizer)
        scaler.update()
        expected = eager_scaler.scale(loss_fn(eager(x * scale), y))
        expected.backward()
        eager_scaler.step(other)
        eager_scaler.update()
        assert torch.equal(loss, expected.detach())
        assert scaler.get_scale() == eager_scaler.get_scale()
        assert_same(model, eager)
    with pytest.raises(InputError, match=r"leave optimizer= out of compile_step, and call scaler.step\(optimizer\)"):
        compile_step(model, lambda out, y: scaler.scale(loss_fn(out, y)), (x, y), optimizer=optimizer)


def test_schedulers_and_torch_compile_around_a_step_change_nothing() -> None:
    """A scheduler sees that the optimizer stepped; compiled or not, a step runs as it was planned."""
    model, loss_fn, batch = perceptron()
    eager = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(m.parameters(), lr=0.1) for m in (model, eager))
    schedulers = [torch.optim.lr_scheduler.CosineAnnealingLR(o, 4) for o in (optimizer, other)]
    step = torch.compile(compile_step(model, loss_fn, batch, optimizer=optimizer), backend="eager")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*lr_scheduler.*")
        for _ in range(3):
            step(*batch)
            other.zero_grad()
            loss_fn(eager(batch[0]), batch[1]).backward()
            other.step()
            for scheduler in schedulers:
                scheduler.step()
            assert_same(model, eager)


def any_optimizers() -> dict[str, Callable[[Any], Any]]:
    """A maker of each kind of optimizer whose own code runs, by name."""
    optim = torch.optim
    return {
        "foreach": lambda p: optim.AdamW(p, lr=0.01, foreach=True),
        "amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
        "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.9),
        "adafactor": lambda p: optim.Adafactor(p, lr=0.01),
        "muon": lambda p: optim.Muon([q for q in p if q.dim() == 2], lr=0.01),
        "nadam": lambda p: optim.NAdam(p, lr=0.01),
    }


@pytest.mark.parametrize("kind", list(any_optimizers() if torch else ["none"]))
def test_any_optimizer_updates_one_parameter_at_a_time(kind: str) -> None:
    """Parameters and state are eager's, a changed learning rate included, and the peak is the allocator's."""
    model, loss_fn, batch = perceptron()
    eager = copy.deepcopy(model)
    optimizer, other = (any_optimizers()[kind](list(m.parameters())) for m in (model, eager))
    step = compile_step(model, loss_fn, batch, optimizer=optimizer)
    for k in range(3):
        optimizer.param_groups[0]["lr"] = other.param_groups[0]["lr"] = 0.01 / (k + 1)
        model.zero_grad()
        step(*batch)
        eager.zero_grad()
        loss_fn(eager(batch[0]), batch[1]).backward()
        other.step()
        assert_same(model, eager)
    states = optimizer.state_dict()["state"], other.state_dict()["state"]
    assert states[0].keys() == states[1].keys()
    for k, b in states[1].items():
        assert all(torch.equal(states[0][k][name], b[name]) for name in b if isinstance(b[name], torch.Tensor))
    model.zero_grad()
    _, measured = allocator_peak(step.prepare(*batch))
    assert measured <= step.predicted_peak_bytes


def test_an_optimizer_that_needs_all_gradients_at_once_is_refused() -> None:
    """By what it does, not by its name; the way on is said."""
    model, loss_fn, batch = perceptron()

    class Normed(torch.optim.Optimizer):
        """Divides by the norm of all gradients."""

        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.1})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
            norm = torch.stack([p.grad.norm() for p in parameters]).norm()
            for p in parameters:
                p.add_(p.grad / norm, alpha=-0.1)

    with pytest.raises(InputError, match=r"Normed updates its parameters together.*; leave optimizer= out, and call"):
        compile_step(model, loss_fn, batch, optimizer=Normed(model.parameters()))
    with pytest.raises(InputError, match=r"LBFGS cannot update one parameter at a time: .*; leave optimizer= out"):
        compile_step(model, loss_fn, batch, optimizer=torch.optim.LBFGS(model.parameters()))
    before = [p.clone() for p in model.parameters()]
    rms = torch.optim.RMSprop(model.parameters())
    compile_step(model, loss_fn, batch, optimizer=rms)
    assert not rms.state
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_model_that_looks_at_values_is_traced_as_under_compile() -> None:
    """As those of transformers look at an attention mask: any mask is right, and the step says where eager decides."""
    torch.manual_seed(0)

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def forward(self, x: Any, mask: Any) -> Any:
            y = self.layer(x)
            if not torch.compiler.is_compiling() and mask.all():
                return y
            return y.masked_fill(~mask, 0.0)

    model, x = Masked(), torch.randn(5, 8)
    masks = [torch.ones(5, 1, dtype=torch.bool), torch.arange(5)[:, None] < 3]
    step = compile_step(model, lambda out: out.square().mean(), ((x, masks[0]),), options=StepOptions(measure=False))
    assert re.search(r"a value decides at .*test_habits.py:\d+: the step is as under torch.compile", repr(step))
    for mask in masks:
        model.zero_grad()
        assert torch.equal(step((x, mask)), model(x, mask).square().mean().detach())
    assert not torch.compiler.is_compiling()
    with pytest.raises(InputError, match="a value decides in Python at"):
        compile_step(
            model,
            lambda out: out.mean() if out.sum() > 0 else out.sum(),
            ((x, masks[0]),),
            options=StepOptions(measure=False),
        )
