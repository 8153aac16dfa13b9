"""The operators that C is written for: of each op the kernel that runs it, and its parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from lowtide.emit import arithmetic, elementwise, reals, shapes, transposed
from lowtide.emit.arithmetic import Multiplier
from lowtide.emit.elementwise import COMPARISONS, REAL_MAPS, REAL_PAIRS, mapped, paired, quantized
from lowtide.emit.fixed_point import requantized
from lowtide.emit.formats import NEAR, WIDE_TYPES
from lowtide.emit.kernel import Find, Kernel, Material, fit, is_wide, scale_of, zero_of
from lowtide.emit.places import (
    ELEMENT_BYTES,
    Three,
    View,
    element_bytes,
    initialiser,
    sizes_of,
)
from lowtide.emit.recurrent import lstm, real_lstm
from lowtide.emit.signals import SIGNALS, signal
from lowtide.emit.variables import no_op, remembered
from lowtide.emit.windows import check_int, four, windows
from lowtide.errors import InputError
from lowtide.graph import Kind, Op, Tensor
from lowtide.ops.index import Window

_ACTIVATION = "fused_activation_function"
_SUMS = {"mean": "mean_sum", "wide_mean": "wide_mean_sum", "pool": "pool_sum", "wide_pool": "wide_pool_sum"}
"""Kernels of parts that only add up, by the kernel of the whole."""
_INTEGER = re.compile(r"(?<![\w.+-])-?[0-9]+(?![\w.])", re.ASCII)
"""A number of an initialiser, and no part of a name."""


Ints = Sequence[int]
Maker = Callable[["Kernels", Op, Find], Kernel]
"""Makes the kernel of an op."""


def _check_ints(kernel: Kernel) -> None:
    """Raise `InputError` for a number that no int of 32 bits holds."""
    written = (number for text in (kernel.text, *kernel.operands) for number in _INTEGER.findall(text))
    for number in (*kernel.sizes, kernel.taps, *map(int, written)):
        check_int(number)


class Kernels(Material):
    """Makes kernels of a graph's ops."""

    def kernel(self, op: Op, find: Find) -> Kernel:
        """The kernel of an op. Raises `InputError`: there is none for it; it names the op."""
        kernel = self._kernel(op, find)
        if not kernel.full_pixels:
            raise InputError(
                f"{op.label}: the plan splits the channels of its input, and C needs all channels of a pixel; plan "
                "without --allow row-streaming",
                self.graph.source,
            )
        return kernel

    def summed(self, op: Op, find: Find, sums: int, along: Sequence[int]) -> Kernel:
        """The kernel of an op whose operand comes part by part along these of rows, columns and channels, and is added
        up from byte `sums` of the arena on, or in the result if its numbers have a point; its sizes are the operand's.
        Raises `InputError`: there is none for it; it names the op."""
        kernel = self._kernel(op, find)
        sizes = sizes_of(self.given(op, 0))
        if kernel.name in _SUMS:
            return Kernel(_SUMS[kernel.name], f"{{{kernel.text}, {sums}}}", sizes)
        if self.result(op).dtype == "float32" or kernel.name.startswith("reduce_"):
            return reals.in_parts(kernel, sizes, along)
        if kernel.name != "conv" or kernel.sizes_in != sizes or op.type == "DEPTHWISE_CONV_2D":
            raise InputError(
                f"{op.label} is a sum of partial results in this plan, and C is not written for that; plan without "
                "--allow row-streaming",
                self.graph.source,
            )
        made = ", ".join(map(str, kernel.sizes))
        return Kernel("conv_sum", f"{{{kernel.text}, {sums}, {made}}}", sizes, kernel.macs)

    def _kernel(self, op: Op, find: Find) -> Kernel:
        """The kernel, wherever channels lie."""
        make = self._maker(op)
        if make is None:
            counted = sum(other.type == op.type for other in self.graph.ops)
            raise InputError(
                f"{op.label}: C is not written for this operator ({counted} of {len(self.graph.ops)} ops)",
                self.graph.source,
            )
        if make in _EIGHT_BITS:
            self._check_types(op, 1 if make in _WITH_CONSTANTS else len(op.inputs))
        try:
            kernel = make(self, op, find)
            _check_ints(kernel)
            return kernel
        except InputError as error:
            raise InputError(f"{op.label}: {error}", self.graph.source) from None

    def _maker(self, op: Op) -> Maker | None:
        """Who makes its kernel: by its type, and whether it has numbers with a point."""
        types = [self.graph.tensor_by_id[t].dtype for t in (*op.inputs, *op.outputs)]
        if "float32" in types and op.type in _REAL_MAKERS:
            return _REAL_MAKERS[op.type]
        return _MAKERS.get(op.type)

    def _check_types(self, op: Op, operands: int) -> None:
        """Raise `InputError` for elements of other types than the kernel takes, or of several scales."""
        made = [self.graph.tensor_by_id[t] for t in op.outputs]
        given = [self.graph.tensor_by_id[t] for t in (op.operands or op.inputs)[:operands] if t is not None]
        allowed = (("int8", "int8"), *WIDE_TYPES.get(op.type, ()))
        for t in (*given, *made):
            if t.quant is None or len(t.quant.scales) != 1 or t.dtype not in ELEMENT_BYTES:
                raise InputError(
                    f"{op.label}: {t.label} is {t.dtype or 'of no type'} and C is written for int8 and int16 with one "
                    "scale; quantise the model to full integers",
                    self.graph.source,
                )
            if any((x.dtype, y.dtype) not in allowed for x in given for y in made):
                kinds = ", ".join(f"{x} to {y}" for x, y in allowed)
                raise InputError(
                    f"{op.label}: {t.label} is {t.dtype}; of this operator C is written for {kinds}", self.graph.source
                )

    def _filters(self, op: Op, channels: int, axis: int) -> tuple[Tensor, Ints | None, list[Multiplier]]:
        """Weights of a convolution or product, and bias and factor of each channel."""
        x, w, y = self.data(op), self.given(op, 1), self.result(op)
        quant = w.quant
        if w.dtype != "int8" or quant is None or any(quant.zero_points):
            raise InputError(f"its weights {w.label} are not int8 around 0")
        scales = quant.scales if len(quant.scales) > 1 else quant.scales * channels
        if len(scales) != channels or (len(quant.scales) > 1 and quant.axis != axis):
            raise InputError(f"its weights have {len(scales)} scales for {channels} channels")
        factors = [arithmetic.convolution(scale_of(x), scale, scale_of(y)) for scale in scales]
        given = op.operands or op.inputs
        bias = given[2] if len(given) > 2 else None
        if is_wide(x) and (zero_of(x) or zero_of(y) or op.attributes.get("quantized_bias_type", 0)):
            raise InputError("its numbers of 16 bits are not around 0, or its sums are of 32 bits")
        if bias is None:
            return w, None, factors
        kind = "int64" if is_wide(x) else "int32"
        if self.graph.tensor_by_id[bias].dtype != kind:
            raise InputError(f"its bias is not one number of type {kind} for each channel")
        numbers = self.weights.numbers(bias)
        fit(len(numbers) == channels)
        return w, numbers, factors

    def _arrays(self, weights: Ints, bias: Ints | None, factors: Sequence[Multiplier], kind: str) -> str:
        """The initialiser of what belongs to each channel."""
        arrays = [self.weights.array("weights", "int8", weights)]
        arrays.append("NULL" if bias is None else self.weights.array("bias", kind, bias))
        arrays.append(self.weights.array("multiplier", "int32", [m for m, _ in factors]))
        return ", ".join([*arrays, self.weights.array("shift", "int8", [s for _, s in factors])])

    def _layer(self, name: str, op: Op, views: tuple[View, View], sizes_in: Three, sizes: Three, axis: int) -> Kernel:
        """A convolution, or a product with weights: channels are along this axis of the weights."""
        x, y = self.data(op), self.result(op)
        w, bias, factors = self._filters(op, sizes[2], axis)
        high, wide, numbers = Window(1), Window(1), self.weights.numbers(w.id)
        if op.type != "FULLY_CONNECTED":
            high, wide = windows(op, four(w)[1:3], sizes_in[:2], sizes)
        times = sizes[2] // sizes_in[2] if name == "depthwise" else 1
        shape = (
            *sizes_in, times, high.taps, wide.taps, high.stride, wide.stride, high.dilation, wide.dilation, high.before,
            wide.before, zero_of(x), zero_of(y), *_bounds(op, y),
        )  # fmt: skip
        macs, last = len(numbers) * sizes[0] * sizes[1], views[0].channels_last
        if is_wide(x):
            text = initialiser(views, shape, self._arrays(numbers, bias, factors, "int64"))
            return Kernel(f"wide_{name}", text, sizes, macs, sizes_in=sizes_in, full_pixels=last or name == "depthwise")
        by_channel = np.moveaxis(np.array(numbers).reshape(w.shape or ()), axis, 0).reshape(sizes[2], -1)
        folded = np.array(bias or 0) - zero_of(x) * by_channel.sum(1)
        most = np.abs(folded) + 128 * np.abs(by_channel).sum(1)
        small = most.max() < 1 << 30 and min(numbers) > -128 and all(-32 < shift < 0 for _, shift in factors)
        border, taps = "NULL", high.taps * wide.taps
        if name == "depthwise" and sizes_in[2] == 1:  # each channel of the result is of all there is in the input
            name, numbers = "conv", tuple(by_channel.ravel().tolist())
        elif name == "depthwise" and (times > 1 or not all(view.channels_last for view in views)):
            name, last = "depthwise_apart", True
        elif name == "depthwise":
            widest = max(sizes_of(self.data(o))[2] for o in self.graph.ops if o.type == op.type)
            border = self.weights.array("border", "int8", [zero_of(x)] * widest)
        if name == "conv" and (taps, high.before, wide.before) != (1, 0, 0):
            taps *= sizes_in[2]  # what a pixel reads is put together
        arrays = self._arrays(numbers, folded.astype(np.int32).tolist(), factors, "int32")
        text = initialiser(views, (*shape, int(small)), arrays, border)
        return Kernel(name, text, sizes, macs, taps, sizes_in=sizes_in, full_pixels=last)

    def _conv(self, op: Op, find: Find) -> Kernel:
        """CONV_2D."""
        x, y = self.data(op), self.result(op)
        sizes_in, sizes = sizes_of(x), sizes_of(y)
        filters, _, _, depth = four(self.given(op, 1))
        fit(filters == sizes[2] and depth > 0)
        if depth != sizes_in[2]:
            raise InputError(f"it has {sizes_in[2] // depth} groups; C is written for one")
        return self._layer("conv", op, (find(x.id), find(y.id)), sizes_in, sizes, 0)

    def _product(self, op: Op, find: Find) -> Kernel:
        """FULLY_CONNECTED: a convolution of one tap over as many pixels as there are rows."""
        x, y, w = self.data(op), self.result(op), self.given(op, 1)
        if op.attributes.get("weights_format", 0) != 0 or len(w.shape or ()) != 2:
            raise InputError("its weights are shuffled, or no matrix")
        channels, depth = w.shape or (0, 0)
        fit(min(channels, depth) > 0)
        views, sizes_in, sizes = reals.as_rows(x, y, find, depth, channels)
        return self._layer("conv", op, views, sizes_in, sizes, 0)

    def _depthwise(self, op: Op, find: Find) -> Kernel:
        """DEPTHWISE_CONV_2D."""
        x, y = self.data(op), self.result(op)
        sizes_in, sizes = sizes_of(x), sizes_of(y)
        fit(four(self.given(op, 1))[3] == sizes[2] and sizes_in[2] > 0 and sizes[2] % sizes_in[2] == 0)
        return self._layer("depthwise", op, (find(x.id), find(y.id)), sizes_in, sizes, 3)

    def _transposed(self, op: Op, find: Find) -> Kernel:
        """TRANSPOSE_CONV."""
        op = transposed.ordered(op)
        x, w, y = self.data(op), self.given(op, 1), self.result(op)
        views = (find(x.id), find(y.id))
        if y.dtype == "float32":
            return transposed.kernel(op, x, w, y, views, (), ", ".join(reals.filters_of(self, op, w)))
        self._check_types(op, 1)
        _, bias, factors = self._filters(op, sizes_of(y)[2], 0)
        arrays = self._arrays(self.weights.numbers(w.id), bias, factors, "int64" if is_wide(x) else "int32")
        return transposed.kernel(op, x, w, y, views, (zero_of(x), zero_of(y), *_bounds(op, y)), arrays)

    def _pool(self, op: Op, find: Find) -> Kernel:
        """AVERAGE_POOL_2D and MAX_POOL_2D."""
        x, y = self.data(op), self.result(op)
        (in_h, in_w, in_c), sizes = sizes_of(x), sizes_of(y)
        fit(in_c == sizes[2])
        if (scale_of(x), zero_of(x)) != (scale_of(y), zero_of(y)):
            raise InputError("its input and its result have different scales, which TFLM refuses")
        taps = (op.attributes["filter_height"], op.attributes["filter_width"])
        high, wide = windows(op, taps, (in_h, in_w), sizes)
        numbers = (
            in_h, in_w, high.taps, wide.taps, high.stride, wide.stride, high.before, wide.before,
            int(op.type == "AVERAGE_POOL_2D"), *_bounds(op, y),
        )  # fmt: skip
        text = initialiser((find(x.id), find(y.id)), numbers)
        return Kernel("wide_pool" if is_wide(x) else "pool", text, sizes)

    def _mean(self, op: Op, find: Find) -> Kernel:
        """MEAN over rows and columns."""
        x, y = self.data(op), self.result(op)
        axes = sorted(d % 4 for d in self.weights.numbers(self.given(op, 1).id))
        in_h, in_w, channels = sizes_of(x)
        if len(x.shape or ()) != 4 or axes != [1, 2]:
            raise InputError(f"it is a mean over dimensions {axes}; C is written for rows and columns, 1 and 2")
        target = find(y.id)
        fit(prod(y.shape or ()) == channels)
        if len(y.shape or ()) != 4 and target.slots:
            raise InputError("the plan tiles its result in another shape; C is written for an untiled result")
        factor = arithmetic.mean(scale_of(x), scale_of(y), in_h * in_w)
        numbers = (in_h, in_w, zero_of(x), zero_of(y), *factor)
        text = initialiser((find(x.id), target), numbers)
        return Kernel("wide_mean" if is_wide(x) else "mean", text, (1, 1, channels))

    def _add(self, op: Op, find: Find) -> Kernel:
        """ADD: of two tensors of one shape and one scale each it has a kernel of its own."""
        a, b, y = self.given(op, 0), self.given(op, 1), self.result(op)
        if y.dtype == "int32" or a.shape != b.shape or Kind.CONSTANT in (a.kind, b.kind):
            return paired(self, op, find)
        self._check_types(op, 2)
        shift = arithmetic.WIDE_ADD_SHIFT if is_wide(y) else arithmetic.ADD_SHIFT
        one, other, out = arithmetic.addition(scale_of(a), scale_of(b), scale_of(y), shift)
        numbers = (zero_of(a), *one, zero_of(b), *other, zero_of(y), *out, *_bounds(op, y))
        text = initialiser((find(a.id), find(b.id), find(y.id)), numbers)
        return Kernel("wide_add" if is_wide(y) else "add", text, sizes_of(y))

    def _rescale(self, op: Op, find: Find) -> Kernel:
        """QUANTIZE, RELU and RELU6."""
        x, y = self.data(op), self.result(op)
        fit(x.shape == y.shape)
        if "uint8" in (x.dtype, y.dtype):
            return elementwise.looked_up(self, x, y, find, requantized(x, y))
        kind = {"RELU": 1, "RELU6": 3}.get(op.type, 0)
        if op.type == "RELU6" and (scale_of(x), zero_of(x)) != (scale_of(y), zero_of(y)):
            raise InputError("its result has another scale than its input, which TFLM takes no notice of")
        factor = arithmetic.rescaled(scale_of(x), scale_of(y))
        limits = arithmetic.activation(kind, scale_of(y), zero_of(y), y.dtype or "")
        numbers = (zero_of(x), zero_of(y), *factor, *limits)
        views = (find(x.id), find(y.id))
        if (x.dtype, y.dtype) == ("int8", "int8"):
            return Kernel("rescale", initialiser(views, numbers), sizes_of(y))
        bytes_ = (element_bytes(x), element_bytes(y))
        return Kernel("wide_rescale", initialiser(views, (*bytes_, *numbers)), sizes_of(y))

    def _softmax(self, op: Op, find: Find) -> Kernel:
        """SOFTMAX."""
        x, y = self.data(op), self.result(op)
        if not is_wide(y) and (scale_of(y), zero_of(y)) != (1 / 256, -128):
            raise InputError("its result has not the scale 1/256 from -128 on, which TFLM asks for")
        if is_wide(y) and not is_wide(x) and (abs(scale_of(y) * 65536 - 1) > NEAR or zero_of(y) != -(1 << 15)):
            raise InputError("its result has not the scale 1/65536 from -32768 on, which TFLM asks for")
        if is_wide(x) and (abs(scale_of(y) * 32768 - 1) > NEAR or zero_of(x) or zero_of(y)):
            raise InputError("its result has not the scale 1/32768 around 0, which TFLM asks for")
        source, target = find(x.id), find(y.id)
        fit(x.shape == y.shape)
        if not (source.channels_last and target.channels_last):
            raise InputError("the plan splits its channels; C needs all channels of a pixel")
        if is_wide(x):
            return self._long_softmax(op, source, target)
        (multiplier, shift), least = arithmetic.softmax(scale_of(x), float(op.attributes["beta"]))
        numbers = (sizes_of(x)[2], multiplier, shift, least)
        return Kernel("wide_softmax" if is_wide(y) else "softmax", initialiser((source, target), numbers), sizes_of(y))

    def _long_softmax(self, op: Op, source: View, target: View) -> Kernel:
        """SOFTMAX from 16 bits."""
        x, y = self.data(op), self.result(op)
        factor = arithmetic.long_softmax(scale_of(x), float(op.attributes["beta"]))
        exps = self.weights.array("curve", "int16", arithmetic.long_curve(-10.0, 0.0, math.exp))
        inverses = self.weights.array("curve", "int16", arithmetic.long_curve(0.0, 1.0, lambda v: 1 / (1 + v)))
        text = initialiser((source, target), (sizes_of(x)[2], *factor), exps, inverses)
        return Kernel("long_softmax", text, sizes_of(y))

    def _svdf(self, op: Op, find: Find) -> Kernel:
        """SVDF whose filters keep results of 8 or 16 bits."""
        x, y = self.data(op), self.result(op)
        features, times, kept = (self.given(op, i) for i in (1, 2, 4))
        rank = int(op.attributes["rank"])
        (filters, depth), memory = features.shape or (0, 0), (times.shape or (0, 0))[1]
        quants = [features.quant, times.quant, kept.quant]
        wide = is_wide(kept)
        types = (features.dtype, times.dtype, kept.dtype)
        if types != (("int8", "int16", "int16") if wide else ("int8",) * 3) or any(
            q is None or len(q.scales) != 1 for q in quants
        ):
            raise InputError("its weights or what it keeps are not of 8 bits, or 16 over time, with one scale")
        if wide and zero_of(kept):
            raise InputError("what it keeps in 16 bits is not around 0")
        fit(x.shape == (1, depth) and y.shape == (1, filters // rank) and kept.shape == (1, filters * memory))
        fit(filters % rank == 0 and times.shape == (filters, memory) and memory > 0)
        factors = arithmetic.svdf(scale_of(x), scale_of(features), scale_of(kept), scale_of(times), scale_of(y))
        begin = self.keep(op, filters * memory * element_bytes(kept))
        arrays = [self.weights.array("weights", t.dtype or "", self.weights.numbers(t.id)) for t in (features, times)]
        bias = (op.operands or op.inputs)[3]
        if bias is None:
            arrays.append("NULL")
        else:
            arrays.append(self.weights.array("bias", "int32", self.weights.numbers(bias)))
        numbers = (depth, memory, rank, zero_of(x), zero_of(kept), zero_of(y), *factors[0], *factors[1], begin)
        text = initialiser((find(x.id), find(y.id)), numbers, ", ".join(arrays))
        return Kernel("wide_svdf" if wide else "svdf", text, sizes_of(y), filters * (depth + memory))


def _bounds(op: Op, result: Tensor) -> tuple[int, int]:
    """What the fused activation lets through."""
    kind = op.attributes.get(_ACTIVATION, 0)
    if kind not in (0, 1, 2, 3):
        raise InputError(f"it has activation {kind}; C is written for none and for ReLUs")
    return arithmetic.activation(kind, scale_of(result), zero_of(result), result.dtype or "")


_MAKERS: dict[str, Maker] = {
    **dict.fromkeys(("ABS", "ELU", "HARD_SWISH", "LEAKY_RELU", "LOGICAL_NOT", "LOGISTIC", "TANH"), mapped),
    **dict.fromkeys(COMPARISONS, paired),
    "ADD": Kernels._add,
    "ASSIGN_VARIABLE": remembered,
    "AVERAGE_POOL_2D": Kernels._pool,
    "CALL_ONCE": no_op,
    "CAST": shapes.cast,
    "CONCATENATION": shapes.concatenated,
    "CONV_2D": Kernels._conv,
    "DEPTHWISE_CONV_2D": Kernels._depthwise,
    **dict.fromkeys(("DIV", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL", "PRELU", "SUB"), paired),
    "EXPAND_DIMS": shapes.reshaped,
    "FULLY_CONNECTED": Kernels._product,
    "MAX_POOL_2D": Kernels._pool,
    "MEAN": Kernels._mean,
    "MIRROR_PAD": shapes.mirrored,
    "PACK": shapes.packed,
    "PAD": shapes.padded,
    "PADV2": shapes.padded,
    "QUANTIZE": Kernels._rescale,
    "READ_VARIABLE": remembered,
    "REDUCE_MAX": reals.reduced,
    "REDUCE_MIN": reals.reduced,
    "RELU": Kernels._rescale,
    "RELU6": Kernels._rescale,
    "RESHAPE": shapes.reshaped,
    **dict.fromkeys(("SELECT", "SELECT_V2"), elementwise.selected),
    "SHAPE": shapes.shape,
    "SLICE": shapes.sliced,
    "SOFTMAX": Kernels._softmax,
    **dict.fromkeys(("SPLIT", "SPLIT_V", "UNPACK"), shapes.split),
    "SQUEEZE": shapes.reshaped,
    "STRIDED_SLICE": shapes.sliced,
    "SVDF": Kernels._svdf,
    "TRANSPOSE": shapes.transposed,
    "TRANSPOSE_CONV": Kernels._transposed,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
    "VAR_HANDLE": no_op,
    **dict.fromkeys(SIGNALS, signal),
}
_REAL_MAKERS: dict[str, Maker] = {
    **dict.fromkeys(REAL_MAPS, mapped),
    **dict.fromkeys((*REAL_PAIRS, *COMPARISONS), paired),
    **dict.fromkeys(("CAST", "DEQUANTIZE", "QUANTIZE"), quantized),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), reals.reduced),
    "AVERAGE_POOL_2D": reals.pooled,
    "BATCH_MATMUL": reals.multiplied,
    "CONV_2D": reals.convolved,
    "DEPTHWISE_CONV_2D": reals.depthwise,
    "FULLY_CONNECTED": reals.multiplied,
    "MAX_POOL_2D": reals.pooled,
    "SOFTMAX": reals.softmax,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": real_lstm,
}
"""Of operators with numbers with a point, where they are made otherwise."""
_EIGHT_BITS = (
    Kernels._conv, Kernels._depthwise, Kernels._mean, Kernels._pool, Kernels._product,
    Kernels._rescale, Kernels._softmax, Kernels._svdf, lstm,
)  # fmt: skip
"""Makers of kernels of 8 and 16 bits that leave it to others to look at types."""
_WITH_CONSTANTS = (Kernels._conv, Kernels._depthwise, Kernels._product, Kernels._mean, Kernels._svdf, lstm)
"""Kernels whose operands behind the first one are constants."""
