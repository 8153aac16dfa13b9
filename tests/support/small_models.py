"""Small models as files, and the command line run in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.onnx_builder import constant, model, node, saved, value


def tensor(i: int, size: int, kind: str = "activation", **more: Any) -> dict[str, Any]:
    """A tensor of a graph JSON, named ``t`` and its id."""
    return {"id": i, "size": size, "kind": kind, "name": f"t{i}", **more}


def op(i: int, inputs: list[int], outputs: list[int], **more: Any) -> dict[str, Any]:
    """An op of a graph JSON, named ``op`` and its id."""
    return {"id": i, "inputs": inputs, "outputs": outputs, "name": f"op{i}", "type": "Conv", **more}


def branches() -> dict[str, Any]:
    """Two branches that each swell to 100 bytes. Under `strict` the own order needs 208 bytes, the best one 109."""
    return {
        "name": "branches",
        "tensors": [
            tensor(0, 8, "input"), tensor(1, 100), tensor(2, 100), tensor(3, 1), tensor(4, 1), tensor(5, 1, "output"),
        ],
        "ops": [op(0, [0], [1]), op(1, [0], [2]), op(2, [1], [3]), op(3, [2], [4]), op(4, [3, 4], [5])],
    }  # fmt: skip


def matrix_product(n: int) -> dict[str, Any]:
    """The n * n * n products of a matrix product and the sums of each row and column: hard to prove from n = 6 on."""
    tensors = [tensor(i, 8 + i % 5, "input") for i in range(2 * n * n)]
    ops: list[dict[str, Any]] = []

    def add(inputs: list[int], size: int, kind: str = "activation") -> int:
        tensors.append(tensor(len(tensors), size, kind))
        ops.append(op(len(ops), inputs, [len(tensors) - 1]))
        return len(tensors) - 1

    made: dict[tuple[int, int, int], int] = {}
    for i in range(n):
        for j in range(n):
            for k in range(n):
                made[i, j, k] = add([i * n + k, n * n + k * n + j], 7 + (3 * i + 5 * j + 11 * k) % 13)
    for i in range(n):
        for j in range(n):
            add([made[i, j, k] for k in range(n)], 3 + (i + 2 * j) % 4, "output")
    return {"name": "product", "tensors": tensors, "ops": ops}


def graph_file(folder: Path, document: dict[str, Any], name: str = "m.graph.json") -> Path:
    """The path of a graph JSON file."""
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def onnx_file(folder: Path, name: str = "m.onnx", batch: int | str = 2, width: int = 64) -> Path:
    """The path of an ONNX model of two branches, the wide one first computed and last used."""
    nodes = [
        node("Concat", "x x x x", "wide", axis=1),
        node("Concat", "x x x", "other", axis=1),
        node("ReduceSum", "wide axes", "a"),
        node("ReduceSum", "other axes", "b"),
        node("Add", "a b", "c"),
        node("Relu", "c", "y"),
    ]
    axes = constant("axes", [1], [1], 7)
    return saved(model(nodes, [value("x", (batch, width))], [value("y", (batch, 1))], [axes]), folder, name)


def with_weights_beside(folder: Path) -> Path:
    """An ONNX model whose weights are in `weights.bin`."""
    made = model([node("Add", "x w", "y")], [value("x", [4])], [value("y", [4])], [constant("w", [1.0] * 4)])
    tensor = made.graph.initializer[0]
    data = tensor.raw_data or b"\0" * 16
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value="weights.bin")
    (folder / "weights.bin").write_bytes(data)
    return saved(made, folder)
