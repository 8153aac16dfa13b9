"""Parameters of the library's calls: of each layer the kind of its calls, and an initialiser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowtide.emit import arithmetic
from lowtide.emit.cmsis_nn.arena import scratch_of
from lowtide.emit.cmsis_nn.choice import Choice, Chosen
from lowtide.emit.cmsis_nn.layers import Layer, Layers
from lowtide.emit.cmsis_nn.stripes import Segment
from lowtide.emit.kernel import is_wide, scale_of, zero_of
from lowtide.emit.places import element_bytes, sizes_of
from lowtide.errors import InputError
from lowtide.graph import Tensor
from lowtide.ops.index import Window


@dataclass
class Parameters:
    """Of the layers of chosen segments."""

    choice: Choice
    chosen: Chosen
    fronts: dict[int, int] = field(init=False)  # number of each row buffer
    part_of: dict[int, Segment] = field(init=False)  # the segment of each layer

    def __post_init__(self) -> None:
        parts = self.chosen.parts
        self.fronts = {t: k for k, t in enumerate(t for part in parts for t in part.buffers)}
        self.part_of = {k: part for part in parts for k in range(part.begin, part.end)}

    @property
    def layers(self) -> Layers:
        """Of the model."""
        return self.choice.layers

    def of(self, k: int, layer: Layer) -> tuple[str, list[str]]:
        """Kind of call, and its parameters: a row, of a concatenation one for each operand, of ``own`` none."""
        single = sum(c.layer == k for c in self.part_of[k].calls) == 1
        if layer.kind == "own":
            return "own", []
        wide = "wide_" if is_wide(self.layers.result(layer)) else ""
        if layer.kind in ("conv", "depthwise"):
            return f"{wide}{layer.kind}", [self._window(k, layer)]
        if layer.kind == "pool":
            kind = "average" if layer.op.type == "AVERAGE_POOL_2D" else "largest"
            return f"{wide}{kind}", [self._window(k, layer)]
        if layer.kind == "sum":
            kind, row = self._total(k, layer, single=single)
            return kind, [row]
        if layer.kind == "concat":
            return layer.kind, self._concat(layer)
        make = {"product": self._product, "add": self._add, "mul": self._mul, "softmax": self._softmax}
        return f"{wide}{layer.kind}", [make[layer.kind](layer)]

    def place(self, tensor: int) -> str:
        """An initialiser of `place_t`."""
        at = self.chosen.arena.at
        front = self.fronts.get(tensor, -1)
        return f"{{{at[('rows' if front >= 0 else 'tensor', tensor)]}, {self.layers.row_bytes(tensor)}, {front}}}"

    def _window(self, k: int, layer: Layer) -> str:
        """Of a convolution or pool; a product of several rows is a convolution of one tap over them."""
        operand = layer.operands[0]
        x, y = self.layers.given(layer), self.layers.result(layer)
        sizes, made, rows, columns = sizes_of(self.layers.given(layer)), sizes_of(y), operand.window, layer.columns
        if layer.kind == "sum":
            taps = (layer.op.attributes["filter_height"], layer.op.attributes["filter_width"])
            rows, columns = self.layers.window(layer.op, x, y, taps)
        if layer.op.type == "FULLY_CONNECTED":
            channels, depth = self._constant(layer, 1).shape or (0, 0)
            pixels = y.size // element_bytes(y) // channels
            sizes, made, rows = (1, pixels, depth), (1, pixels, channels), Window(1)
        assert rows is not None, layer
        part = self.part_of[k]
        scratch = scratch_of(self.choice.flow, part)
        numbers = (
            *sizes, *made[1:], rows.taps, columns.taps, rows.stride, columns.stride, rows.dilation, columns.dilation,
            rows.before, columns.before, -zero_of(x), zero_of(y), *self._bounds(layer, y),
            self.chosen.arena.at.get(("scratch", part.begin), 0), scratch,
        )  # fmt: skip
        arrays = ("NULL", "NULL", "NULL", "NULL")
        if layer.kind in ("conv", "depthwise"):
            arrays = self._filters(layer, x, y, made[2], 3 if layer.kind == "depthwise" else 0)
        return _row(self.place(operand.tensor), self.place(layer.result), numbers, *arrays)

    def _filters(self, layer: Layer, x: Tensor, y: Tensor, channels: int, axis: int) -> tuple[str, ...]:
        """Names of weights, bias, multipliers and shifts."""
        w, weights = self._constant(layer, 1), self.layers.weights
        quant, given = w.quant, layer.op.operands or layer.op.inputs
        assert quant is not None, layer
        scales = quant.scales if len(quant.scales) > 1 else quant.scales * channels
        if len(scales) != channels or (len(quant.scales) > 1 and quant.axis != axis):
            raise InputError(f"{layer.op.label}: its weights have {len(scales)} scales for {channels} channels")
        factors = [arithmetic.convolution(scale_of(x), scale, scale_of(y)) for scale in scales]
        bias, kind = "NULL", "int64" if is_wide(x) else "int32"
        if len(given) > 2 and given[2] is not None:
            numbers = weights.numbers(given[2])
            if self.layers.tensor(given[2]).dtype != kind or len(numbers) != channels:
                raise InputError(f"{layer.op.label}: its bias is not one number of type {kind} for each channel")
            bias = weights.array("bias", kind, numbers)
        return (
            weights.array("weights", "int8", weights.numbers(w.id)),
            bias,
            weights.array("multiplier", "int32", [m for m, _ in factors]),
            weights.array("shift", "int32", [s for _, s in factors]),
        )

    def _product(self, layer: Layer) -> str:
        """Of FULLY_CONNECTED with one row."""
        x, y = self.layers.given(layer), self.layers.result(layer)
        w = self._constant(layer, 1)
        channels, depth = w.shape or (0, 0)
        assert w.quant is not None, layer
        arrays = self._filters(layer, x, y, channels, 0)
        numbers = (depth, channels, -zero_of(x), zero_of(y), *self._bounds(layer, y), int(len(w.quant.scales) > 1))
        sums = "NULL"
        if self.layers.simd in ("mve", "any") and not is_wide(x):
            weights = self.layers.weights.numbers(w.id)
            given = layer.op.operands or layer.op.inputs
            bias = self.layers.weights.numbers(given[2]) if len(given) > 2 and given[2] is not None else [0] * channels
            totals = [b - zero_of(x) * sum(weights[c * depth : (c + 1) * depth]) for c, b in enumerate(bias)]
            sums = self.layers.weights.array("sums", "int32", totals)
        return _row(self.place(layer.operands[0].tensor), self.place(layer.result), numbers, *arrays, sums)

    def _add(self, layer: Layer) -> str:
        """Of ADD."""
        given = [self.layers.tensor(t) for t in (layer.op.operands or layer.op.inputs) if t is not None]
        a, b, y = *given[:2], self.layers.result(layer)
        shift = arithmetic.WIDE_ADD_SHIFT if is_wide(y) else arithmetic.ADD_SHIFT
        one, other, out = arithmetic.addition(scale_of(a), scale_of(b), scale_of(y), shift)
        numbers = (-zero_of(a), *one, -zero_of(b), *other, zero_of(y), *out, *self._bounds(layer, y))
        first, second = (self.place(self.layers.held(t.id)) for t in (a, b))
        return _row(f"{first}, {second}", self.place(layer.result), numbers)

    def _mul(self, layer: Layer) -> str:
        """Of MUL."""
        a, b = [self.layers.tensor(t) for t in (layer.op.operands or layer.op.inputs) if t is not None][:2]
        y = self.layers.result(layer)
        factor = arithmetic.product(scale_of(a), scale_of(b), scale_of(y))
        numbers = (-zero_of(a), -zero_of(b), zero_of(y), *factor, *self._bounds(layer, y))
        first, second = (self.place(self.layers.held(t.id)) for t in (a, b))
        return _row(f"{first}, {second}", self.place(layer.result), numbers)

    def _softmax(self, layer: Layer) -> str:
        """Of SOFTMAX."""
        x = self.layers.given(layer)
        depth = (self.layers.result(layer).shape or (1,))[-1]
        (multiplier, shift), least = arithmetic.softmax(scale_of(x), float(layer.op.attributes["beta"]))
        numbers = (x.size // depth, depth, multiplier, shift, least)
        return _row(self.place(layer.operands[0].tensor), self.place(layer.result), numbers)

    def _concat(self, layer: Layer) -> list[str]:
        """Of CONCATENATION along channels: a row for each operand; the layer's index is the first one's."""
        made, unit = sizes_of(self.layers.result(layer)), element_bytes(self.layers.result(layer))
        rows, begin = [], 0
        given = [t for t in (layer.op.operands or layer.op.inputs) if t is not None]
        for i, t in enumerate(given):
            channels = sizes_of(self.layers.tensor(t))[2] * unit
            numbers = (made[1], channels, begin, made[2] * unit, int(i == len(given) - 1))
            rows.append(_row(self.place(self.layers.held(t)), self.place(layer.result), numbers))
            begin += channels
        return rows

    def _total(self, k: int, layer: Layer, *, single: bool) -> tuple[str, str]:
        """Of a mean over all rows and columns."""
        x, y = self.layers.given(layer), self.layers.result(layer)
        height, width, channels = sizes_of(x)
        is_mean = layer.op.type == "MEAN"
        if single and not is_mean:
            return "overall", self._window(k, layer)
        factor = arithmetic.mean(scale_of(x), scale_of(y), height * width) if is_mean else (0, 0)
        bounds = arithmetic.LIMITS["int8"] if is_mean else self._bounds(layer, y)
        window = (height, width, 1, 1, 1, 1, 0, 0)
        numbers = (height, width, channels, 1, channels, *window, -zero_of(x), zero_of(y), *bounds, 0, 0)
        places = self.place(layer.operands[0].tensor), self.place(layer.result)
        pool = _row(*places, numbers, "NULL", "NULL", "NULL", "NULL")
        at = self.chosen.arena.at[("sums", layer.result)]
        return "total", f"{{{pool}, {at}, {0 if is_mean else height * width}, {factor[0]}, {factor[1]}}}"

    def _constant(self, layer: Layer, which: int) -> Tensor:
        tensor = (layer.op.operands or layer.op.inputs)[which]
        assert tensor is not None, layer
        return self.layers.tensor(tensor)

    def _bounds(self, layer: Layer, y: Tensor) -> tuple[int, int]:
        kind = layer.op.attributes.get("fused_activation_function", 0)
        if kind not in (0, 1, 2, 3):
            raise InputError(f"{layer.op.label}: it has activation {kind}; C is written for none and for ReLUs")
        return arithmetic.activation(kind, scale_of(y), zero_of(y), y.dtype or "")


def _row(first: str, second: str, numbers: Sequence[int], *names: str) -> str:
    """An initialiser: places, numbers, names of arrays."""
    return f"{{{', '.join([first, second, *map(str, numbers), *names])}}}"
