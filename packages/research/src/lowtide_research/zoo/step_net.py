"""A training step under construction: forward ops that know their gradients, the loss (y - y')^2, the update.

Every op says which rows it needs (`lowtide.ops.labels`), has one result, and may be executed by `support.step_runs`.
Weights are graph inputs, since the step changes them; what the update makes of a weight is an output. The file order is
the reverse of the order in which a depth-first search from the inputs leaves the ops, the readers that came last first:
that of MAGIS's released code, against which its figures stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide_research.zoo.builder import Net
from lowtide_research.zoo.values import Ints, NetOp, Value

Gradients = Callable[[Value, Sequence[bool]], Sequence[Value | None]]
"""From the gradient of a result, and which operands need one, to the gradients of the operands."""

_WORDS = "abcdefgh"


class StepNet(Net):
    """A forward pass, to which `train` adds the rest of the step. `name`: name of the graph. `dtype`: of all
    tensors."""

    def __init__(self, name: str, dtype: str = "float32") -> None:
        super().__init__(name, merge=False, runnable=False)
        self.dtype = dtype
        self.trained: set[int] = set()
        self.forward_ops = 0
        self._gradients: dict[int, Gradients] = {}

    def tensor(self, name: str, shape: Ints) -> Value:
        """A graph input."""
        return self.input(name, shape, self.dtype)

    def parameter(self, shape: Ints) -> Value:
        """A weight: a graph input that is trained."""
        value = self.tensor(f"w{len(self.trained)}", shape)
        self.trained.add(value.key)
        return value

    def step_op(
        self, kind: str, inputs: Sequence[Value], shape: Ints, labels: str, flops: int, **attributes: Any
    ) -> Value:
        """An op of any kind."""
        return self.op(kind, inputs, shape, dtype=self.dtype, labels=labels, flops=flops, **attributes)

    def _with(self, value: Value, gradients: Gradients) -> Value:
        self._gradients[value.key] = gradients
        return value

    def rows(
        self, kind: str, inputs: Sequence[Value], shape: Ints | None = None, *, whole: Ints = (), **attributes: Any
    ) -> Value:
        """An op whose dimensions run together, but for those that are `whole`, of about one operation an element."""
        shape = inputs[0].shape if shape is None else shape
        words = " ".join("." if d in whole else _WORDS[d] for d in range(len(shape)))
        labels = ", ".join([words] * len(inputs)) + f" -> {words}"
        return self.step_op(kind, inputs, shape, labels, math.prod(shape), **attributes)

    def relu(self, x: Value) -> Value:
        """The larger of x and 0; its gradient reads a mask of full size, as MAGIS's does."""
        y = self.rows("relu", [x])
        return self._with(y, lambda g, _: [self.rows("mul", [g, self.rows("positive", [y])])])

    def sigmoid(self, x: Value) -> Value:
        """1 / (1 + exp(-x))."""
        y = self.rows("sigmoid", [x])
        return self._with(y, lambda g, _: [self.rows("sigmoid_backward", [g, y])])

    def add(self, a: Value, b: Value) -> Value:
        """Element by element."""
        return self._with(self.rows("add", [a, b]), lambda g, _: [g, g])

    def scale(self, x: Value, factor: float) -> Value:
        """Times a number."""
        y = self.rows("scale", [x], factor=factor)
        return self._with(y, lambda g, _: [self.rows("scale", [g], factor=factor)])

    def softmax(self, x: Value) -> Value:
        """Along the last dimension."""
        last = (len(x.shape) - 1,)
        y = self.rows("softmax", [x], whole=last)
        return self._with(y, lambda g, _: [self.rows("softmax_backward", [g, y], whole=last)])

    def transpose(self, x: Value, permutation: Ints) -> Value:
        """Dimensions in another order, as a copy."""
        words = " ".join(_WORDS[d] for d in range(len(x.shape)))
        turned = " ".join(_WORDS[d] for d in permutation)
        shape = tuple([x.shape[d] for d in permutation])
        y = self.step_op("permute", [x], shape, f"{words} -> {turned}", 0, permutation=permutation)
        back = tuple([permutation.index(d) for d in range(len(permutation))])
        return self._with(y, lambda g, _: [self.transpose(g, back)])

    def reshape(self, x: Value, shape: Ints) -> Value:
        """Other dimensions after the first one, which stays."""
        labels = f"n{' .' * (len(x.shape) - 1)} -> n{' .' * (len(shape) - 1)}"
        y = self.step_op("reshape", [x], shape, labels, 0, rest=shape[1:])
        return self._with(y, lambda g, _: [self.reshape(g, x.shape)])

    def einsum(self, a: Value, b: Value, a_words: str, b_words: str, words: str) -> Value:
        """A product summed over what the result does not have; one letter a dimension."""
        sizes = {**dict(zip(a_words, a.shape, strict=True)), **dict(zip(b_words, b.shape, strict=True))}
        labels = f"{' '.join(a_words)}, {' '.join(b_words)} -> {' '.join(words)}"
        shape = tuple([sizes[w] for w in words])
        flops = 2 * math.prod(sizes.values())
        y = self.step_op("einsum", [a, b], shape, labels, flops, equation=f"{a_words},{b_words}->{words}")

        def back(g: Value, needed: Sequence[bool]) -> list[Value | None]:
            left = self.einsum(g, b, words, b_words, a_words) if needed[0] else None
            return [left, self.einsum(a, g, a_words, words, b_words) if needed[1] else None]

        return self._with(y, back)

    def norm(self, x: Value) -> Value:
        """Layer normalisation without scale and shift: one op that makes the result, means and deviations side by
        side, and one for each of the three that takes it out, as in MAGIS's released code."""
        width, last = x.shape[-1], len(x.shape) - 1
        packed = self.rows("layer_norm", [x], (*x.shape[:-1], width + 2), whole=(last,))
        y, mean, deviation = (
            self.rows("index_out", [packed], (*x.shape[:-1], size), whole=(last,), first=first)
            for first, size in ((0, width), (width, 1), (width + 1, 1))
        )
        self._with(
            packed, lambda g, _: [self.rows("layer_norm_backward", [g, x, mean, deviation], x.shape, whole=(last,))]
        )
        return self._with(y, lambda g, _: [g])

    def convolve(self, x: Value, filters: int, kernel: int, stride: int = 1, pad: int = 0) -> Value:
        """A convolution without bias."""
        rows = (x.shape[2] + 2 * pad - kernel) // stride + 1
        n, c = x.shape[:2]
        w = self.parameter((filters, c, kernel, kernel))
        how = {"stride": stride, "pad": pad}
        flops = 2 * n * filters * rows * rows * c * kernel * kernel
        shape = (n, filters, rows, rows)
        y = self.step_op("conv2d", [x, w], shape, "n c . ., o c . . -> n o . .", flops, **how)

        def back(g: Value, needed: Sequence[bool]) -> list[Value | None]:
            dx = None
            if needed[0]:
                labels = "n o . ., o c . . -> n c . ."
                dx = self.step_op("conv2d_input", [g, w], x.shape, labels, flops, size=x.shape[2:], **how)
            labels = "n c . ., n o . . -> o c . ."
            dw = self.step_op("conv2d_weight", [x, g], w.shape, labels, flops, kernel=kernel, **how)
            return [dx, dw]

        return self._with(y, back)

    def mean_pool(self, x: Value, kernel: int, stride: int = 1, pad: int = 0) -> Value:
        """A mean over windows, the padding counted."""
        rows = (x.shape[2] + 2 * pad - kernel) // stride + 1
        how = {"kernel": kernel, "stride": stride, "pad": pad}
        y = self._spatial("mean_pool", [x], (*x.shape[:2], rows, rows), **how)
        return self._with(y, lambda g, _: [self._spatial("mean_pool_backward", [g, x], x.shape, **how)])

    def enlarge(self, x: Value, times: int) -> Value:
        """Rows and columns repeated."""
        shape = (*x.shape[:2], x.shape[2] * times, x.shape[3] * times)
        y = self._spatial("repeat", [x], shape, times=times)
        return self._with(y, lambda g, _: [self._spatial("repeat_backward", [g], x.shape, times=times)])

    def _spatial(self, kind: str, inputs: Sequence[Value], shape: Ints, **attributes: Any) -> Value:
        labels = ", ".join(["n c . ."] * len(inputs)) + " -> n c . ."
        flops = max(math.prod(v.shape) for v in (*inputs,)) if inputs else 0
        return self.step_op(kind, inputs, shape, labels, max(flops, math.prod(shape)), **attributes)

    def join(self, values: Sequence[Value]) -> Value:
        """Channels of several side by side."""
        shape = (values[0].shape[0], sum(v.shape[1] for v in values), *values[0].shape[2:])
        y = self.rows("concat", values, shape, whole=(1,))

        def back(g: Value, needed: Sequence[bool]) -> list[Value | None]:
            firsts = [sum(v.shape[1] for v in values[:i]) for i in range(len(values))]
            return [
                self.rows("slice", [g], v.shape, whole=(1,), first=first) if need else None
                for v, first, need in zip(values, firsts, needed, strict=True)
            ]

        return self._with(y, back)

    def train(self, y: Value) -> None:
        """Add the loss, the backward pass and the update."""
        self.forward_ops = len(self.nodes) + len(self.inputs)
        target = self.tensor("target", y.shape)
        difference = self.rows("sub", [y, target])
        self._with(difference, lambda g, _: [g, None])
        loss = self.rows("square", [difference])
        self._with(loss, lambda g, _: [self.rows("scale", [self.rows("mul", [g, difference])], factor=2.0)])
        grads: dict[int, list[Value]] = {loss.key: [self.tensor("grad", y.shape)]}
        needing = self._needing()
        for node in self._backwards(loss):
            if node.output.key not in needing:
                continue
            g = grads[node.output.key][0]
            for other in grads[node.output.key][1:]:
                g = self.rows("add", [g, other])
            needed = [v.key in needing for v in node.inputs]
            for x, dx in zip(node.inputs, self._gradients[node.output.key](g, needed), strict=False):
                if dx is None or x.key not in needing:
                    continue
                grads.setdefault(x.key, []).append(dx)
                if x.key in self.trained:
                    self.output(self.rows("update", [x, dx], factor=1.0))
        self.output(loss)

    def _needing(self) -> set[int]:
        needing = set(self.trained)
        for node in self.nodes:
            if any(v.key in needing for v in node.inputs):
                needing.add(node.output.key)
        return needing

    def _backwards(self, loss: Value) -> list[NetOp]:
        """Ops that lead to the loss, each after all that read it."""
        made = {node.output.key: node for node in self.nodes}
        seen: set[int] = set()
        order: list[NetOp] = []

        def visit(key: int) -> None:
            stack = [(key, 0)]
            seen.add(key)
            while stack:
                at, child = stack.pop()
                inputs = [v.key for v in made[at].inputs if v.key in made][::-1]
                while child < len(inputs) and inputs[child] in seen:
                    child += 1
                if child == len(inputs):
                    order.append(made[at])
                    continue
                stack.append((at, child + 1))
                stack.append((inputs[child], 0))
                seen.add(inputs[child])

        visit(loss.key)
        return order[::-1]

    def _own_order(self) -> list[int]:
        """Positions of the nodes by a depth-first search from the inputs."""
        readers: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for v in node.inputs:
                readers.setdefault(v.key, []).append(i)
        seen: set[int] = set()
        left: list[int] = []
        for value in sorted(self.inputs, key=lambda v: v.key):
            stack = [(-1, readers.get(value.key, [])[::-1], 0)]
            while stack:
                at, following, child = stack.pop()
                while child < len(following) and following[child] in seen:
                    child += 1
                if child == len(following):
                    if at >= 0:
                        left.append(at)
                    continue
                stack.append((at, following, child + 1))
                reader = following[child]
                seen.add(reader)
                stack.append((reader, readers.get(self.nodes[reader].output.key, [])[::-1], 0))
        return left[::-1]

    def graph(self) -> Graph:
        """The step as a `Graph` whose ops say which rows they need."""
        outputs = {v.key for v in self.outputs}
        values = [*((v, Kind.INPUT) for v in self.inputs)]
        values += [(n.output, Kind.OUTPUT if n.output.key in outputs else Kind.ACTIVATION) for n in self.nodes]
        ids = {value.key: i for i, (value, _) in enumerate(values)}
        tensors = [Tensor(ids[v.key], v.size, kind, v.name, v.shape, v.dtype) for v, kind in values]
        ops = []
        for i in self._own_order():
            node = self.nodes[i]
            attributes = dict(node.attributes)
            flops = int(attributes.pop("flops"))
            read = tuple([ids[v.key] for v in node.inputs])
            ops.append(Op(i, read, (ids[node.output.key],), node.name, node.type, flops=flops, attributes=attributes))
        return Graph(
            self.name, tuple(tensors), tuple(ops), source=f"zoo:{self.name}", sha256=self._digest(), dialect="labels"
        )
