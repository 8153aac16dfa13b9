"""What Python changes while `forward` runs: said, held as it was, put back; and what a trace would lose."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.torch import StepOptions, compile, compile_step
from lowtide.torch.frozen import words_of

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

needs_torch = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


def counting() -> Any:
    """A module that counts its calls, keeps what it saw, and makes a cache when it is first run."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls, self.seen, self.cache = torch.nn.Linear(4, 4), 0, [], None

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.seen.append(x)
            self.last = x
            if self.cache is None:
                self.cache = torch.ones(4)
            return (self.layer(x) * (1.0 if self.calls == 1 else 2.0) + self.cache).sum()

    return Net()


class TestTraced:
    """Modules that torch traces."""

    pytestmark = needs_torch

    @pytest.mark.parametrize("inside", [False, True])
    def test_what_python_changes_is_said_and_put_back(self, inside: bool) -> None:
        """The step is the first call that eager would make, however often torch runs the module to trace it."""
        net = counting()
        model, said = torch.nn.Sequential(net) if inside else net, list[str]()
        x = torch.randn(3, 4)
        step = compile_step(model, None, (x,), options=StepOptions(measure=False, report=said.append))
        assert (net.calls, net.seen, net.cache, hasattr(net, "last")) == (0, [], None, False)
        names = ", ".join(f"'{'0.' if inside else ''}{name}'" for name in ("calls", "seen", "cache"))
        words = f"forward changes {names} and 1 more in Python"
        assert any(line.startswith(words) for line in said)
        assert words in repr(step)
        loss = step(x)
        assert net.calls == 0
        assert torch.equal(loss, model(x))

    def test_a_module_that_changes_nothing_has_no_such_line(self) -> None:
        """Nor has one whose list of numbers is read."""
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.1))
        assert "forward changes" not in repr(
            compile_step(net, torch.sum, (torch.randn(3, 4),), options=StepOptions(measure=False))
        )

    def test_hooks_that_forward_puts_in_are_taken_away(self) -> None:
        """Also from torch's own layers; those that were there stay, in their order, and run in the trace."""
        ran = list[str]()

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer, self.ready = torch.nn.Linear(4, 4), False
                self.layer.register_forward_hook(lambda module, inputs, output: ran.append("first"))

            def forward(self, x: Any) -> Any:
                if not self.ready:
                    self.ready = True
                    self.layer.register_forward_hook(lambda module, inputs, output: output * 2)
                return self.layer(x).sum()

        net, x = Net(), torch.randn(3, 4)
        hooks = [*net.layer._forward_hooks.items()]
        step = compile_step(net, None, (x,), options=StepOptions(measure=False))
        assert ran
        assert [*net.layer._forward_hooks.items()] == hooks
        assert torch.equal(step(x), net(x))
        assert "'ready'" in repr(step)
        assert "_forward_hooks" not in repr(step)

    def test_what_objects_and_lists_inside_hold_is_put_back(self) -> None:
        """However deep, and tensors among it."""

        class Cache:
            def __init__(self) -> None:
                self.keys, self.sizes = [torch.zeros(4)], {"deep": [({1}, [0])]}

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer, self.cache = torch.nn.Linear(4, 4), Cache()

            def forward(self, x: Any) -> Any:
                self.cache.keys[0] = x
                self.cache.keys.append(x)
                self.cache.sizes["deep"][0][0].add(2)
                self.cache.sizes["deep"][0][1].append(1)
                setattr(self.cache, "extra", x)  # noqa: B010
                return self.layer(x).sum()

        net = Net()
        (first,) = net.cache.keys
        step = compile_step(net, None, (torch.randn(3, 4),), options=StepOptions(measure=False))
        assert (len(net.cache.keys), net.cache.sizes) == (1, {"deep": [({1}, [0])]})
        assert net.cache.keys[0] is first
        assert not hasattr(net.cache, "extra")
        assert "forward changes 'cache' in Python" in repr(step)

    def test_random_numbers_of_python_are_as_they_were(self) -> None:
        """The step repeats what the trace drew, and says so."""
        draw: Any = import_module("random").random

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(4, 4)

            def forward(self, x: Any) -> Any:
                return self.layer(x * draw()).sum()

        net, x = Net(), torch.randn(3, 4)
        import_module("random").seed(3)
        step = compile_step(net, None, (x,), options=StepOptions(measure=False))
        assert "draws from Python's random" in repr(step)
        assert torch.equal(step(x), net(x))
        torch.rand(1)
        assert "draws" not in repr(
            compile_step(torch.nn.Linear(4, 4), torch.sum, (x,), options=StepOptions(measure=False))
        )

    def test_a_module_that_raises_is_as_it_was(self) -> None:
        """What a trace began is put back whatever ends it."""
        net = counting()
        with pytest.raises(InputError, match="cannot trace it"):
            compile(net, (torch.randn(3, 5),))
        assert (net.calls, net.seen) == (0, [])

    @pytest.mark.parametrize("kind", ["buffer", "parameter"])
    def test_an_assigned_tensor_is_refused(self, kind: str) -> None:
        """It would keep its old value, and nobody would know; assigned what it is, it goes through."""

        class Net(torch.nn.Module):
            def __init__(self, moves: bool) -> None:
                super().__init__()
                self.layer, self.moves = torch.nn.Linear(4, 4), moves
                if kind == "buffer":
                    self.register_buffer("mean", torch.zeros(4))
                else:
                    self.mean = torch.nn.Parameter(torch.zeros(4))

            def forward(self, x: Any) -> Any:
                if self.moves:
                    self._buffers.pop("mean", None)
                    self._parameters.pop("mean", None)
                    self.register_buffer("mean", x.mean(0))
                else:
                    self.mean = self.mean.to(x.device)
                return (self.layer(x) - self.mean).sum()

        x = torch.randn(3, 4)
        with pytest.raises(InputError, match=r"forward assigns 'mean', which a trace loses; write self\.mean\.copy_"):
            compile_step(Net(True), None, (x,), options=StepOptions(measure=False))
        if kind == "buffer":
            compile_step(Net(False), None, (x,), options=StepOptions(measure=False))

    def test_a_batch_that_wants_a_gradient(self) -> None:
        """It gets none from a training step, which says so; a forward pass has none to give."""
        model, x = torch.nn.Linear(4, 4), torch.randn(3, 4, requires_grad=True)
        words = "tensor 0 of the batch gets no gradient: parameters alone do"
        step = compile_step(model, torch.sum, (x,), options=StepOptions(measure=False))
        assert words in repr(step)
        step(x)
        assert x.grad is None
        assert words not in repr(compile_step(model, torch.sum, (x.detach(),), options=StepOptions(measure=False)))
        assert words not in repr(compile(model, (x,), options=StepOptions(measure=False)))


@pytest.mark.skipif(torch is None, reason="needs the extra torch")
@pytest.mark.slow
@pytest.mark.parametrize("around", ["no_grad", "inference_mode"])
def test_a_step_makes_gradients_whatever_stands_around_it(around: str) -> None:
    """Compiled where gradients are off, it is the step that it is elsewhere."""
    model, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    source = compile_step(model, torch.sum, (x,), options=StepOptions(measure=False)).source
    with getattr(torch, around)():
        step = compile_step(model, torch.sum, (x,), options=StepOptions(measure=False))
        step(x)
    assert step.source == source
    assert model.weight.grad is not None


@pytest.mark.skipif(torch is None, reason="needs the extra torch")
@pytest.mark.slow
def test_what_is_no_module_of_a_training_step() -> None:
    """Nothing to train, and modules that are not traced."""
    model, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    frozen = torch.nn.Linear(4, 4).requires_grad_(False)
    for made, batch, words in (
        (frozen, (x,), "no parameter gets a gradient: requires_grad is False"),
        (torch.nn.ReLU(), (x,), "for a forward pass there is lowtide.torch.compile"),
        (torch.jit.script(model), (x,), "is a ScriptModule, which cannot be traced"),
        (torch.nn.DataParallel(model), (x,), "give model.module"),
    ):
        with pytest.raises(InputError, match=words):
            compile_step(made, torch.sum, batch, options=StepOptions(measure=False))


def test_the_words() -> None:
    """Three names at most; nothing where nothing changes."""
    assert words_of(()) == ""
    assert words_of(["a", "b", "c", "d", "e"]).startswith("forward changes 'a', 'b', 'c' and 2 more in Python")
