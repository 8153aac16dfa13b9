"""torch itself loads and runs what was written; only where torch is installed."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.errors import MissingExtraError
from lowtide.run.torch import run_torch
from lowtide.run_reports import TorchRunReport
from support.pt2_builder import archive, branches

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")


@pytest.mark.skipif(torch is not None, reason="torch is installed")
def test_a_missing_torch_is_reported(tmp_path: Path) -> None:
    """The extra is named."""
    path = archive(tmp_path / "m.pt2", branches(2))
    with pytest.raises(MissingExtraError, match="torch"):
        lowtide.verify(path, lowtide.research.plan(path), run=True)


@pytest.mark.skipif(torch is None, reason="needs the extra torch")
def test_storages_live_at_once_are_those_of_the_plan(tmp_path: Path) -> None:
    """Before and after, to the byte, with views, in-place operators and several outputs."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = nn.ModuleList([nn.Conv2d(3, 32, 3, padding=1) for _ in range(4)])
            self.thin = nn.ModuleList([nn.Conv2d(32, 2, 1) for _ in range(4)])
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            wide = [self.relu(c(x)) for c in self.wide]
            a, b, c, d = (t(w) for t, w in zip(self.thin, wide, strict=True))
            left, right = d.flatten(2).chunk(2, dim=2)
            a.add_(b * c)
            return a.max(dim=2).values, left.transpose(1, 2).reshape(1, -1), right.sum(-1)

    source, out = tmp_path / "m.pt2", tmp_path / "o.pt2"
    torch.manual_seed(0)
    torch.export.save(torch.export.export(Net().eval(), (torch.randn(1, 3, 32, 32),)), source)
    plan = lowtide.research.plan(source)
    assert plan.peak_bytes < plan.own_order_peak_bytes
    plan.apply(source, out)
    seen = run_torch(source, out, plan)
    assert isinstance(seen, TorchRunReport)
    assert seen.equal
    assert not seen.vacuous
    assert seen.order_kept
    assert (seen.original_peak_bytes, seen.planned_peak_bytes) == (plan.own_order_peak_bytes, plan.peak_bytes)


@pytest.mark.skipif(torch is None, reason="needs the extra torch")
def test_a_free_dimension_runs_at_the_size_that_was_planned(tmp_path: Path) -> None:
    """Not at the example's: what is measured is what the plan says."""

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x @ x.transpose(1, 2)).sum(1)

    size = torch.export.Dim("n", min=2, max=64)
    source = tmp_path / "m.pt2"
    program = torch.export.export(Net(), (torch.randn(4, 8, 3),), dynamic_shapes={"x": {0: size}})
    torch.export.save(program, source)
    plan = lowtide.research.plan(source, dims={"x:0": 16})
    seen = lowtide.verify(source, plan, dims={"x:0": 16}, run=True).run
    assert isinstance(seen, TorchRunReport)
    assert seen.equal
    assert seen.planned_peak_bytes == seen.plan_bytes == plan.peak_bytes
