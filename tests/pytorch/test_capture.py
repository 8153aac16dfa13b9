"""Modules of many kinds, captured: gradients, buffers and outputs against eager; only where torch is installed."""

from __future__ import annotations

import copy
import subprocess
import sys
from contextlib import suppress
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pytest

from lowtide.errors import InputError, MissingExtraError
from lowtide.torch import StepOptions, compile, compile_step, measure
from lowtide.torch.cost import read_costs

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)  # small nets, and other tests beside them

needs_torch = pytest.mark.skipif(torch is None, reason="needs the extra torch")


@pytest.mark.skipif(torch is not None, reason="torch is installed")
def test_a_missing_torch_is_reported() -> None:
    """The extra is named."""
    with pytest.raises(MissingExtraError, match="torch"):
        compile(None, ())


@pytest.mark.slow
def test_torch_is_imported_by_calls_alone() -> None:
    """Neither `import lowtide` nor `import lowtide.torch` does it."""
    code = "import lowtide, lowtide.torch, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def equal(model: Any, loss_fn: Any, batch: tuple[Any, ...], calls: int = 2) -> bool:
    """Whether losses, gradients and buffers of a planned step are eager's, call after call."""
    eager = copy.deepcopy(model)
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    result = True
    for k in range(calls):
        with torch.random.fork_rng():
            torch.manual_seed(k)
            loss = step(*batch)
            torch.manual_seed(k)
            output = eager(**batch[0]) if isinstance(batch[0], dict) else eager(batch[0])
            expected = output if loss_fn is None else loss_fn(output, *batch[1:])
            expected.backward()
        result &= torch.equal(loss, expected.detach())
    pairs = list(zip(model.state_dict().values(), eager.state_dict().values(), strict=True))
    pairs += [
        (p.grad, q.grad) for p, q in zip(model.parameters(), eager.parameters(), strict=True) if q.grad is not None
    ]
    assert all(
        (p.grad is None) == (q.grad is None) for p, q in zip(model.parameters(), eager.parameters(), strict=True)
    )
    return result and all(torch.equal(a, b) for a, b in pairs)


@needs_torch
@pytest.mark.slow
def test_a_criterion_with_weights_of_its_own() -> None:
    """They are given tensors of the step, as the module's are."""
    criterion = torch.nn.CrossEntropyLoss(weight=torch.rand(4), label_smoothing=0.1)
    assert equal(torch.nn.Linear(4, 4), criterion, (torch.randn(3, 4), torch.randint(4, (3,))))


@needs_torch
@pytest.mark.slow
def test_a_batch_of_names_a_buffer_that_moves_and_a_layer_that_is_not_used() -> None:
    """Keyword arguments, state outside of the optimizer, parameters without a gradient, a constant in the code."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, a: Any, b: Any) -> Any:
            self.mean.mul_(0.9).add_(a.mean(0), alpha=0.1)
            return (self.used(a) * torch.tensor([1.0, 2.0, 3.0, 4.0]) - self.mean + b).square().mean()

    batch = ({"a": torch.randn(3, 4), "b": torch.randn(4)},)
    eager = Net()
    assert equal(eager, lambda output: output, batch)


@needs_torch
@pytest.mark.slow
def test_checkpoints_layouts_and_parametrizations() -> None:
    """torch's own checkpoint, channels last, spectral norm, autocast, random numbers in the code."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Dropout(0.2)).to(memory_format=torch.channels_last)
            self.b = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4))
            self.noise = nn.Dropout2d(0.5)

        def forward(self, x: Any) -> Any:
            x = import_module("torch.utils.checkpoint").checkpoint(self.a, x, use_reentrant=False)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                x = self.b(self.noise(x).flatten(2).mean(2))
            return (x.float() + torch.randn_like(x, dtype=torch.float32)).std()

    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    assert equal(Net(), None, (x,))


@needs_torch
@pytest.mark.slow
def test_outputs_that_lie_in_inputs_and_in_each_other() -> None:
    """A forward pass returns what the module returns, whosever memory it is."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            return x, x.view(-1), y, y.t(), y, self.layer.weight, y.sum()

    model, x = Net(), torch.randn(3, 4)
    outputs = compile(model, (x,), options=StepOptions(measure=False))(x)
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(outputs, model(x), strict=True))


@needs_torch
@pytest.mark.slow
def test_planning_needs_no_memory() -> None:
    """A step of many gigabytes on the meta device, where nothing can be measured."""
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(4096, 65536), torch.nn.ReLU(), torch.nn.Linear(65536, 4096))
        batch = (torch.empty(8192, 4096),)
    step = compile_step(model, lambda output: output.square().mean(), batch, options=StepOptions(time=0))
    assert step.predicted_peak_bytes > 6 * 2**30
    assert step.plan.unmeasured == len(step.graph.ops)


@needs_torch
@pytest.mark.slow
def test_a_batch_that_is_changed_and_recurrent_kernels_are_refused() -> None:
    """With what to do."""

    class Doubling(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mul_(2).sum()

    with pytest.raises(InputError, match="changes its batch or a parameter"):
        compile(Doubling(), (torch.randn(3),), options=StepOptions(measure=False))
    with pytest.raises(InputError, match=r"mkldnn\.flags"):
        compile_step(
            torch.nn.LSTM(4, 4),
            lambda output: output[0].sum(),
            (torch.randn(3, 2, 4),),
            options=StepOptions(measure=False),
        )


@needs_torch
@pytest.mark.slow
def test_a_step_says_which_layers_may_differ_in_the_last_bits() -> None:
    """GRU and its cell do, on their own and inside, with gradients and without; it is said of no other layer."""
    words = "GRU: last bits may differ from eager's"
    lines: list[str] = []
    gru, x = torch.nn.GRU(24, 40), torch.randn(5, 7, 24)
    assert words in repr(compile(gru, (x,), options=StepOptions(measure=False, report=lines.append)))
    assert lines.count(words) == 1
    cell = torch.nn.Sequential(torch.nn.GRUCell(24, 40), torch.nn.Linear(40, 4))
    eager = copy.deepcopy(cell)
    step = compile_step(cell, lambda y: y.pow(2).mean(), (x[0],), options=StepOptions(measure=False))
    assert "GRUCell: last bits may differ" in repr(step)
    step(x[0])
    eager(x[0]).pow(2).mean().backward()
    for p, q in zip(cell.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-5, atol=1e-6)
    for other in (torch.nn.RNNCell(24, 40), torch.nn.LSTMCell(24, 40)):
        assert "last bits" not in repr(compile(other, (x[0],), options=StepOptions(measure=False)))


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("measured", [False, True])
def test_sparse_gradients_are_refused_with_the_layers_name(measured: bool) -> None:
    """Measured or not; a forward pass of the same layer has none; a sparse tensor of no such layer is named by its
    layout."""

    class Tagged(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(10, 4, sparse=True)

        def forward(self, x: Any) -> Any:
            return self.words(x)

    class Sparse(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.to_sparse().to_dense()

    words, x = torch.nn.Embedding(10, 4, sparse=True), torch.tensor([1, 2, 1])
    with pytest.raises(InputError, match=r"^gradients of 'words' are sparse.*; make it with sparse=False"):
        compile_step(Tagged(), lambda y: y.mean(), (x,), options=StepOptions(measure=measured))
    with pytest.raises(InputError, match="gradients of the module itself are sparse"):
        compile_step(words, lambda y: y.mean(), (x,), options=StepOptions(measure=measured))
    assert torch.equal(compile(words, (x,), options=StepOptions(measure=measured))(x), words(x))
    with pytest.raises(InputError, match=r"a tensor of layout torch\.sparse_coo"):
        compile(Sparse(), (x,), options=StepOptions(measure=measured))


@needs_torch
@pytest.mark.slow
def test_a_cost_table_is_a_file_and_saves_the_measuring(tmp_path: Path) -> None:
    """It goes out and in as it is; what it lacks is measured; with all of it nothing is."""
    model, batch = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh()), (torch.randn(3, 4), torch.randn(3, 8))
    loss_fn = torch.nn.functional.mse_loss
    bare = compile_step(model, loss_fn, batch, options=StepOptions(measure=False, time=0))
    assert bare.costs is None
    assert bare.plan.unmeasured == len(bare.graph.ops)
    counts: list[tuple[int, int]] = []
    costs = measure(bare, report=lambda done, of: counts.append((done, of)))
    assert counts == [(k + 1, len(costs.ops)) for k in range(len(costs.ops))]
    costs.save(tmp_path / "cpu.json")
    assert read_costs(tmp_path / "cpu.json") == costs
    planned = compile_step(model, loss_fn, batch, options=StepOptions(costs=tmp_path / "cpu.json", measure=False))
    assert planned.plan.unmeasured == 0
    assert planned.plan.costs_sha256 == costs.sha256
    assert compile_step(model, loss_fn, batch, options=StepOptions(costs=costs)).costs == costs
    squares = next(op for op in costs.ops if op.signature.startswith("aten.mse_loss.default"))
    assert squares.output_bytes[0] > 4  # a scalar on memory of the size of the batch
    (tmp_path / "cpu.json").write_text("[]")
    with pytest.raises(InputError, match="no cost file"):
        read_costs(tmp_path / "cpu.json")


@pytest.mark.parametrize(("name", "of"), [("cpu.json", "ONNX models"), ("rtx3090.json", "graph JSON")])
def test_a_cost_file_of_another_format_says_which(name: str, of: str, tmp_path: Path) -> None:
    """Those that lowtide brings along are of graphs, and no table of a step's ops."""
    (tmp_path / name).write_bytes(resources.files("lowtide.cost").joinpath("files", name).read_bytes())
    with pytest.raises(InputError, match=f"it is a cost file of {of}, for --cost; a step takes a table of") as caught:
        read_costs(tmp_path / name)
    assert "\n" not in str(caught.value)


@needs_torch
@pytest.mark.slow
def test_another_process_replays_a_plan(tmp_path: Path) -> None:
    """The same module there gives the same source, found without a search."""
    code = """
import sys, torch, lowtide.torch
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()) for _ in range(6)))
batch = (torch.randn(64, 16), torch.randn(64, 16))
keep = dict(plan=sys.argv[2]) if len(sys.argv) > 2 else dict(budget=24000)
options = lowtide.torch.StepOptions(measure=False)
step = lowtide.torch.compile_step(model, torch.nn.functional.mse_loss, batch, **keep, options=options)
step.emit(sys.argv[1] + ".txt")
if len(sys.argv) == 2:
    step.save(sys.argv[1])
print(float(step(*batch)), len(step.plan.ops) > len(step.graph.ops))
"""
    runs = [["one"], ["two", "one"]]
    said = [
        subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        for words in runs
    ]
    assert said[0].stdout == said[1].stdout
    assert said[0].stdout.endswith("True\n")
    assert (tmp_path / "one.txt").read_text() == (tmp_path / "two.txt").read_text()
