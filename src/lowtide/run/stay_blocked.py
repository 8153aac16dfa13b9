"""Elementwise ops in the blocked layout, so that tensors do not change their layout before and after them.

onnxruntime's optimiser leaves the blocked layout (NCHWc) for most elementwise ops between two convolutions, and copies
their operands and results. They compute the same bits in either layout::

    Conv -> ReorderOutput -> Add -> Clip -> ReorderInput -> Conv      Conv -> Add -> Clip -> Conv
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from lowtide.ops.onnx.blocked import DOMAIN
from lowtide.read.onnx.proto import names_read

_ELEMENTWISE = frozenset(
    {
        "Abs", "Add", "Ceil", "Clip", "Div", "Elu", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
        "Max", "Mean", "Min", "Mul", "Neg", "QuickGelu", "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Softsign",
        "Sqrt", "Sub", "Sum", "Tanh", "ThresholdedRelu",
    }
)  # fmt: skip
_ALONG_CHANNELS = frozenset({"Concat", "Split"})
"""Ops that put blocks of channels together, or apart."""


def stay_blocked(file: Path, block: int) -> None:
    """Write an optimised file anew whose elementwise ops run in the blocked layout where fewer elements are then copied
    from one layout to the other; what the file computes stays as it is. `block`: channels in a block."""
    import onnx

    proto = onnx.load(str(file), load_external_data=False)
    if block and any(node.domain == DOMAIN for node in proto.graph.node) and _Layouts(proto.graph, block).improved():
        file.write_bytes(proto.SerializeToString())


@dataclass
class _Chain:
    """Ops that may run in the blocked layout together, and the copies between layouts at their ends."""

    ops: list[int] = field(default_factory=list[int])
    leaving: list[int] = field(default_factory=list[int])
    entering: list[int] = field(default_factory=list[int])


class _Layouts:
    """A graph, and which plain tensors of it could have blocks.

    `blocked` has the name of a plain tensor's twin in the blocked layout.
    """

    def __init__(self, graph: Any, block: int) -> None:
        self.graph, self.block = graph, block
        self.constants = {t.name: prod(t.dims) for t in graph.initializer}
        self.shapes = {
            v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
            for v in (*graph.value_info, *graph.input, *graph.output)
        }
        self.outputs = {v.name for v in graph.output}
        self.readers: dict[str, list[int]] = defaultdict(list)
        for k, node in enumerate(graph.node):
            for name in names_read(node):
                self.readers[name].append(k)
        self.blocked: dict[str, str] = {}
        self.chain_of: dict[str, int] = {}
        self.chains: list[_Chain] = []

    def improved(self) -> bool:
        """Whether the graph was changed."""
        for k, node in enumerate(self.graph.node):
            self._see(k, node)
        chosen = [chain for chain in self.chains if self._copied(chain, True) < self._copied(chain, False)]
        if chosen:
            self._rewrite(chosen)
        return bool(chosen)

    def _see(self, k: int, node: Any) -> None:
        """Add an op to the chain that its operands are in."""
        if _is(node, "ReorderOutput"):
            name, shape = node.output[0], self.shapes.get(node.output[0], ())
            if len(shape) == 4 and shape[1] % self.block == 0 and all(shape) and not _number(node, "channels_last"):
                self.blocked[name] = node.input[0]
                self._join([], [name]).leaving.append(k)
        elif _is(node, "ReorderInput"):
            if node.input[0] in self.blocked and not _number(node, "channels_last"):
                self._join([node.input[0]], []).entering.append(k)
        elif self._may_be_blocked(node):
            read = [name for name in node.input if name in self.blocked]
            self.blocked.update({name: f"{name}_blocked" for name in node.output})
            self._join(read, list(node.output)).ops.append(k)

    def _may_be_blocked(self, node: Any) -> bool:
        """Whether an op computes the same with its operands in blocks."""
        read = [name for name in node.input if name and self.constants.get(name) != 1]
        made = [self.shapes.get(name, ()) for name in node.output]
        if node.op_type in _ALONG_CHANNELS:
            read = [name for name in read if node.op_type == "Concat" or name not in self.constants]
            in_blocks = all(len(shape) == 4 and shape[1] % self.block == 0 for shape in made)
            return (
                bool(read)
                and in_blocks
                and _number(node, "axis") in (1, -3)
                and all(name in self.blocked for name in read)
            )
        same = {self.shapes.get(name, ()) for name in read} | set(made)
        elementwise = node.op_type in _ELEMENTWISE and node.domain in ("", "com.microsoft")
        return elementwise and bool(read) and len(same) == 1 and all(name in self.blocked for name in read)

    def _join(self, reads: list[str], makes: list[str]) -> _Chain:
        """The chain of some tensors, one of several that meet here."""
        numbers = sorted({self.chain_of[name] for name in reads})
        if not numbers:
            numbers = [len(self.chains)]
            self.chains.append(_Chain())
        first = self.chains[numbers[0]]
        for other in numbers[1:]:
            chain, self.chains[other] = self.chains[other], _Chain()
            first.ops += chain.ops
            first.leaving += chain.leaving
            first.entering += chain.entering
            self.chain_of.update({name: numbers[0] for name, of in self.chain_of.items() if of == other})
        self.chain_of.update(dict.fromkeys(makes, numbers[0]))
        return first

    def _copied(self, chain: _Chain, blocked: bool) -> int:
        """Elements that change their layout if a chain runs in blocks, or as it is."""
        nodes = self.graph.node
        if not blocked:
            return sum(self._elements(nodes[k].output[0]) for k in chain.leaving) + sum(
                self._elements(nodes[k].input[0]) for k in chain.entering
            )
        inside = {*chain.ops, *chain.entering}
        made = [name for k in (*chain.leaving, *chain.ops) for name in nodes[k].output]
        return sum(self._elements(name) for name in made if self._is_read_plain(name, inside))

    def _is_read_plain(self, name: str, inside: set[int]) -> bool:
        return name in self.outputs or any(k not in inside for k in self.readers[name])

    def _elements(self, name: str) -> int:
        return prod(self.shapes.get(name, (0,)))

    def _rewrite(self, chosen: list[_Chain]) -> None:
        """Let the ops of some chains read and make blocked tensors."""
        from onnx import helper

        inside = {k for chain in chosen for k in (*chain.ops, *chain.entering)}
        ops, entering = {k for c in chosen for k in c.ops}, {k for c in chosen for k in c.entering}
        leaving = {k for c in chosen for k in c.leaving}
        entered = {self.graph.node[k].output[0]: self.blocked[self.graph.node[k].input[0]] for k in entering}
        nodes: list[Any] = []
        for k, node in enumerate(self.graph.node):
            if k in entering or (k in leaving and not self._is_read_plain(node.output[0], inside)):
                continue
            copy = type(node).FromString(node.SerializeToString())
            copy.input[:] = [self.blocked.get(n, n) if k in ops else entered.get(n, n) for n in node.input]
            nodes.append(copy)
            if k not in ops:
                continue
            copy.output[:] = [self.blocked[name] for name in node.output]
            for name in node.output:
                shape, twin = self.shapes[name], self.blocked[name]
                self.graph.value_info.append(helper.make_tensor_value_info(twin, _FLOAT, shape))
                if self._is_read_plain(name, inside):
                    out = helper.make_node("ReorderOutput", [twin], [name], f"{twin}/plain", domain=DOMAIN)
                    out.attribute.append(helper.make_attribute("channels", shape[1]))
                    nodes.append(out)
        del self.graph.node[:]
        self.graph.node.extend(nodes)


_FLOAT = 1
"""TensorProto's number of float32, the only type of the layout."""


def _is(node: Any, kind: str) -> bool:
    return node.op_type == kind and node.domain == DOMAIN


def _number(node: Any, name: str) -> int:
    return next((a.i for a in node.attribute if a.name == name), 0)
