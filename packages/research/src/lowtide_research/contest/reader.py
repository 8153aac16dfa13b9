"""Instances and solutions of the contest as JSON files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Op:
    """An operator: its kind, the tensors it reads, the tensor it writes, its cost at the native granularity."""

    matmul: bool
    inputs: tuple[int, ...]
    output: int
    cost: int


@dataclass(frozen=True)
class Problem:
    """A graph and a machine. Sizes are elements, a transfer of n elements takes n / `bandwidth`.

    `native_width` is also the native depth of a reduction: the statement names two dimensions only.
    """

    widths: tuple[int, ...]
    heights: tuple[int, ...]
    ops: tuple[Op, ...]
    capacity: int
    bandwidth: int
    native_width: int
    native_height: int

    def __post_init__(self) -> None:
        if len(self.producer) != len(self.ops):
            raise ValueError("two operators write one tensor")
        for number, op in enumerate(self.ops):
            shapes = [(self.heights[tensor], self.widths[tensor]) for tensor in op.inputs]
            shape = (self.heights[op.output], self.widths[op.output])
            if op.matmul:
                fits = len(shapes) == 2 and shapes[0][1] == shapes[1][0] and shape == (shapes[0][0], shapes[1][1])
            else:
                fits = all(each == shape for each in shapes)
            if not fits:
                raise ValueError(f"operator {number}: inputs of {shapes} and an output of {shape} do not fit")

    @cached_property
    def producer(self) -> dict[int, int]:
        """The operator that writes a tensor; inputs of the graph are absent."""
        return {op.output: number for number, op in enumerate(self.ops)}

    @cached_property
    def consumers(self) -> dict[int, list[int]]:
        """The operators that read a tensor."""
        found: dict[int, list[int]] = {tensor: [] for tensor in range(len(self.widths))}
        for number, op in enumerate(self.ops):
            for tensor in dict.fromkeys(op.inputs):
                found[tensor].append(number)
        return found

    def size(self, tensor: int) -> int:
        """Elements of a tensor."""
        return self.widths[tensor] * self.heights[tensor]

    def depth(self, op: int) -> int:
        """Length of a MatMul's reduction."""
        return self.widths[self.ops[op].inputs[0]]


@dataclass(frozen=True)
class Step:
    """A group as a solution has it: operators, granularity (width, height, depth), tensors kept, order of the tiles."""

    ops: tuple[int, ...]
    granularity: tuple[int, int, int]
    retained: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None
    latency: float = 0.0


def read_problem(path: Path) -> Problem:
    """The instance in a file of the contest."""
    data: dict[str, Any] = json.loads(path.read_text())
    kinds = {"MatMul": True, "Pointwise": False}
    ops: list[Op] = []
    for kind, inputs, outputs, cost in zip(
        data["op_types"], data["inputs"], data["outputs"], data["base_costs"], strict=True
    ):
        if kind not in kinds or len(outputs) != 1:
            raise ValueError(f"{path}: operators are MatMul or Pointwise and have one output")
        ops.append(Op(kinds[kind], tuple(inputs), outputs[0], cost))
    width, height = data["native_granularity"]
    return Problem(
        tuple(data["widths"]),
        tuple(data["heights"]),
        tuple(ops),
        data["fast_memory_capacity"],
        data["slow_memory_bandwidth"],
        width,
        height,
    )


def read_solution(path: Path) -> list[Step]:
    """The solution in a file of the contest."""
    data: dict[str, Any] = json.loads(path.read_text())
    orders: list[Any] = data.get("traversal_orders") or [None] * len(data["subgraphs"])
    return [
        Step(tuple(ops), (grain[0], grain[1], grain[2]), tuple(kept), None if order is None else tuple(order), latency)
        for ops, grain, kept, order, latency in zip(
            data["subgraphs"],
            data["granularities"],
            data["tensors_to_retain"],
            orders,
            data["subgraph_latencies"],
            strict=True,
        )
    ]


def write_solution(path: Path, steps: Sequence[Step]) -> None:
    """Writes a solution as the contest wants it."""
    data = {
        "subgraphs": [step.ops for step in steps],
        "granularities": [step.granularity for step in steps],
        "tensors_to_retain": [step.retained for step in steps],
        "traversal_orders": [step.order for step in steps],
        "subgraph_latencies": [step.latency for step in steps],
    }
    path.write_text(json.dumps(data) + "\n")
