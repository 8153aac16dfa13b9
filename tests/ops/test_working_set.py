"""The least working set of a cut, by hand on small graphs."""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.working_set import working_set_bound
from lowtide.read import read_model
from support.onnx_builder import constant, model, node, saved, value


def chain(folder: Path) -> Graph:
    """A 3 x 3 convolution of padding 1 from 4 to 8 channels on 10 rows of 6, ReLU, and a sum over all places."""
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "y"),
    ]
    weights = constant("w", [0.5] * (8 * 4 * 9), (8, 4, 3, 3))
    return read_model(saved(model(nodes, [value("x", (1, 4, 10, 6))], [value("y", (1, 8, 1, 1))], [weights]), folder))


def test_floor_of_a_chain(tmp_path: Path) -> None:
    """The input stays whole, a row of the convolution's result beside it; streamed, three rows of the input do."""
    graph = chain(tmp_path)
    whole_input, row_out, row_in = 4 * 4 * 60, 4 * 8 * 6, 4 * 4 * 6
    found = working_set_bound(graph)
    assert (found.size, found.op) == (whole_input + row_out, graph.ops[0].id)
    conv, relu, pool = found.ops
    assert conv.untiled == whole_input + 4 * 8 * 60
    assert relu.size == 2 * row_out
    assert relu.untiled == 2 * 4 * 8 * 60
    assert pool.size == row_out + 4 * 8
    assert working_set_bound(graph, overlap=True).size == whole_input
    streamed = working_set_bound(graph, streamed=True)
    # one input channel at a time would need 240 B beside the whole result, one row of the result three of the input
    assert (streamed.size, streamed.op) == (3 * row_in + row_out, graph.ops[0].id)


def test_views_cost_nothing_and_ends_count(tmp_path: Path) -> None:
    """A reshape is no step of its own; the inputs together are a bound of their own."""
    nodes = [node("Flatten", "x", "f"), node("Gemm", "f w", "y")]
    weights = constant("w", [0.5] * 240, (240, 1))
    graph = read_model(saved(model(nodes, [value("x", (1, 4, 10, 6))], [value("y", (1, 1))], [weights]), tmp_path))
    found = working_set_bound(graph)
    assert [op.op for op in found.ops] == [graph.ops[1].id]
    assert (found.size, found.op) == (960, None)


def test_an_unknown_op_is_whole_and_says_why() -> None:
    """Without a dialect nothing can be cut; of an op without a row neither, and the reason is there."""
    tensors = (
        Tensor(0, 8, Kind.INPUT, shape=(2,), dtype="float32"),
        Tensor(1, 8, Kind.OUTPUT, shape=(2,), dtype="float32"),
    )
    op = Op(0, (0,), (1,), type="NonZero", operands=(0,))
    nobody = working_set_bound(Graph("g", tensors, (op,)))
    assert nobody.ops[0].opaque == "ops of no known format"
    known = working_set_bound(Graph("g", tensors, (op,), dialect="onnx"))
    assert known.ops[0].opaque == "no row for NonZero"
    assert known.size == nobody.size == 16


def test_views_of_one_tensor_count_once(tmp_path: Path) -> None:
    """Two results that are views of each other, and an op that reads both, need the memory of one."""
    nodes = [node("Sigmoid", "x", "a"), node("Flatten", "a", "f"), node("Mul", "a f", "y")]
    graph = read_model(
        saved(model(nodes, [value("x", (8, 4))], [value(n, (8, 4)) for n in ("a", "f", "y")], []), tmp_path)
    )
    found = working_set_bound(graph, overlap=True)
    assert found.size == 2 * 4 * 32 == lowtide.research.plan(graph, target="generic").peak_bytes
    assert found.ops[1].untiled == 4 * 32


def test_rows_that_nobody_needs_are_no_floor(tmp_path: Path) -> None:
    """Of a result a row of which is read, no more may be made; behind that all is."""
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Slice", "c zero two two", "s"),
        node("Conv", "s w", "y", pads=[1, 1, 1, 1]),
    ]
    weights = [constant("w", [0.5] * 144, (4, 4, 3, 3))]
    weights += [constant(n, [k], (1,), TensorProto.INT64) for k, n in ((0, "zero"), (2, "two"))]
    graph = read_model(saved(model(nodes, [value("x", (1, 4, 100, 2))], [value("y", (1, 4, 2, 2))], weights), tmp_path))
    assert working_set_bound(graph, streamed=True).op != graph.ops[0].id
    assert working_set_bound(graph, streamed=True).size < working_set_bound(graph, streamed=True).ops[0].size
