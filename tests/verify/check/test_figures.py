"""A plan's figures of a runtime are those of the plan."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from support.small_models import onnx_file


@pytest.mark.parametrize("target", ["onnxruntime", "generic"])
def test_the_checker_refuses_figures_that_are_not_the_plans(tmp_path: Path, target: str) -> None:
    """A smaller figure than the order needs, and a runtime that has nothing to do with it."""
    path = onnx_file(tmp_path)
    graph = lowtide.load(path)
    plan = lowtide.research.plan(path, target=target)
    assert any(c.name == "runtime_figures" for c in lowtide.verify(graph, plan).checks)
    first = (plan.runtime_figures or [])[0]
    for wrong in (
        msgspec.structs.replace(first, planned_bytes=(first.planned_bytes or 0) - 4),
        msgspec.structs.replace(first, default_bytes=-1),
        msgspec.structs.replace(first, runtime="LiteRT", planned_bytes=0),
    ):
        with pytest.raises(VerificationError, match="runtime_figures"):
            lowtide.verify(graph, msgspec.structs.replace(plan, runtime_figures=[wrong]))
