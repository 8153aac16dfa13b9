"""Recorded steps, where there is no device: a graph stood in for by the operators that ran while it was recorded, run
again on the same tensors."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.torch import Recorded, StepOptions, compile_step, record
from lowtide_research.bench.train_nets import training

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

module = import_module("lowtide.torch.record")
pytestmark = pytest.mark.skipif(torch is None, reason="needs the extra torch")


class Graph:
    """Stands for ``torch.cuda.CUDAGraph``: what ran, with the very tensors that it read and made."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def replay(self) -> None:
        """Run it again: what an operator made lies where it lay."""
        with torch.no_grad():
            for function, args, kwargs, made in self.calls:
                there = {t.untyped_storage()._cdata for t in _tensors((args, kwargs))}
                for old, new in zip(_tensors(made), _tensors(function(*args, **kwargs)), strict=True):
                    if old.untyped_storage()._cdata not in there:
                        old.copy_(new)


def _tensors(value: Any) -> list[Any]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


@contextmanager
def recording(graph: Graph) -> Iterator[None]:
    """Stands for ``torch.cuda.graph``: what runs inside is written down, and changes nothing that was there."""
    there: dict[int, tuple[Any, Any]] = {}

    class Write(import_module("torch.utils._python_dispatch").TorchDispatchMode):
        """Sees every operator."""

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function._schema.is_mutable:
                for tensor in _tensors((args, kwargs)):
                    there.setdefault(id(tensor), (tensor, tensor.clone()))
            made = function(*args, **(kwargs or {}))
            graph.calls.append((function, args, kwargs or {}, made))
            return made

    with Write():
        yield
    with torch.no_grad():
        for tensor, value in there.values():
            tensor.copy_(value)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch, with a stand-in for ``torch.cuda``."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    stand_in = SimpleNamespace(
        Stream=lambda: stream, current_stream=lambda: stream, stream=lambda other: nullcontext(), CUDAGraph=Graph,
        graph=recording,
    )  # fmt: skip

    class Library:
        cuda = stand_in

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

    monkeypatch.setattr(module, "library", Library)


@pytest.mark.parametrize("accumulate", [False, True])
def test_a_recorded_step_is_eager_bit_by_bit(cuda: None, accumulate: bool) -> None:
    """Batch after batch, with buffers, random numbers and gradients that are added up; recording changes nothing."""
    net = training("unet", 1)
    eager, before = copy.deepcopy(net.model), copy.deepcopy(net.model.state_dict())
    step = compile_step(
        net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0), accumulate=accumulate
    )
    recorded = Recorded(step, net.batch)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), net.model.state_dict().values(), strict=True))
    assert all(p.grad is None or not p.grad.any() for p in net.model.parameters())
    own, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (net.model, eager))
    losses = []
    for k in range(4):
        batch = tuple([x + k if x.is_floating_point() else x.flip(0) for x in net.batch])
        torch.manual_seed(k)
        losses.append(recorded(*batch))
        torch.manual_seed(k)
        expected = net.loss_fn(eager(batch[0]), *batch[1:])
        expected.backward()
        assert torch.equal(losses[-1], expected.detach())
        for a, b in zip(net.model.parameters(), eager.parameters(), strict=True):
            assert torch.equal(a.grad, b.grad)
        if k % 2:
            for optimizer in (own, other):
                optimizer.step()
                optimizer.zero_grad(set_to_none=not accumulate)
    for a, b in zip(net.model.state_dict().values(), eager.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert len({float(loss) for loss in losses}) == 4


def test_what_would_be_replayed_wrongly_is_refused(cuda: None) -> None:
    """Gradients that were replaced, another batch, tensors on the CPU, an optimizer within the step."""
    net = training("unet", 1)
    step = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0), accumulate=True)
    recorded = Recorded(step, net.batch)
    for parameter in net.model.parameters():
        parameter.grad = None
    with pytest.raises(InputError, match="another tensor than recorded; keep gradients"):
        recorded(*net.batch)
    with pytest.raises(InputError, match="the step is recorded for another batch or mode"):
        recorded(*(x[:1] for x in net.batch))
    with pytest.raises(InputError, match="a step is recorded on CUDA, and tensors of this one are on cpu"):
        record(step, net.batch)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1)
    updating = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False), optimizer=optimizer)
    with pytest.raises(InputError, match="an optimizer's numbers change from call to call"):
        record(updating, net.batch)
