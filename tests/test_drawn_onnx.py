"""A few of the models of `stress_onnx.py`: what is written opens with the optimiser on and off, and is as it says."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

import lowtide

pytest.importorskip("onnxruntime", reason="what is written is run in onnxruntime, which is not installed")
from stress_onnx import Flaw, apart, check, compare, drawn_model


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_drawn_models_are_as_their_plans_say(block: int) -> None:
    """Of all versions, in float32, float16, with quantised tensors between, and of quantised ops."""
    count = Counter[str]()
    for seed in range(1000 * block, 1000 * block + 6):
        check(seed, count)
    assert count["models"] == 6
    assert any(count[what] for what in count if what.startswith("plans, ") and what != "plans, order alone")


@pytest.mark.slow
def test_what_is_drawn() -> None:
    """Each kind and each version, and the shapes of models that are hard to write: a region of interest, for one."""
    drawn = [drawn_model(Random(seed)) for seed in range(180)]
    assert {kind for kind, _ in drawn} == {"float32", "float16", "mixed", "qdq", "qoperator"}
    versions = {next(o.version for o in model.opset_import if not o.domain) for _, model in drawn}
    assert versions == set(range(7, 25))
    types = Counter(node.op_type for _, model in drawn for node in model.graph.node)
    assert {"Resize", "Upsample", "Conv", "MatMul", "Softmax", "QLinearConv", "Concat", "Split", "Pad"} <= set(types)


def test_a_difference_is_seen() -> None:
    """One bit of one output where bits are promised, and a number that is none."""
    one, other = [[np.ones(4, np.float32)]], [[np.array([1, 1, 1, 1 + 1e-6], np.float32)]]
    assert apart(one, one) == 0 < apart(one, other) < 1e-5
    assert apart(one, [[np.full(4, np.nan, np.float32)]]) == float("inf")
    plan = lowtide.research.plan("zoo:swiftnet_cell_a", target="generic")
    compare(plan, "float32", [0.0, 0.0], {"allow": ""}, Counter(), lambda: 0.0)
    for far in ([1e-7, 0.0], [0.0, 1e-2]):
        with pytest.raises(Flaw):
            compare(plan, "float32", far, {"allow": ""}, Counter(), lambda: 0.0)
