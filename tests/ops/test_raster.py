"""Rows made in turn: how far a result may lie over what it is made of, against kernels that run so on real bytes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

import lowtide
from lowtide.graph import Graph
from lowtide.ops.raster import distances, memory_dims, same_bytes
from lowtide.read import read_model
from lowtide.target import resolve
from support.onnx_builder import constant, model, node, saved, value

DIAGONAL = "generic,layout=channels_last,overlap=diagonal"


def _convolved(folder: Path, rng: Random) -> tuple[Graph, dict[str, int]]:
    """One convolution over rows; its numbers."""
    taps, stride, dilation = rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 3)), rng.choice((1, 1, 2))
    before, behind = rng.randint(0, taps - 1), rng.randint(0, taps - 1)
    rows, read, made = rng.randint(9, 16), rng.randint(1, 4), rng.randint(1, 4)
    reach = (taps - 1) * dilation + 1
    count = (rows + before + behind - reach) // stride + 1
    conv = node(
        "Conv", "a w", "b", strides=[stride, 1], dilations=[dilation, 1], pads=[before, 0, behind, 0],
        kernel_shape=[taps, 1],
    )  # fmt: skip
    nodes = [node("Relu", "x", "a"), conv, node("Relu", "b", "y")]
    weights = constant("w", [1.0] * (made * read * taps), [made, read, taps, 1])
    made_model = model(nodes, [value("x", (1, read, rows, 2))], [value("y", (1, made, count, 2))], [weights])
    numbers = {"taps": taps, "stride": stride, "dilation": dilation, "before": before, "rows": rows, "count": count}
    return read_model(saved(made_model, folder)), numbers | {"read": read * 8, "made": made * 8}


def _spoils(n: dict[str, int], below: int) -> bool:
    """Whether a kernel that makes rows in turn spoils an input `below` bytes above the start of its result.

    It scribbles over all of row r before it reads anything for it.
    """
    arena = np.zeros(4 * (n["rows"] * n["read"] + n["count"] * n["made"] + abs(below)), dtype=np.int8)
    base = n["count"] * n["made"] + 8
    for row in range(n["rows"]):
        at = base + below + row * n["read"]
        arena[at : at + n["read"]] = row + 1
    for r in range(n["count"]):
        arena[base + r * n["made"] : base + (r + 1) * n["made"]] = -1
        for tap in range(n["taps"]):
            row = r * n["stride"] - n["before"] + tap * n["dilation"]
            if 0 <= row < n["rows"]:
                at = base + below + row * n["read"]
                if not (arena[at : at + n["read"]] == row + 1).all():
                    return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_a_distance_is_the_least_that_a_kernel_spoils_nothing_at(tmp_path: Path, seed: int):
    """Convolutions of any taps, strides, dilations and paddings: at the distance and above nothing is spoilt, and one
    byte below something is, unless every input row is needed by the last row made."""
    graph, numbers = _convolved(tmp_path, Random(seed))
    conv = graph.ops[1]
    ((tensor, distance),) = distances(graph, conv, channels_last=True)
    assert tensor == conv.inputs[0]
    assert not any(_spoils(numbers, distance + more) for more in range(20))
    if numbers["dilation"] == 1:
        first = [max(0, r * numbers["stride"] - numbers["before"]) for r in range(numbers["count"])]
        if all(row < numbers["rows"] for row in first):
            assert _spoils(numbers, distance - 1)


def test_planar_images_overlap_by_channels_only(tmp_path: Path):
    """As the file has them a convolution of several channels reads them all for each; a pool reads its own alone."""
    nodes = [
        node("Relu", "x", "a"),
        node("Conv", "a w", "b"),
        node("MaxPool", "b", "y", kernel_shape=[2, 2]),
    ]
    weights = constant("w", [1.0] * 12, [3, 4, 1, 1])
    graph = read_model(saved(model(nodes, [value("x", (1, 4, 5, 5))], [value("y", (1, 3, 4, 4))], [weights]), tmp_path))
    _, conv, pool = graph.ops
    assert distances(graph, conv, channels_last=False) == ()
    ((read, distance),) = distances(graph, pool, channels_last=False)
    assert (read, distance) == (conv.outputs[0], 64)
    assert dict(distances(graph, conv, channels_last=True)) == {conv.inputs[0]: 3 * 5 * 4}


def test_an_input_that_is_read_whole_is_never_lain_over(tmp_path: Path):
    """The weights of a product are needed to its last row; the rows of the data are not."""
    nodes = [node("Relu", "x", "a"), node("Relu", "z", "b"), node("MatMul", "a b", "y")]
    made = model(nodes, [value("x", (6, 4)), value("z", (4, 2))], [value("y", (6, 2))])
    graph = read_model(saved(made, tmp_path))
    product = graph.ops[2]
    assert dict(distances(graph, product, channels_last=False)) == {product.inputs[0]: 2 * 4}
    square = model([node("Relu", "x", "a"), node("MatMul", "a a", "y")], [value("x", (4, 4))], [value("y", (4, 4))])
    graph = read_model(saved(square, tmp_path, "s.onnx"))
    assert distances(graph, graph.ops[1], channels_last=False) == ()


def test_a_reshape_of_an_image_moves_bytes_where_channels_are_last(tmp_path: Path):
    """But not of one place, nor of one channel."""
    shape = [constant("s", [1, 12], dtype=7), constant("f", [1, 3], dtype=7)]
    nodes = [
        node("Conv", "x w", "a"),
        node("Reshape", "a s", "y"),
        node("GlobalAveragePool", "a", "g"),
        node("Reshape", "g f", "z"),
    ]
    weights = constant("w", [1.0] * 9, [3, 3, 1, 1])
    results = [value("y", (1, 12)), value("z", (1, 3))]
    graph = read_model(saved(model(nodes, [value("x", (1, 3, 2, 2))], results, [weights, *shape]), tmp_path))
    a, y, g, z = (op.outputs[0] for op in graph.ops)
    assert memory_dims(graph, a, channels_last=True) == (0, 2, 3, 1)
    assert memory_dims(graph, y, channels_last=True) == (0, 1)
    assert not same_bytes(graph, a, y, channels_last=True)
    assert same_bytes(graph, g, z, channels_last=True)
    assert same_bytes(graph, a, y, channels_last=False)


@pytest.mark.parametrize("seed", range(6))
def test_plans_with_partial_overlap_hold(tmp_path: Path, seed: int):
    """Chains of convolutions under a plain target: checked like TFLM's, and lower than in place alone."""
    rng = Random(seed)
    nodes, weights, channels = [], [], 2
    for k in range(5):
        made = rng.choice((2, 3, 4))
        weights.append(constant(f"w{k}", [0.1] * (made * channels * 9), [made, channels, 3, 3]))
        nodes.append(node("Conv", f"t{k} w{k}", f"t{k + 1}", pads=[1, 1, 1, 1]))
        channels = made
    path = saved(model(nodes, [value("t0", (1, 2, 16, 16))], [value("t5", (1, channels, 16, 16))], weights), tmp_path)
    plan = lowtide.research.plan(path, target=DIAGONAL, allow="alias")
    lowtide.verify(path, plan, prove=True)
    assert plan.peak_bytes < lowtide.research.plan(path).peak_bytes
    assert plan.target.startswith(DIAGONAL)


def test_a_runtime_with_a_rule_has_its_own_layout():
    """No other layout is taken for it."""
    with pytest.raises(lowtide.InputError, match="layout is for targets without"):
        resolve("tflm,layout=channels_last")
