"""What kernels of onnxruntime take while they run, seen in the runtime: Einsum and recurrent layers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lowtide

pytest.importorskip("onnxruntime")


def measured(node: onnx.NodeProto, inputs: list[Any], path: Path, constants: tuple[Any, ...] = ()) -> None:
    """The node runs on copies of graph inputs; its mark and its arena are the predicted ones."""
    nodes = [
        helper.make_node("Transpose", [v.name], [f"{v.name}_"], perm=range(len(v.type.tensor_type.shape.dim)))
        for v in inputs
    ]
    for v in inputs:
        node.input[list(node.input).index(v.name)] = f"{v.name}_"
    last = helper.make_node("Shape", [node.output[0]], ["end"])
    out = helper.make_tensor_value_info("end", TensorProto.INT64, None)
    graph = helper.make_graph([*nodes, node, last], "g", inputs, [out], list(constants))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), str(path))
    plan = lowtide.research.plan(path, target="onnxruntime", time=5)
    report = lowtide.verify(path, plan, run=True)
    run: Any = report.run
    assert run.exact.mark_bytes == report.numbers["arena_load_bytes"], (node, list(inputs))
    assert run.exact.held_bytes == plan.runtime_arena_bytes


EQUATIONS = (
    "bij,bjk->bik", "bij,bkj->bik", "bij,bjk->bki", "bij,jk->ik", "ij,ij->i", "ij,kj->ik", "bythwc,hkc->bythwk",
    "bhid,bhjd->bhij", "bhij,bhjd->bihd", "ij->ji", "ij->i", "ijk->ki", "i,j->ij", "i,j->ji", "...ij,jk->...ik",
    "...ij->...ji", "bij,bjk", "ab,cd->dcba", "abc,cde->abde", "abc,cbe->ae",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str, tmp_path: Path) -> None:
    """Axes of random lengths, 1 among them."""
    for seed in range(3):
        draw = random.Random(f"{equation} {seed}")
        lengths = {c: draw.choice((1, 2, 3, 5, 40)) for c in sorted(set(equation)) if c.isalpha()}
        hidden = [draw.choice((1, 2, 3)) for _ in range(2)]
        inputs = []
        for k, term in enumerate(equation.partition("->")[0].split(",")):
            shape = [n for c in term.replace("...", ".") for n in (hidden if c == "." else [lengths[c]])]
            inputs.append(helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, shape))
        node = helper.make_node("Einsum", [v.name for v in inputs], ["y"], equation=equation)
        measured(node, inputs, tmp_path / "m.onnx")


def weights(name: str, *shape: int) -> onnx.TensorProto:
    """Small ones."""
    return numpy_helper.from_array(np.full(shape, 0.01, np.float32), name)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU linear", "RNN"])
def test_recurrent_layers(kind: str, direction: str, tmp_path: Path) -> None:
    """With and without biases, lengths, initial states and peepholes; with some outputs only."""
    name, _, linear = kind.partition(" ")
    for seed in range(4):
        draw = random.Random(f"{kind} {direction} {seed}")
        steps, batch, read, hidden = (draw.randrange(1, n) for n in (9, 7, 40, 90))
        ways, gates = 1 + (direction == "bidirectional"), {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
        constants = [weights("w", ways, gates * hidden, read), weights("r", ways, gates * hidden, hidden)]
        given = ["x", "w", "r", "", "", ""]
        if draw.random() < 0.5:
            constants.append(weights("b", ways, 2 * gates * hidden))
            given[3] = "b"
        if draw.random() < 0.5:
            constants.append(numpy_helper.from_array(np.full((batch,), steps, np.int32), "n"))
            given[4] = "n"
        if draw.random() < 0.5:
            constants.append(weights("h", ways, batch, hidden))
            given[5] = "h"
        if name == "LSTM" and draw.random() < 0.5:
            constants.append(weights("p", ways, 3 * hidden))
            given += ["", "p"]
        made = ["y", *(draw.choice((o, "")) for o in (("h_", "c_") if name == "LSTM" else ("h_",)))]
        more: dict[str, Any] = {"linear_before_reset": 1} if linear else {}
        node = helper.make_node(name, given, made, hidden_size=hidden, direction=direction, **more)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, batch, read))
        measured(node, [x], tmp_path / "m.onnx", tuple(constants))
