"""Modules and exported programs of torch as models: planned, checked, written, run; only where torch is installed."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.errors import InputError

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


def branches() -> tuple[Any, Any]:
    """Four wide branches written breadth-first, whose own order is not the least; and an input."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = nn.ModuleList(nn.Conv2d(3, 16, 3, padding=1) for _ in range(4))
            self.thin = nn.ModuleList(nn.Conv2d(16, 2, 1) for _ in range(4))

        def forward(self, x: Any) -> Any:
            wide = [layer(x) for layer in self.wide]
            return sum(layer(h) for layer, h in zip(self.thin, wide, strict=True))

    torch.manual_seed(0)
    return Net().eval(), torch.randn(1, 3, 16, 16)


def test_a_module_is_planned_as_the_file_of_its_export_is(tmp_path: Path) -> None:
    """The same order, peak and digest as of the saved archive of that name."""
    model, x = branches()
    plan = lowtide.research.plan(model, (x,))
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "program.pt2")
    saved = lowtide.research.plan(tmp_path / "program.pt2")
    assert plan.order == saved.order
    assert plan.model_sha256 == saved.model_sha256
    assert plan.target == "torch"
    assert plan.peak_bytes == saved.peak_bytes < plan.own_order_peak_bytes
    assert lowtide.verify(tmp_path / "program.pt2", plan).checks


def test_a_program_is_planned_checked_run_and_written(tmp_path: Path) -> None:
    """Every call that takes a model takes it, and what is written computes the same in the planned order."""
    model, x = branches()
    program = torch.export.export(model, (x,))
    plan = lowtide.research.plan(program)
    run = lowtide.verify(program, plan, run=True).run
    assert run is not None
    assert run.planned_peak_bytes == plan.peak_bytes < run.original_peak_bytes
    assert all(output.equal for output in run.outputs)
    assert lowtide.inspect(program, ladder=0).peak_bytes == plan.peak_bytes
    assert lowtide.check(program, plan.peak_bytes).status == "ok"
    assert [row.peak_bytes for row in lowtide.research.compare(program, ["own"])] == [plan.own_order_peak_bytes]
    assert lowtide.load(program).sha256 == plan.model_sha256
    assert [m.name for m in lowtide.research.share([program, program]).models] == ["program", "program_2"]
    plan.apply(program, tmp_path / "out.pt2")
    written = torch.export.load(tmp_path / "out.pt2")
    assert torch.equal(written.module()(x), model(x))
    assert lowtide.inspect(tmp_path / "out.pt2", ladder=0).own_order_peak_bytes == plan.peak_bytes


def test_a_plan_is_refused_for_another_program(tmp_path: Path) -> None:
    """Of other weights, too: the digest is the file's."""
    model, x = branches()
    plan = lowtide.research.plan(model, (x,))
    with torch.no_grad():
        model.thin[0].bias.add_(1)
    other = torch.export.export(model, (x,))
    with pytest.raises(InputError, match="another model"):
        plan.apply(other, tmp_path / "out.pt2")
    assert not (tmp_path / "out.pt2").exists()
    with pytest.raises(InputError, match="another model"):
        lowtide.verify(other, plan)


def test_dynamic_shapes_need_their_sizes() -> None:
    """The message names the symbol; with a size of the input's axis it is planned."""
    model, x = branches()
    shapes = ({0: torch.export.Dim("batch", min=2, max=16)},)
    program = torch.export.export(model, (x.repeat(2, 1, 1, 1),), dynamic_shapes=shapes)
    with pytest.raises(InputError, match=r"^program\.pt2: these dimensions are free"):
        lowtide.research.plan(program)
    two, four = (lowtide.research.plan(program, dims={"x:0": size}).peak_bytes for size in (2, 4))
    assert four == 2 * two


def test_what_cannot_be_exported_is_said_in_a_line() -> None:
    """A module without an example, an example that is no tuple or does not fit, one for what is no module."""
    model, x = branches()
    for call in (lowtide.research.plan, lowtide.load, lowtide.inspect):
        with pytest.raises(InputError, match=r"lowtide\.plan\(module, \(x,\)\)"):
            call(model)
    with pytest.raises(InputError, match="Net: the example is the tuple"):
        lowtide.research.plan(model, x)
    with pytest.raises(InputError, match="Net: torch cannot export it"):
        lowtide.research.plan(model, (x, x))
    with pytest.raises(InputError, match="the model is none"):
        lowtide.research.plan("zoo:swiftnet_cell_a", (x,))
