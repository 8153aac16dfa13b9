"""Convolutions, products, pools, softmax and reductions of numbers with a point: what they are as material of C.

Sums are made in the order of TFLM's reference kernels, so that bits are equal; C is compiled without contracted
multiplications and additions. `expf` and its like are those of the target's C library.

Source: TFLite's `reference/conv.h`, `depthwiseconv_float.h`, `fully_connected.h`, `pooling.h`, `softmax.h`, `reduce.h`,
`batch_matmul.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from lowtide.emit.formats import FORMATS, real, real_bounds
from lowtide.emit.kernel import Find, Kernel, Material, Part, fit, scale_of, zero_of
from lowtide.emit.places import Three, View, complete, dims_of, initialiser, sizes_of
from lowtide.emit.windows import four, windows
from lowtide.errors import InputError
from lowtide.graph import Kind, Op, Tensor

_CHANNELS = 2
_ACTIVATION = "fused_activation_function"
_REDUCTIONS = {
    "MEAN": ("0.0f", "total + value", "total / k->count"),
    "REDUCE_MAX": ("-FLT_MAX", "(value > total) ? value : total", "total"),
    "REDUCE_MIN": ("FLT_MAX", "(value < total) ? value : total", "total"),
    "REDUCE_PROD": ("1.0f", "value * total", "total"),
    "SUM": ("0.0f", "value + total", "total"),
}
"""Where a reduction begins, what it makes of an element, and of the last."""
_EXTREMES = {"REDUCE_MAX": ("INT8_MIN", "most(value, total)"), "REDUCE_MIN": ("INT8_MAX", "least(value, total)")}


def _arrays(material: Material, op: Op, weights: np.ndarray, filters: int) -> tuple[str, str]:
    """Names of the weights and of the bias."""
    name = material.weights.array("weights", "float32", [float(v) for v in weights.ravel()])
    given = op.operands or op.inputs
    if len(given) <= 2 or given[2] is None:
        return name, "NULL"
    bias = material.weights.numbers(given[2])
    fit(len(bias) == filters)
    return name, material.weights.array("bias", "float32", bias)


def _held(material: Material, tensor: Tensor) -> np.ndarray:
    """Weights as an array."""
    if tensor.kind is not Kind.CONSTANT or tensor.dtype != "float32":
        raise InputError(f"its weights {tensor.label} are no constants of type float32")
    return np.array(material.weights.numbers(tensor.id), np.float32).reshape(tensor.shape or ())


def filters_of(material: Material, op: Op, weights: Tensor) -> tuple[str, str]:
    """Names of the weights and of the bias of an op whose first dimension is the result's channels."""
    return _arrays(material, op, _held(material, weights), (weights.shape or (0,))[0])


def convolved(material: Material, op: Op, find: Find) -> Kernel:
    """CONV_2D."""
    x, y, w = material.data(op), material.result(op), material.given(op, 1)
    in_c, sizes = sizes_of(x)[2], sizes_of(y)
    filters, _, _, depth = four(w)
    fit(filters == sizes[2] and depth > 0 and in_c % depth == 0 and filters % (in_c // depth) == 0)
    kernel = _filtered("real_conv", material, op, find, (depth, filters // (in_c // depth)), filters)
    return replace(kernel, macs=kernel.macs * depth, full_pixels=find(x.id).position[2] == 0)


def _filtered(name: str, material: Material, op: Op, find: Find, channels: tuple[int, int], filters: int) -> Kernel:
    """A convolution of either kind, whose code has these two numbers of channels."""
    x, y, w = material.data(op), material.result(op), material.given(op, 1)
    (in_h, in_w, _), sizes = sizes_of(x), sizes_of(y)
    _, taps_h, taps_w, _ = four(w)
    high, wide = windows(op, (taps_h, taps_w), (in_h, in_w), sizes)
    numbers = (
        in_h, in_w, *channels, high.taps, wide.taps, high.stride, wide.stride, high.dilation, wide.dilation,
        high.before, wide.before,
    )  # fmt: skip
    bounds = real_bounds(op.attributes.get(_ACTIVATION, 0))
    arrays = _arrays(material, op, _held(material, w), filters)
    return Kernel(
        name, initialiser((find(x.id), find(y.id)), numbers, *bounds, *arrays), sizes, prod(sizes) * taps_h * taps_w
    )


def multiplied(material: Material, op: Op, find: Find) -> Kernel:
    """FULLY_CONNECTED, and BATCH_MATMUL with a constant: a convolution of one tap over as many pixels as rows. Raises
    `InputError`: its weights are not one constant matrix, or the plan has a tensor in rows of another shape."""
    x, y, w = material.data(op), material.result(op), material.given(op, 1)
    held = _held(material, w)
    if op.type == "BATCH_MATMUL":
        if op.attributes.get("adj_x", False) or held.ndim < 2 or prod(held.shape[:-2]) != 1:
            raise InputError("it is no product with one constant matrix; C is written for that")
        held = held.reshape(held.shape[-2:])
        held = held if op.attributes.get("adj_y", False) else held.T
    elif op.attributes.get("weights_format", 0) != 0 or held.ndim != 2:
        raise InputError("its weights are shuffled, or no matrix")
    filters, depth = (int(n) for n in held.shape)
    (source, target), sizes_in, sizes = as_rows(x, y, find, depth, filters)
    numbers = (*sizes_in[:2], depth, filters, 1, 1, 1, 1, 1, 1, 0, 0)
    bounds = real_bounds(op.attributes.get(_ACTIVATION, 0))
    text = initialiser((source, target), numbers, *bounds, *_arrays(material, op, held, filters))
    macs, last = prod(sizes) * depth, source.position[2] == 0
    return Kernel("real_conv", text, sizes, macs, sizes_in=sizes_in, full_pixels=last)


def as_rows(x: Tensor, y: Tensor, find: Find, depth: int, filters: int) -> tuple[tuple[View, View], Three, Three]:
    """Views and sizes of a product's operand and result, as rows of `depth` and of `filters` elements. Raises
    `InputError`: the plan has one of them in rows of another shape."""
    source, target, sizes_in, sizes = find(x.id), find(y.id), sizes_of(x), sizes_of(y)
    if sizes_in[:2] != sizes[:2] or sizes_in[2] != depth or sizes[2] != filters:  # both are untiled then
        rows = prod(x.shape or ()) // depth
        fit(rows * depth == prod(x.shape or ()) and rows * filters == prod(y.shape or ()))
        if source.slots or target.slots:
            raise InputError("the plan streams it in rows of another shape; C is written for an untiled operator")
        sizes_in, sizes = (rows, 1, depth), (rows, 1, filters)
        source, target = complete(source.base, sizes_in, source.unit), complete(target.base, sizes, target.unit)
    return (source, target), sizes_in, sizes


def depthwise(material: Material, op: Op, find: Find) -> Kernel:
    """DEPTHWISE_CONV_2D."""
    x, y, w = material.data(op), material.result(op), material.given(op, 1)
    in_c, filters = sizes_of(x)[2], four(w)[3]
    fit(filters == sizes_of(y)[2] and in_c > 0 and filters % in_c == 0)
    return _filtered("real_depthwise", material, op, find, (filters, filters // in_c), filters)


def pooled(material: Material, op: Op, find: Find) -> Kernel:
    """AVERAGE_POOL_2D and MAX_POOL_2D."""
    x, y = material.data(op), material.result(op)
    (in_h, in_w, in_c), sizes = sizes_of(x), sizes_of(y)
    fit(in_c == sizes[2])
    high, wide = windows(op, (op.attributes["filter_height"], op.attributes["filter_width"]), (in_h, in_w), sizes)
    numbers = (
        in_h, in_w, high.taps, wide.taps, high.stride, wide.stride, high.before, wide.before,
        int(op.type == "AVERAGE_POOL_2D"),
    )  # fmt: skip
    bounds = real_bounds(op.attributes.get(_ACTIVATION, 0))
    return Kernel("real_pool", initialiser((find(x.id), find(y.id)), numbers, *bounds), sizes)


def softmax(material: Material, op: Op, find: Find) -> Kernel:
    """SOFTMAX. Raises `InputError`: the plan has a tensor channel by channel."""
    x, y = material.data(op), material.result(op)
    source, target = find(x.id), find(y.id)
    fit(x.shape == y.shape)
    if source.position[2] or target.position[2]:
        raise InputError("the plan splits its channels; C needs all channels of a pixel")
    return Kernel(
        "real_softmax",
        initialiser((source, target), (sizes_of(x)[2],), real(float(op.attributes["beta"]))),
        sizes_of(y),
    )


def reduced(material: Material, op: Op, find: Find) -> Kernel:
    """MEAN, SUM, REDUCE_MAX, REDUCE_MIN and REDUCE_PROD along any dimensions. Raises `InputError`: its dimensions are
    no constants, or it has other types or scales."""
    x, y = material.data(op), material.result(op)
    shape, rank = x.shape or (), len(x.shape or ())
    axes = {d % rank for d in material.weights.numbers(material.given(op, 1).id)}
    kept = [d for d in range(rank) if d not in axes]
    there = kept if len(y.shape or ()) != rank else None
    follows = [-1, -1, -1]
    for place, d in enumerate(kept):
        own, theirs = dims_of(shape), dims_of(y.shape or ())
        target = d if there is None else place
        fit((y.shape or ())[target] == shape[d])
        if d in own and target in theirs:
            follows[own[d]] = theirs[target]
        else:
            fit(shape[d] == 1)
    name, fields, words = f"reduce_{op.type.lower()}_{x.dtype}", "", []
    if x.dtype == y.dtype == "float32":
        initial, step, result = _REDUCTIONS[op.type]
        if op.type == "MEAN":
            fields, words = "    float count;\n", [f"{prod(shape[d] for d in axes)}.0f"]
    elif x.dtype == y.dtype == "int8" and op.type in _EXTREMES:
        fit(x.quant is not None and y.quant is not None)
        fit((scale_of(x), zero_of(x)) == (scale_of(y), zero_of(y)))
        (initial, step), result = _EXTREMES[op.type], "total"
    else:
        raise InputError(f"it is from {x.dtype} to {y.dtype}; C is not written for that")
    form = FORMATS[x.dtype or ""]
    values = {
        "NAME": name, "WHAT": f"{op.type} of {x.dtype}", "ELEMENT": form.c_type, "LOAD": form.load,
        "STORE": form.store, "INITIAL": initial, "STEP": step, "RESULT": result, "FIELDS": fields,
    }  # fmt: skip
    parts: tuple[Part, ...] = (("reduce", tuple(values.items())),)
    reduces = tuple(which for which, size in enumerate(sizes_of(x)) if follows[which] < 0 and size > 1)
    lists = [f"{{{', '.join(map(str, numbers))}}}" for numbers in (sizes_of(x), follows)]
    text = f"{{{', '.join([find(x.id).text, find(y.id).text, *lists, *words])}}}"
    return Kernel(name, text, sizes_of(y), parts=parts, reduces=reduces)


def in_parts(kernel: Kernel, sizes: Three, along: Sequence[int]) -> Kernel:
    """A product or a reduction whose operand comes part by part along these of rows, columns and channels: it is added
    up in the result, in the same order as at once. Raises `InputError`: the order would be another one."""
    if kernel.name == "real_conv" and kernel.sizes_in == sizes and list(along) == [_CHANNELS]:
        return replace(kernel, name="real_conv_parts", sizes=sizes)
    if kernel.reduces and tuple(along) == kernel.reduces[: len(along)]:
        _, words = next(part for part in kernel.parts if not isinstance(part, str))
        name = f"{kernel.name}_parts"
        part: Part = ("reduce_parts", tuple((dict(words) | {"NAME": name}).items()))
        return replace(kernel, name=name, sizes=sizes, parts=(part,))
    raise InputError("the plan adds it up in another order than TFLM, and C is not written for that")
