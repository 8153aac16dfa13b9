"""Norms and means as sums over rows give the same numbers, far from zero too."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.read import read_model
from lowtide.transform.passed import as_passed
from lowtide.transform.statistics import expand, statistics
from lowtide.write.onnx_parts import write_onnx_parts
from support.norm_nets import KINDS, NormNet, norm_net
from support.onnx_builder import saved

pytest.importorskip("onnxruntime", reason="graphs with sums are run in onnxruntime, which is not installed")
from support.part_runs import RELATIVE, difference, feeds, session


def _as_sums(source: Path, target: Path) -> int:
    """Write a model with all its norms and means as sums; how many there are."""
    graph = read_model(source)
    expanded = expand(graph, statistics(graph))
    passed = as_passed(expanded, expanded.graph.own_order, lambda cutter, runs: [])
    write_onnx_parts(source, passed.parts, passed.parts.graph.own_order, target)
    return len(expanded.expansions)


def _one(kind: str, opset: int) -> NormNet:
    net = NormNet(lambda options: options[0], width=6, side=10, opset=opset)
    net.x = net.mean(net.x, kind) if kind in ("pool", "mean") else net.norm(net.x, kind)
    return net


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_in_each_operator_set(kind: str, opset: int, tmp_path: Path):
    """Axes are attributes or operands, parameters are of groups or of channels."""
    if kind == "op" and opset < 18:
        pytest.skip("the operator is not in that set")
    source, target = saved(_one(kind, opset).model(), tmp_path), tmp_path / "sums.onnx"
    assert _as_sums(source, target) == 1
    assert difference(source, target, feeds(source)) <= RELATIVE


@pytest.mark.parametrize("kind", ["channels", "groups"])
def test_nothing_cancels_far_from_zero(kind: str, tmp_path: Path):
    """With a mean of a thousand deviations what is lost is the operand's own rounding: one part in 2^24 of the mean."""
    net = _one(kind, 20)
    source, target = saved(net.model(), tmp_path), tmp_path / "sums.onnx"
    _as_sums(source, target)
    numbers = 1000 + np.random.default_rng(1).standard_normal(net.shape)
    given_numbers = numbers.astype(np.float32)
    groups, epsilon = (3, 1e-5) if kind == "groups" else (6, 1e-3)
    exact = given_numbers.astype(np.float64).reshape(1, groups, -1)
    even = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + epsilon)
    (seen,) = session(target).run(None, {"x": given_numbers})
    weights = [np.array(w.float_data or np.frombuffer(w.raw_data, np.float32)) for w in net.weights if w.data_type == 1]
    scale, shift = (w.reshape(1, -1, 1) for w in weights[:2])
    wanted = (even * scale + shift).reshape(net.shape)
    assert np.abs(seen - wanted).max() <= 8 * 1000 * 2**-24


def test_many_numbers_lose_no_more_than_few(tmp_path: Path):
    """A quarter of a million numbers of a group, where sums one number behind another are ten times as far off."""
    net = NormNet(lambda options: options[0], width=2, side=512)
    net.x = net.norm(net.x, "channels")
    source, target = saved(net.model(), tmp_path), tmp_path / "sums.onnx"
    _as_sums(source, target)
    given_numbers = np.random.default_rng(2).standard_normal(net.shape).astype(np.float32)
    exact = given_numbers.astype(np.float64)
    even = (exact - exact.mean((2, 3), keepdims=True)) / np.sqrt(exact.var((2, 3), keepdims=True) + 1e-3)
    (seen,) = session(target).run(None, {"x": given_numbers})
    weights = [np.array(w.float_data or np.frombuffer(w.raw_data, np.float32)) for w in net.weights if w.data_type == 1]
    scale, shift = (w.reshape(1, -1, 1, 1) for w in weights[:2])
    wanted = even * scale + shift
    assert np.abs(seen - wanted).max() <= 4 * 2**-24 * np.abs(wanted).max()


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_networks_give_the_same(data: st.DataObject):
    """All statistics of a network at once, in order."""
    model = norm_net(lambda options: data.draw(st.sampled_from(tuple(options))))
    with TemporaryDirectory() as folder:
        source, target = saved(model, Path(folder)), Path(folder) / "sums.onnx"
        assert _as_sums(source, target) == 3
        assert difference(source, target, feeds(source)) <= 10 * RELATIVE


def test_what_is_read_elsewhere_is_left_alone(tmp_path: Path):
    """Who also reads the grouped rows, or works in other numbers, keeps the norm as it is."""
    net = _one("groups", 20)
    net.nodes.append(type(net.nodes[0]).FromString(net.nodes[0].SerializeToString()))
    net.nodes[-1].op_type, net.nodes[-1].name = "Relu", "also"
    net.nodes[-1].input[:], net.nodes[-1].output[:] = ["t0"], ["also"]
    model = net.model()
    model.graph.output.append(type(model.graph.output[0]).FromString(model.graph.output[0].SerializeToString()))
    model.graph.output[-1].name = "also"
    model.graph.output[-1].type.tensor_type.ClearField("shape")
    assert statistics(read_model(saved(model, tmp_path))) == ()
    old = _one("channels", 13).model()
    old.opset_import[0].version = 12
    assert statistics(read_model(saved(old, tmp_path, "old.onnx"))) == ()
