"""What a plan keeps, told to `torch.compile`: gradients, what is saved, and what an allocator gives out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.torch import partitioner
from lowtide.torch.meter import allocator_peak

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


def net(blocks: int = 6) -> tuple[Any, Any]:
    """Blocks with a norm, a wide layer, dropout and a sum with what went in; and a batch."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.wide, self.narrow = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

        def forward(self, x: Any) -> Any:
            inside = nn.functional.gelu(self.wide(self.norm(x)))
            return x + nn.functional.dropout(self.narrow(inside), 0.1, self.training)

    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(blocks))), torch.randn(256, 32)


def trained(model: Any, run: Callable[[Any], Any], x: Any) -> list[Any]:
    """The loss, and all gradients."""
    torch.manual_seed(1)
    model.zero_grad()
    loss = run(x).square().mean()
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters())]


def compiled(model: Any, partition: Any) -> Any:
    """The module in halves as a partitioner splits it, run node by node."""
    boxed = import_module("functorch.compile").make_boxed_func
    aot = import_module("torch._dynamo.backends.common").aot_autograd

    def plain(half: Any, _: Any) -> Any:
        return boxed(half.forward)

    torch._dynamo.reset()
    backend = aot(fw_compiler=plain, bw_compiler=plain, partition_fn=partition)
    return torch.compile(model, backend=backend, dynamic=False)


def test_gradients_are_eagers_at_every_budget() -> None:
    """To the bit, dropout among it; less is saved and less is allocated the smaller the budget."""
    model, x = net()
    expected = trained(model, model, x)
    saved, peaks = [], []
    for budget in ("100%", "70%", "50%"):
        partition = partitioner(budget, time=20)
        run = compiled(model, partition)
        got = trained(model, run, x)
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
        (report,) = partition.reports
        assert report.met
        assert (report.recomputed > 0) == (budget != "100%")
        assert report.peak_bytes <= report.own_peak_bytes * float(budget[:-1]) / 100
        saved.append(report.saved_bytes)
        peaks.append(allocator_peak(lambda run=run: (trained(model, run, x), 0)[1:])[1])
    assert sorted(saved, reverse=True) == saved
    assert sorted(peaks, reverse=True) == peaks
    assert saved[2] < 0.5 * saved[0]


def test_what_is_saved_is_what_the_forward_half_returns() -> None:
    """In bytes, parameters and batch apart; random masks are among it."""
    model, x = net()
    halves: list[Any] = []

    def partition(*args: Any, **options: Any) -> Any:
        halves.extend(inner(*args, **options))
        return halves[0], halves[1]

    inner = partitioner("50%", time=20)
    trained(model, compiled(model, partition), x)
    returned = halves[0].graph.output_node().args[0][1:]
    made = [node for node in returned if node.op != "placeholder"]
    assert sum(n.meta["val"].numel() * n.meta["val"].element_size() for n in made) == inner.reports[0].saved_bytes
    assert not any(node.target is torch.ops.aten.native_dropout.default for node in halves[1].graph.nodes)


def test_inductor_takes_it() -> None:
    """Its code for both halves computes what eager does, as near as it does without: with dropout off, whose numbers
    Inductor draws in its own way."""
    model, x = net(2)
    model.eval()
    expected = trained(model, model, x)
    partition = partitioner("70%", time=20)
    torch._dynamo.reset()
    config = import_module("torch._functorch.config")  # its cache would give halves without asking again
    with torch._inductor.config.patch(custom_partitioner_fn=partition), config.patch(enable_autograd_cache=False):
        got = trained(model, torch.compile(model, dynamic=False), x)
    assert [(report.met, report.recomputed > 0) for report in partition.reports] == [(True, True)]
    for a, b in zip(got, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_it_is_a_key_of_caches_and_refuses_in_words() -> None:
    """Equal ones are one key; what is no budget, no sequence and no fixed size are said."""
    one, other = partitioner("50%"), partitioner("60%")
    assert one.uuid() == partitioner("50%").uuid() != other.uuid()
    assert pickle.loads(pickle.dumps(one)).uuid() == one.uuid()
    for budget in ("150%", "much%", "-3"):
        with pytest.raises(InputError):
            partitioner(budget)
    model, x = net()
    with pytest.raises(Exception, match="no sequence within"):
        trained(model, compiled(model, partitioner("1%", time=0.2, strict=True)), x)
