"""A model as layers: of each op the function that runs it, the rows that it reads, and the scratch that it asks for.

A layer runs in calls; a call makes rows ``[first, end)`` of its result from all rows of its operands that these need.
A sum (MEAN, or a pool over all rows and columns) is called with rows of its operand, and makes its result in the last
call. What the library has no function for is ``own``: one call of lowtide's own kernel. Ops of the branches of an IF
are layers of one call each, which are left out unless the condition is as they ask; what a branch makes is stored in
the IF's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from lowtide.emit.bodies import Branch
from lowtide.emit.kernel import is_wide, zero_of
from lowtide.emit.kernels import Kernels
from lowtide.emit.places import View, complete, dims_of, element_bytes, sizes_of
from lowtide.emit.variables import NOTHING
from lowtide.emit.weights import Weights
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.geometry import tflite_padded, tflite_rows, tflite_window
from lowtide.ops.index import Window
from lowtide.rules.tflm.cmsis_nn import average_pool, convolution, convolution_int16, depthwise
from lowtide.rules.tflm.kernels import KernelWindow

SIMD = ("none", "dsp", "mve")
"""Instructions that the library can be compiled for."""
ALIASES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
"""Ops whose result is their input's bytes."""
IN_PLACE = ("add", "mul")
"""Kinds that read an element before they write it, so that the result may lie where an operand does."""
SAME_ROWS = Window(1)
NO_TENSOR = -1


@dataclass(frozen=True)
class Operand:
    """A tensor that a layer reads; `window`: rows of it for each row of the result, None: all of them."""

    tensor: int
    window: Window | None = None


@dataclass(frozen=True)
class Layer:
    """What runs an op."""

    op: Op
    # ``conv``, ``depthwise``, ``product``, ``pool``, ``add``, ``mul``, ``softmax``, ``concat``, ``sum`` or ``own``
    kind: str
    operands: tuple[Operand, ...]  # tensors that are no constants, in their order
    result: int  # the tensor that it makes; `NO_TENSOR`: it keeps what it reads, as a variable does
    rows: int  # that its calls count to: of the result, of a sum of its operand; 1 of what has no rows
    columns: Window = SAME_ROWS  # of a convolution or pool
    sums_bytes: int = 0  # accumulators that it keeps from its first call to its last, unless it runs in one
    macs: int = 0  # multiply-accumulates of a row
    single: bool = False  # whether it runs in one call, whatever its rows
    guard: tuple[int, bool] | None = None  # of an op of a branch the condition's tensor, and what that has to be
    more: tuple[int, ...] = ()  # what else ``own`` makes in its call, as SPLIT does

    @property
    def streams(self) -> bool:
        """Whether it can run in several calls."""
        return self.rows > 1 and not self.single and all(o.window is not None for o in self.operands)

    @property
    def writes_last(self) -> bool:
        """Whether the result is made in the last call alone."""
        return self.kind == "sum"


@dataclass
class Layers:
    """All layers of a graph in an order."""

    graph: Graph
    weights: Weights
    order: Sequence[int]  # ops, by id
    simd: str = "any"  # ``none``, ``dsp`` or ``mve``; ``any``: scratch suffices for each of them
    # Of each IF, as `with_bodies` has them, with the graph that has their tensors
    branches: Mapping[int, tuple[Branch, Branch]] = field(default_factory=dict[int, tuple[Branch, Branch]])
    listed: list[Layer] = field(init=False)
    root: dict[int, int] = field(default_factory=dict)
    _handles: set[int] = field(default_factory=set[int])  # of variables: no bytes
    _heights: dict[int, int] = field(default_factory=dict)
    _asked: dict[tuple[int, int, int, bool], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.listed = []
        for o in self.order:
            if o in self.branches:
                self._branched(self.graph.op_by_id[o])
            else:
                self._append(self.graph.op_by_id[o])

    def _append(self, op: Op) -> None:
        if op.type in ALIASES and not self._is_constant(op.inputs[0]) and op.outputs[0] not in self.root:
            self.root[op.outputs[0]] = self.held(op.inputs[0])
        elif (layer := self._layer(op)) is not None:
            self.listed.append(layer)

    def _branched(self, op: Op) -> None:
        """An IF: the layers of both branches, the second of which keep what the first ones made of its results."""
        kept: tuple[Operand, ...] = (Operand(self.held(op.inputs[0])),)
        for branch in self.branches[op.id]:
            begin = len(self.listed)
            made = {t for inner in branch.ops for t in inner.outputs}
            self.root |= {
                own: out
                for own, out in zip(branch.results, op.outputs, strict=True)
                if own in made and own not in self.root
            }
            for inner in branch.ops:
                self._append(inner)
            for own, out in zip(branch.results, op.outputs, strict=True):
                if self.held(own) != out:
                    self.listed.append(self._copied(op, own, out))
            for k in range(begin, len(self.listed)):
                layer = self.listed[k]
                if layer.kind == "sum":
                    layer = self._own(layer.op)
                guard = (kept[0].tensor, branch.holds)
                self.listed[k] = replace(layer, operands=(*layer.operands, *kept), single=True, guard=guard)
            kept += tuple(Operand(t) for t in op.outputs)

    def held(self, tensor: int) -> int:
        """The tensor whose bytes another one has."""
        return self.root.get(tensor, tensor)

    def tensor(self, tensor: int) -> Tensor:
        """A tensor of the graph."""
        return self.graph.tensor_by_id[tensor]

    def height(self, tensor: int) -> int:
        """Rows of a tensor; one of more than four dimensions has one."""
        if tensor not in self._heights:
            self._heights[tensor] = _sizes(self.tensor(tensor))[0]
        return self._heights[tensor]

    def row_bytes(self, tensor: int) -> int:
        """Bytes of a row."""
        return self.tensor(tensor).size // self.height(tensor)

    @cached_property
    def kept(self) -> frozenset[int]:
        """Tensors that are complete for the caller: inputs, results, and those that an alias is of."""
        ends = {t.id for t in self.graph.tensors if t.kind in (Kind.INPUT, Kind.OUTPUT)}
        return frozenset(map(self.held, ends | set(self.root)))

    def reads(self, layer: Layer, operand: Operand, first: int, end: int) -> tuple[int, int]:
        """Rows of an operand that a call reads, half-open."""
        size = self.height(operand.tensor)
        if operand.window is None or layer.single:
            return 0, size
        w = operand.window
        low = first * w.stride - w.before
        return max(low, 0), min(size, low + (end - 1 - first) * w.stride + w.reach)

    def scratch(self, layer: Layer, first: int, end: int) -> int:
        """Bytes of scratch that the library asks for in a call; the most over its builds if `simd` is ``any``."""
        if layer.kind == "own":
            return 0
        window = layer.operands[0].window
        padding = 0 if window is None else max(0, window.before - first * window.stride)
        key = (layer.op.id, end - first, padding, end == layer.rows)
        if key not in self._asked:
            builds = SIMD if self.simd == "any" else (self.simd,)
            self._asked[key] = max(self._scratch(layer, first, end, simd) for simd in builds)
        return self._asked[key]

    def given(self, layer: Layer) -> Tensor:
        """The first operand as the op has it, whose bytes another tensor may hold."""
        return self.tensor(next(t for t in layer.op.inputs if not self._is_constant(t)))

    def result(self, layer: Layer) -> Tensor:
        """The result as the op has it."""
        return self.tensor(layer.op.outputs[0])

    def _scratch(self, layer: Layer, first: int, end: int, simd: str) -> int:
        x = self.given(layer)
        if layer.kind == "sum":
            return average_pool(x, simd) if end - first == layer.rows and layer.op.type != "MEAN" else 0
        if layer.kind == "pool":
            return average_pool(x, simd) if layer.op.type == "AVERAGE_POOL_2D" else 0
        if layer.kind not in ("conv", "depthwise"):
            return 0
        if layer.op.type == "FULLY_CONNECTED":
            return 0  # of one tap
        height, width, channels = sizes_of(x)
        low, high = (0, height) if layer.single else self.reads(layer, layer.operands[0], first, end)
        _, out_width, out_channels = sizes_of(self.result(layer))
        rows = layer.operands[0].window
        assert rows is not None, layer
        window = KernelWindow(
            (1, high - low, width, channels),
            (1, end - first, out_width, out_channels),
            replace(rows, before=max(0, rows.before - first * rows.stride)),
            layer.columns,
        )
        if is_wide(x):
            return convolution_int16(window, simd) if layer.kind == "conv" else 0
        return convolution(window, channels, simd) if layer.kind == "conv" else depthwise(window, simd)

    def _layer(self, op: Op) -> Layer | None:
        """What runs an op; None if nothing does."""
        data = [t for t in (op.operands or op.inputs) if t is not None and not self._is_constant(t)]
        made = [self.tensor(t) for t in op.outputs]
        given = [self.tensor(t) for t in data]
        plain = given and all(t.quant and len(t.quant.scales) == 1 for t in (*given, *made))
        wide = plain and all(is_wide(t) and not zero_of(t) for t in (*given, *made))
        plain = wide or (plain and all(t.dtype == "int8" for t in (*given, *made)))
        make = _LIBRARY.get(op.type)
        layer = make(self, op, given, made[0]) if plain and make is not None else None
        if layer is None:
            if Kernels(self.graph, self.weights).kernel(op, self.anywhere) is NOTHING:
                self._handles.update(op.outputs)
                return None
            layer = self._own(op)
        held = tuple(replace(o, tensor=self.held(o.tensor)) for o in layer.operands)
        reshaped = any(
            self.height(o.tensor) != self.height(p.tensor) for o, p in zip(held, layer.operands, strict=True)
        )
        return replace(layer, operands=held, result=self.held(layer.result), single=layer.single or reshaped)

    def _copied(self, op: Op, tensor: int, result: int) -> Layer:
        """What copies a tensor that a branch gives as it came, or gives twice."""
        if self._is_constant(tensor):
            raise InputError(f"{op.label}: a branch of it gives a constant; C is not written for that")
        return self._own(replace(op, type="RESHAPE", inputs=(tensor,), operands=(tensor,), outputs=(result,)))

    def _own(self, op: Op) -> Layer:
        """What lowtide's own kernel runs."""
        given = [t for t in (op.operands or op.inputs) if t is not None and t not in self._handles]
        operands = tuple(Operand(self.held(t)) for t in dict.fromkeys(given) if not self._is_constant(t))
        first, *more = [self.held(t) for t in op.outputs] or [NO_TENSOR]
        return Layer(op, "own", operands, first, 1, more=tuple(more))

    def anywhere(self, tensor: int) -> View:
        """A complete tensor, at any address."""
        t = self.tensor(tensor)
        return complete(0, sizes_of(t), element_bytes(t))

    def _is_constant(self, tensor: int) -> bool:
        return self.tensor(tensor).kind is Kind.CONSTANT

    def weights_of(self, op: Op) -> Tensor:
        """The second operand."""
        tensor = (op.operands or op.inputs)[1]
        assert tensor is not None, op
        return self.tensor(tensor)

    def window(self, op: Op, x: Tensor, y: Tensor, taps: Sequence[int]) -> tuple[Window, Window]:
        """Windows over rows and columns. Raises `InputError` if the shapes do not fit together."""
        result = []
        for side, many, size, rows in zip("hw", taps, sizes_of(x)[:2], sizes_of(y)[:2], strict=True):
            window = tflite_window(op.attributes, side, many)
            if window is None or tflite_rows(window, op.attributes, size) != rows:
                raise InputError(f"{op.label}: its shapes do not fit together; convert the model again")
            result.append(tflite_padded(window, op.attributes, size, rows))
        return result[0], result[1]


def _sizes(tensor: Tensor) -> tuple[int, int, int]:
    shape = tensor.shape or ()
    return sizes_of(tensor) if len(shape) <= 4 and (len(shape) < 4 or shape[0] == 1) else (1, 1, tensor.size)


def _without_empty(layers: Layers, layer: Layer) -> Layer:
    """The layer, in one call if the window of some row holds nothing but padding."""
    empty = any(
        low >= high
        for operand in layer.operands
        for row in range(layer.rows)
        for low, high in [layers.reads(layer, operand, row, row + 1)]
    )
    return replace(layer, single=empty)


def _convolution(layers: Layers, op: Op, given: list[Tensor], y: Tensor) -> Layer | None:
    x, w = given[0], layers.weights_of(op)
    shape = tuple(w.shape or ())
    depthwise = op.type == "DEPTHWISE_CONV_2D"
    fits = len(given) == 1 and len(shape) == 4 and w.dtype == "int8" and w.quant and not any(w.quant.zero_points)
    if not fits or len(x.shape or ()) != 4 or (not depthwise and shape[-1] != sizes_of(x)[2]):
        return None
    rows, columns = layers.window(op, x, y, shape[1:3])
    macs = prod(sizes_of(y)[1:]) * prod(shape[1:3] if depthwise else shape[1:])
    kind = "depthwise" if depthwise else "conv"
    layer = Layer(op, kind, (Operand(x.id, rows),), y.id, sizes_of(y)[0], columns, macs=macs)
    return _without_empty(layers, layer)


def _product(layers: Layers, op: Op, given: list[Tensor], y: Tensor) -> Layer | None:
    w = layers.weights_of(op)
    if len(given) != 1 or w.dtype != "int8" or not w.quant or any(w.quant.zero_points) or len(w.shape or ()) != 2:
        return None
    if op.attributes.get("weights_format", 0) != 0:
        return None
    outputs, elements = (w.shape or (0,))[0], y.size // element_bytes(y)
    one = elements == outputs and (len(w.quant.scales) == 1 or not is_wide(y))
    macs = prod(w.shape or ()) * elements // outputs
    return Layer(op, "product" if one else "conv", (Operand(given[0].id),), y.id, 1, macs=macs)


def _pool(layers: Layers, op: Op, given: list[Tensor], y: Tensor) -> Layer | None:
    x = given[0]
    taps = (op.attributes["filter_height"], op.attributes["filter_width"])
    quants = [(t.quant.scales[0], t.quant.zero_points[0]) for t in (x, y) if t.quant is not None]
    if len(x.shape or ()) != 4 or quants[0] != quants[1]:
        return None
    if op.type == "AVERAGE_POOL_2D" and not is_wide(x) and taps == sizes_of(x)[:2] and sizes_of(y)[:2] == (1, 1):
        return Layer(op, "sum", (Operand(x.id, SAME_ROWS),), y.id, taps[0], sums_bytes=4 * sizes_of(x)[2])
    rows, columns = layers.window(op, x, y, taps)
    return _without_empty(layers, Layer(op, "pool", (Operand(x.id, rows),), y.id, sizes_of(y)[0], columns))


def _mean(layers: Layers, op: Op, given: list[Tensor], y: Tensor) -> Layer | None:
    x = given[0]
    axes = sorted(d % 4 for d in layers.weights.numbers(layers.weights_of(op).id))
    height, _, channels = _sizes(x)
    if is_wide(x) or len(x.shape or ()) != 4 or axes != [1, 2] or y.size != channels:
        return None
    return Layer(op, "sum", (Operand(x.id, SAME_ROWS),), y.id, height, sums_bytes=4 * channels)


def _add(layers: Layers, op: Op, given: list[Tensor], y: Tensor) -> Layer | None:
    if len(given) != 2 or any(t.shape != y.shape for t in given):
        return None
    return Layer(op, op.type.lower(), tuple(Operand(t.id, SAME_ROWS) for t in given), y.id, _sizes(y)[0])


def _softmax(layers: Layers, op: Op, given: list[Tensor], y: Tensor) -> Layer | None:
    quant = y.quant
    if quant is None or is_wide(y) or (quant.scales[0], quant.zero_points[0]) != (1 / 256, -128):
        return None
    return Layer(op, "softmax", (Operand(given[0].id),), y.id, 1)


def _concat(layers: Layers, op: Op, given: list[Tensor], y: Tensor) -> Layer | None:
    shape = y.shape or ()
    along = dims_of(shape).get(op.attributes["axis"] % len(shape)) if shape else None
    quants = {(t.quant.scales[0], t.quant.zero_points[0]) for t in (*given, y) if t.quant is not None}
    untiled = len(given) != len(op.operands or op.inputs) or len(shape) != 4 or op.attributes.get(
        "fused_activation_function", 0
    )  # fmt: skip
    if untiled or along != 2 or len(quants) != 1:
        return None
    return Layer(op, "concat", tuple(Operand(t.id, SAME_ROWS) for t in given), y.id, _sizes(y)[0])


_LIBRARY = {
    "ADD": _add,
    "AVERAGE_POOL_2D": _pool,
    "CONCATENATION": _concat,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "FULLY_CONNECTED": _product,
    "MUL": _add,
    "MAX_POOL_2D": _pool,
    "MEAN": _mean,
    "SOFTMAX": _softmax,
}
"""Ops of 8 and 16 bits that a function runs, with what makes the layer; None of it: own code."""
