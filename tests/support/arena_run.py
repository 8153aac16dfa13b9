"""Small networks of concats, splits, slices and what runs between, and runs of them inside one array of bytes.

`AliasNets` draws a network; `run` computes it with numpy as anybody would. `run_in_arena` does so at a plan's offsets,
and as badly as a kernel may: it fills what an op is to write with noise first, but for inputs that the plan says it
writes over. What an op then reads has to be what was made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from lowtide.graph import Graph, Kind, Op
from lowtide.plan import Plan
from lowtide.rewrites import TensorAlias
from support.onnx_builder import model, value

Pick = Callable[[Sequence[Any]], Any]
Values = dict[int, np.ndarray]


@dataclass
class AliasNets:
    """Draws a network of tensors ``[outer, c, 2, 2]``, where `outer` is 1 or 2, all of floats."""

    pick: Pick
    outer: int = 1
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)

    def build(self, ops: int) -> ModelProto:
        """A network of so many ops; what nobody reads is an output."""
        self.channels["x0"] = self.pick((2, 4))
        for _ in range(ops):
            self._op()
        read = {name for made in self.nodes for name in made.input}
        results = [name for name in self.channels if name not in read and name != "x0"]
        results += [name for name in self.channels if name in read and name != "x0" and self.pick((0,) * 7 + (1,))]
        return model(
            self.nodes, [value("x0", self._shape("x0"))], [value(r, self._shape(r)) for r in results], self.weights,
            opset=13,
        )  # fmt: skip

    def _shape(self, name: str) -> tuple[int, ...]:
        return (self.outer, self.channels[name], 2, 2)

    def _node(self, kind: str, reads: Sequence[str], channels: Sequence[int], **attributes: Any) -> None:
        names = [f"t{len(self.nodes)}_{j}" for j in range(len(channels))]
        self.nodes.append(helper.make_node(kind, list(reads), names, name=f"n{len(self.nodes)}", **attributes))
        self.channels.update(zip(names, channels, strict=True))

    def _ints(self, *values: int) -> str:
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), f"i{len(self.weights)}"))
        return f"i{len(self.weights) - 1}"

    def _op(self) -> None:
        some = list(self.channels)[-5:]
        kind = self.pick(("Relu", "Softmax", "Add", "Conv", "Conv", "Concat", "Concat", "Concat", "Split", "Slice"))
        x = self.pick(some)
        c = self.channels[x]
        if kind in ("Relu", "Softmax"):
            self._node(kind, [x], [c])
        elif kind == "Add":
            same = [y for y in some if self.channels[y] == c]
            self._node(kind, [x, self.pick(same)], [c])
        elif kind == "Conv":
            out = self.pick((1, 2, 3))
            rng = np.random.default_rng(len(self.weights))
            self.weights.append(
                numpy_helper.from_array(rng.standard_normal((out, c, 1, 1)).astype(np.float32), f"i{len(self.weights)}")
            )
            self._node(kind, [x, f"i{len(self.weights) - 1}"], [out])
        elif kind == "Concat":
            reads = [self.pick(some) for _ in range(self.pick((2, 2, 3)))]
            if sum(self.channels[r] for r in reads) <= 24:
                self._node(kind, reads, [sum(self.channels[r] for r in reads)], axis=1)
        elif c > 1 and kind == "Split":
            first = self.pick(range(1, c))
            self._node(kind, [x, self._ints(first, c - first)], [first, c - first], axis=1)
        elif c > 1:
            start = self.pick(range(c - 1))
            end = self.pick(range(start + 1, c + 1))
            self._node("Slice", [x, self._ints(start), self._ints(end), self._ints(1)], [end - start])


def compute(op: Op, reads: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """What an op makes of its operands."""
    given = [r for r in reads if r is not None]
    match op.type:
        case "Relu":
            return [np.maximum(given[0], 0)]
        case "Softmax":
            powers = np.exp(given[0] - given[0].max(-1, keepdims=True))
            return [powers / powers.sum(-1, keepdims=True)]
        case "Add":
            return [given[0] + given[1]]
        case "Conv":
            return [np.einsum("oc,nchw->nohw", given[1][:, :, 0, 0], given[0]).astype(np.float32)]
        case "Concat":
            return [np.concatenate(given, axis=1)]
        case "Split":
            return np.split(given[0], np.cumsum(given[1])[:-1], axis=1)
        case "Slice":
            return [given[0][:, int(given[1][0]) : int(given[2][0])]]
    raise AssertionError(op.type)


def first_values(graph: Graph, weights: Mapping[str, np.ndarray]) -> Values:
    """Constants as the model has them, inputs at random."""
    rng = np.random.default_rng(7)
    values: Values = {}
    for t in graph.tensors:
        if t.kind is Kind.CONSTANT:
            values[t.id] = weights[t.name]
        elif t.id not in graph.producer:
            values[t.id] = rng.standard_normal(t.shape).astype(np.float32)
    return values


def run(graph: Graph, weights: Mapping[str, np.ndarray]) -> Values:
    """Every tensor's value, each with memory of its own."""
    values = first_values(graph, weights)
    for op in graph.ops:
        made = compute(op, [None if t is None else values[t] for t in op.operands or op.inputs])
        values.update(zip(op.outputs, (np.ascontiguousarray(m) for m in made), strict=True))
    return values


def weights_of(path: Path) -> dict[str, np.ndarray]:
    """A model's constants by name."""
    import onnx

    return {w.name: numpy_helper.to_array(w) for w in onnx.load(str(path)).graph.initializer}


def places(graph: Graph, plan: Plan) -> dict[int, np.ndarray]:
    """Where in the arena each element of a tensor lies, counted in elements of four bytes."""
    lies = {r.tensor: r for r in plan.rewrites or () if isinstance(r, TensorAlias)}
    result: dict[int, np.ndarray] = {}

    def find(t: int) -> np.ndarray:
        if t not in result:
            size = graph.tensor_by_id[t].size
            if t not in lies:
                result[t] = (plan.offsets or {})[str(t)] // 4 + np.arange(size // 4)
            else:
                r = lies[t]
                run, pitch = r.run or size, r.pitch or graph.tensor_by_id[r.of].size
                rows = r.offset + np.arange(size // run)[:, None] * pitch + np.arange(0, run, 4)[None, :]
                result[t] = find(r.of)[rows.reshape(-1) // 4]
        return result[t]

    for t in graph.tensors:
        if str(t.id) in (plan.offsets or {}) and t.size:
            find(t.id)
    return result


def run_in_arena(graph: Graph, plan: Plan, weights: Mapping[str, np.ndarray]) -> str | None:
    """None if every op finds what it reads, and the caller what it takes; else where not.

    A plan's pairs in place are taken as they are said, and those of aliases by which an op writes over what it reads.
    """
    right = run(graph, weights)
    arena = np.frombuffer(bytearray(-(-(plan.arena_bytes or 0) // 4) * 4), dtype=np.float32).copy()
    at = places(graph, plan)
    over = {(out, read) for out, read in plan.in_place}
    over |= {(r.of, r.tensor) for r in plan.rewrites or () if isinstance(r, TensorAlias)}
    for t in graph.tensors:
        if t.id not in graph.producer and t.id in at:
            arena[at[t.id]] = right[t.id].reshape(-1)
    for v in plan.order:
        op = graph.op_by_id[v]
        moves = op.type in ("Concat", "Split", "Slice")
        _spoil(op, at, over, arena, moves)
        operands = op.operands or op.inputs
        read = [None if t is None else arena[at[t]].reshape(graph.tensor_by_id[t].shape) if t in at else right[t]
                for t in operands]  # fmt: skip
        for t, values in zip(operands, read, strict=True):
            if t is not None and not np.array_equal(values, right[t]):
                return f"{op.label} finds {graph.tensor_by_id[t].label} spoilt"
        for t, values in zip(op.outputs, compute(op, read), strict=True):
            if t in at:
                arena[at[t]] = values.reshape(-1)
    for t in graph.tensors:
        if t.kind is Kind.OUTPUT and not np.array_equal(arena[at[t.id]], right[t.id].reshape(-1)):
            return f"the output {t.label} is spoilt"
    return None


def _spoil(op: Op, at: Mapping[int, np.ndarray], over: set[tuple[int, int]], arena: np.ndarray, moves: bool) -> None:
    """Noise where an op writes; what only moves finds its pieces in place, and leaves them."""
    for t in op.outputs:
        if t not in at:
            continue
        kept = [at[r] for r in op.inputs if r in at and ((t, r) in over or (moves and _in_place(op, t, r, at)))]
        noise = np.setdiff1d(at[t], np.concatenate(kept)) if kept else at[t]
        arena[noise] = math.nan


def _in_place(op: Op, made: int, read: int, at: Mapping[int, np.ndarray]) -> bool:
    """Whether all that the smaller of both holds lies in the larger one: a piece where it belongs."""
    small, large = sorted((at[made], at[read]), key=len)
    return bool(np.isin(small, large).all())
