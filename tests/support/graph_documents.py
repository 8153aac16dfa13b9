"""Small graph JSON documents."""

from __future__ import annotations

GRAPH = {
    "name": "g",
    "source": "ignored",
    "tensors": [
        {"id": 10, "size": 8, "kind": "input", "name": "x", "shape": [2], "dtype": "float32"},
        {"id": 3, "size": 8, "kind": "constant"},
        {"id": 4, "size": 8, "kind": "activation"},
        {"id": 7, "size": 8, "kind": "activation"},
        {"id": 5, "size": 4, "kind": "output", "alias_of": 7, "alias_offset": 4, "x_unknown": {"ops": []}},
    ],
    "ops": [
        {"id": 9, "inputs": [3], "outputs": [4], "type": "Neg"},
        {"id": 2, "inputs": [10, 4], "outputs": [7], "name": "add", "workspace": 16, "flops": 2},
        {"id": 1, "inputs": [7], "outputs": [5], "after": [2], "type": "Slice"},
    ],
}
