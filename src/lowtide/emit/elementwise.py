"""Operators that work element by element, on one tensor or on two: what they are as material of C.

All of them are variants of two C templates, `map.c` and `pair.c`: a table gives what is computed. Of 8 bits, an
operator on one tensor is a table of 256 results that is made here.

Source: TFLM's `logistic.cc`, `tanh.cc`, `leaky_relu.cc`, `hard_swish.cc`, `elementwise.cc`, `quantize.cc`,
`dequantize.cc`, `add.cc`, `sub.cc`, `mul.cc`, `div.cc`, `maximum_minimum.cc`, `squared_difference.cc`,
`comparisons.cc`, `prelu.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lowtide.emit import arithmetic, fixed_point
from lowtide.emit.formats import FORMATS, real, real_bounds
from lowtide.emit.kernel import Find, Kernel, Material, Part, fit, scale_of, zero_of
from lowtide.emit.places import element_bytes, initialiser, sizes_of
from lowtide.emit.recurrent import logistic_curve
from lowtide.emit.views import broadcast
from lowtide.errors import InputError
from lowtide.graph import Kind, Op, Tensor

_ACTIVATION = "fused_activation_function"
_BOUNDED = "bounded({}, k->low, k->high)"
_BOUNDS = "    float low, high;\n"
REAL_MAPS: dict[str, str] = {
    "ABS": "fabsf(value)",
    "CEIL": "ceilf(value)",
    "COS": "cosf(value)",
    "ELU": "(value < 0.0f) ? expm1f(value) : value",
    "EXP": "expf(value)",
    "FLOOR": "floorf(value)",
    "HARD_SWISH": "(value * bounded(value + 3.0f, 0.0f, 6.0f)) / 6.0f",
    "LEAKY_RELU": "(value > 0.0f) ? value : (value * k->alpha)",
    "LOG": "logf(value)",
    "LOGISTIC": "logistic_real(value)",
    "NEG": "-value",
    "RELU": "(value < 0.0f) ? 0.0f : value",
    "RELU6": "bounded(value, 0.0f, 6.0f)",
    "RELU_N1_TO_1": "bounded(value, -1.0f, 1.0f)",
    "RSQRT": "1.0f / sqrtf(value)",
    "SIN": "sinf(value)",
    "SQRT": "sqrtf(value)",
    "SQUARE": "value * value",
    "TANH": "tanhf(value)",
}
"""What an operator makes of a number with a point."""
REAL_PAIRS: dict[str, str] = {
    "ADD": _BOUNDED.format("one + other"),
    "DIV": _BOUNDED.format("one / other"),
    "MAXIMUM": "(one > other) ? one : other",
    "MINIMUM": "(one < other) ? one : other",
    "MUL": _BOUNDED.format("one * other"),
    "POW": "powf(one, other)",
    "PRELU": "(one >= 0.0f) ? one : (one * other)",
    "SQUARED_DIFFERENCE": "(one - other) * (one - other)",
    "SUB": _BOUNDED.format("one - other"),
}
"""Of two."""
COMPARISONS: dict[str, str] = {
    "EQUAL": "one == other",
    "GREATER": "one > other",
    "GREATER_EQUAL": "one >= other",
    "LESS": "one < other",
    "LESS_EQUAL": "one <= other",
    "NOT_EQUAL": "one != other",
}
_INTEGER_PAIRS: dict[str, str] = {
    "ADD": "(uint32_t)one + (uint32_t)other",
    "DIV": "(uint32_t)((int64_t)one / (int64_t)other)",
    "MAXIMUM": "(uint32_t)most(one, other)",
    "MINIMUM": "(uint32_t)least(one, other)",
    "MUL": "(uint32_t)one * (uint32_t)other",
    "SUB": "(uint32_t)one - (uint32_t)other",
}
"""Of two numbers of 32 bits without a scale."""
_TRUTHS = {"LOGICAL_AND": "((one != 0) && (other != 0))", "LOGICAL_OR": "((one != 0) || (other != 0))"}
_SHIFTED = (
    "most(k->low, least(k->high, scaled(scaled((one - k->first_zero) * k->factor, k->first_multiplier, k->first_shift)"
    " {} scaled((other - k->second_zero) * k->factor, k->second_multiplier, k->second_shift),"
    " k->out_multiplier, k->out_shift) + k->out_zero))"
)
_SHIFTED_FIELDS = (
    "    int32_t factor;\n"
    "    int32_t first_zero, first_multiplier, first_shift;\n"
    "    int32_t second_zero, second_multiplier, second_shift;\n"
    "    int32_t out_zero, out_multiplier, out_shift, low, high;\n"
)
_PRODUCT = (
    "most(k->low, least(k->high, scaled((one - k->first_zero) * (other - k->second_zero), k->multiplier, k->shift)"
    " + k->out_zero))"
)
_PRODUCT_FIELDS = "    int32_t first_zero, second_zero, out_zero, multiplier, shift, low, high;\n"
_PRELU = (
    "clamped(((one >= k->first_zero) ? scaled(one - k->first_zero, k->same_multiplier, k->same_shift)"
    " : scaled((one - k->first_zero) * (other - k->second_zero), k->multiplier, k->shift)) + k->out_zero,"
    " INT8_MIN, INT8_MAX)"
)
_LEAKY = (
    "most(INT16_MIN, least(INT16_MAX, k->out_zero + ((value >= k->in_zero)"
    " ? scaled(value - k->in_zero, k->same_multiplier, k->same_shift)"
    " : scaled(value - k->in_zero, k->multiplier, k->shift))))"
)
_CURVE = "    int32_t multiplier, shift;\n    const uint16_t *curve;\n"
_SCALED = ("fixed", "scaled")


def _variant(
    template: str,
    name: str,
    what: str,
    given: str,
    dtype: str,
    result: str,
    fields: str = "",
    needs: Sequence[str] = (),
) -> tuple[Part, ...]:
    """Templates of a variant of `map.c` or `pair.c`: from elements of type `given` to some of type `dtype`."""
    takes, makes = FORMATS[given], FORMATS[dtype]
    words = {
        "NAME": name, "WHAT": what, "ELEMENT": takes.c_type, "LOAD": takes.load, "STORE": makes.store,
        "RESULT": result, "FIELDS": fields,
    }  # fmt: skip
    helpers = [key for key, called in (("clamp", "bounded("), ("real_logistic", "logistic_real(")) if called in result]
    return (*needs, *helpers, *(["operand"] if template == "pair" else []), (template, tuple(words.items())))


def mapped(material: Material, op: Op, find: Find) -> Kernel:
    """An operator on one tensor of numbers with a point, or of 8 or 16 bits. Raises `InputError`: it has other types,
    or scales that TFLM refuses."""
    x, y = material.data(op), material.result(op)
    fit(x.shape == y.shape)
    if (x.dtype, y.dtype) == ("float32", "float32"):
        return _real_map(op, x, y, find)
    if (x.dtype, y.dtype) == ("int8", "int8"):
        return looked_up(material, x, y, find, fixed_point.table_of(op.type, x, y, op.attributes))
    if (x.dtype, y.dtype) == ("int16", "int16") and op.type in ("LEAKY_RELU", "LOGISTIC", "TANH"):
        return _wide_map(material, op, x, y, find)
    if (x.dtype, y.dtype) == ("bool", "bool") and op.type == "LOGICAL_NOT":
        parts = _variant("map", "truth_not", "What does not hold", "bool", "bool", "(value == 0) ? 1 : 0")
        return Kernel("truth_not", initialiser((find(x.id), find(y.id)), ()), sizes_of(y), parts=parts)
    raise InputError(f"it is from {x.dtype} to {y.dtype}; C is not written for that")


def _real_map(op: Op, x: Tensor, y: Tensor, find: Find) -> Kernel:
    name, names, fields = f"real_{op.type.lower()}", [], ""
    if op.type not in REAL_MAPS:
        raise InputError("C is not written for this operator on float32")
    if op.type == "LEAKY_RELU":
        names, fields = [real(float(op.attributes["alpha"]))], "    float alpha;\n"
    parts = _variant(
        "map", name, f"{op.type} of numbers with a point", "float32", "float32", REAL_MAPS[op.type], fields
    )
    return Kernel(name, initialiser((find(x.id), find(y.id)), (), *names), sizes_of(y), parts=parts)


def looked_up(material: Material, x: Tensor, y: Tensor, find: Find, of: Callable[[int], int]) -> Kernel:
    """An operator of 8 bits as a table of what becomes of each byte."""
    values = [of(byte - 256 if x.dtype == "int8" and byte > 127 else byte) for byte in range(256)]
    array = material.weights.array("table", "int8", [(value + 128) % 256 - 128 for value in values])
    return Kernel("lookup", initialiser((find(x.id), find(y.id)), (), array), sizes_of(y))


def _wide_map(material: Material, op: Op, x: Tensor, y: Tensor, find: Find) -> Kernel:
    """LEAKY_RELU, LOGISTIC and TANH of 16 bits."""
    views, name = (find(x.id), find(y.id)), f"wide_{op.type.lower()}"
    what = f"{op.type} of 16 bits"
    if op.type == "LEAKY_RELU":
        same, steep = arithmetic.leaky(scale_of(x), scale_of(y), float(op.attributes["alpha"]))
        if steep[0] < 0:
            raise InputError("its slope is negative; C is written for positive ones")
        fields = "    int32_t in_zero, out_zero, same_multiplier, same_shift, multiplier, shift;\n"
        parts = _variant("map", name, what, "int16", "int16", _LEAKY, fields, _SCALED)
        return Kernel(name, initialiser(views, (zero_of(x), zero_of(y), *same, *steep)), sizes_of(y), parts=parts)
    if zero_of(x) or zero_of(y) or scale_of(y) != 2.0**-15:
        raise InputError("its numbers are not around 0, or its result has not the scale 1/32768, which TFLM asks for")
    curve = material.weights.array("curve", "uint16", logistic_curve())
    factor = fixed_point.curve_factor(op.type, scale_of(x))
    call = "logistic_of" if op.type == "LOGISTIC" else "tanh_of"
    parts = _variant(
        "map", name, what, "int16", "int16", f"{call}(k->curve, value, k->multiplier, k->shift)", _CURVE,
        ("on_curve", call),
    )  # fmt: skip
    return Kernel(name, initialiser(views, factor, curve), sizes_of(y), parts=parts)


def quantized(material: Material, op: Op, find: Find) -> Kernel:
    """QUANTIZE and DEQUANTIZE between numbers with a point and integers, and CAST to and from the former. Raises
    `InputError`: it has other types, or several scales."""
    x, y = material.data(op), material.result(op)
    fit(x.shape == y.shape)
    views, sizes = (find(x.id), find(y.id)), sizes_of(y)
    given, made = x.dtype or "", y.dtype or ""
    if op.type == "CAST" and made == "float32" and given in FORMATS:
        result = "(float)((value != 0) ? 1 : 0)" if given == "bool" else "(float)value"
        parts = _variant("map", f"real_of_{given}", f"{given} as numbers with a point", given, made, result)
        return Kernel(f"real_of_{given}", initialiser(views, ()), sizes, parts=parts)
    if op.type == "CAST":
        raise InputError(f"it is from {given} to {made}; C is not written for that")
    for t in (x, y):
        if t.quant is not None and len(t.quant.scales) > 1:
            raise InputError(f"{t.label} has several scales; C is written for one")
    if op.type == "DEQUANTIZE" and made == "float32" and given in ("int8", "int16", "int32"):
        result, name = "(float)(k->scale * (double)(value - k->zero))", f"real_from_{given}"
        fields = "    double scale;\n    int32_t zero;\n"
        parts = _variant("map", name, f"{given} as numbers with a point", given, made, result, fields)
        text = initialiser(views, (), real(scale_of(x)).removesuffix("f"), str(zero_of(x)))
        return Kernel(name, text, sizes, parts=parts)
    if op.type == "QUANTIZE" and given == "float32" and made in ("int8", "int16"):
        name, makes = f"real_to_{made}", FORMATS[made]
        fields = "    float scale;\n    int32_t zero;\n"
        result = f"most({makes.least}, least({makes.most}, (int32_t)roundf(value / k->scale) + k->zero))"
        parts = _variant("map", name, f"Numbers with a point as {made}", given, made, result, fields)
        text = initialiser(views, (), real(scale_of(y)), str(zero_of(y)))
        return Kernel(name, text, sizes, parts=parts)
    raise InputError(f"it is from {given} to {made}; C is not written for that")


def paired(material: Material, op: Op, find: Find) -> Kernel:
    """An operator on two tensors, one of which may be a constant or repeated along dimensions of the other. Raises
    `InputError`: it has other types, scales that TFLM refuses, or divides by 0."""
    a, b, y = material.given(op, 0), material.given(op, 1), material.result(op)
    if a.kind is b.kind is Kind.CONSTANT:
        raise InputError("both of its inputs are constants; C is written for one at most")
    given, made = a.dtype or "", y.dtype or ""
    fit(a.dtype == b.dtype)
    operands = [broadcast(material, t, y, find) for t in (a, b)]
    out = find(y.id).text

    def kernel(
        name: str, what: str, result: str, words: Sequence[object] = (), fields: str = "", needs: Sequence[str] = ()
    ) -> Kernel:
        text = f"{{{', '.join([*operands, out, *map(str, words)])}}}"
        parts = _variant("pair", name, what, given, made, result, fields, needs)
        return Kernel(name, text, sizes_of(y), parts=parts)

    lower, unscaled = op.type.lower(), all(t.quant is None for t in (a, b, y))
    if op.type in COMPARISONS and made == "bool" and (given in ("float32", "int32") or (given == "int8" and unscaled)):
        return kernel(f"{lower}_{given}", f"{op.type} of {given}", f"({COMPARISONS[op.type]}) ? 1 : 0")
    if op.type in _TRUTHS and given == made == "bool":
        return kernel(lower, op.type, f"{_TRUTHS[op.type]} ? 1 : 0")
    if given == made == "float32" and op.type in REAL_PAIRS:
        result, words, fields = REAL_PAIRS[op.type], (), ""
        if "k->low" in result:
            words, fields = real_bounds(op.attributes.get(_ACTIVATION, 0)), _BOUNDS
        return kernel(f"real_{lower}", f"{op.type} of numbers with a point", result, words, fields)
    if given == made == "int32" and unscaled and op.type in _INTEGER_PAIRS:
        _check_integers(material, op, b)
        return kernel(f"integer_{lower}", f"{op.type} of whole numbers of 32 bits", _INTEGER_PAIRS[op.type])
    if given == made and made in ("int8", "int16") and all(_one_scale(t) for t in (a, b, y)):
        return kernel(*_scaled_pair(op, a, b, y))
    raise InputError(f"it is from {given} to {made}; C is not written for that")


def _one_scale(tensor: Tensor) -> bool:
    return tensor.quant is not None and len(tensor.quant.scales) == 1


def _check_integers(material: Material, op: Op, divisor: Tensor) -> None:
    """Raise `InputError` for an activation, or a division by something other than constants that are not 0."""
    if op.attributes.get(_ACTIVATION, 0):
        raise InputError("it has an activation; C is written for none")
    if op.type == "DIV" and (divisor.kind is not Kind.CONSTANT or 0 in material.weights.numbers(divisor.id)):
        raise InputError("it is not divided by a constant other than 0; C is written for that")


def _scaled_pair(op: Op, a: Tensor, b: Tensor, y: Tensor) -> tuple[str, str, str, Sequence[object], str, Sequence[str]]:
    """Name, words, result, numbers, fields and further templates of a pair of 8 or 16 bits."""
    name, what = f"{op.type.lower()}_{y.dtype}", f"{op.type} of {y.dtype}"
    kind = op.attributes.get(_ACTIVATION, 0)
    fit(kind in (0, 1, 2, 3))
    bounds = arithmetic.activation(kind, scale_of(y), zero_of(y), y.dtype or "")
    zeros = (zero_of(a), zero_of(b), zero_of(y))
    if op.type in ("MAXIMUM", "MINIMUM"):
        if len({(scale_of(t), zero_of(t)) for t in (a, b, y)}) > 1:
            raise InputError("its operands and its result have different scales, which TFLM takes no notice of")
        return name, what, f"{'most' if op.type == 'MAXIMUM' else 'least'}(one, other)", (), "", ()
    if op.type in ("ADD", "SUB"):
        shift = arithmetic.ADD_SHIFT if y.dtype == "int8" else arithmetic.WIDE_ADD_SHIFT
        one, other, out = arithmetic.addition(scale_of(a), scale_of(b), scale_of(y), shift)
        numbers = (1 << shift, zeros[0], *one, zeros[1], *other, zeros[2], *out, *bounds)
        sign = "+" if op.type == "ADD" else "-"
        return name, what, _SHIFTED.format(sign), numbers, _SHIFTED_FIELDS, _SCALED
    if y.dtype == "int16" and any(zeros):
        raise InputError("its numbers of 16 bits are not around 0, which TFLM asks for")
    factor = arithmetic.product(scale_of(a), scale_of(b), scale_of(y))
    if op.type == "MUL":
        return name, what, _PRODUCT, (*zeros, *factor, *bounds), _PRODUCT_FIELDS, _SCALED
    if op.type == "PRELU" and y.dtype == "int8":
        same = arithmetic.rescaled(scale_of(a), scale_of(y))
        fields = "    int32_t first_zero, second_zero, out_zero, same_multiplier, same_shift, multiplier, shift;\n"
        return name, what, _PRELU, (*zeros, *same, *factor), fields, _SCALED
    raise InputError(f"C is not written for this operator on {y.dtype}")


def selected(material: Material, op: Op, find: Find) -> Kernel:
    """SELECT and SELECT_V2. Raises `InputError`: its operands have other types or scales than its result."""
    condition, a, b = (material.given(op, i) for i in range(3))
    y = material.result(op)
    if condition.dtype != "bool" or {a.dtype, b.dtype} != {y.dtype}:
        raise InputError(f"it is of {condition.dtype}, {a.dtype} and {b.dtype}; C is not written for that")
    quants: Mapping[object, None] = dict.fromkeys(
        (tuple(t.quant.scales), tuple(t.quant.zero_points)) if t.quant else None for t in (a, b, y)
    )
    if len(quants) > 1:
        raise InputError("its operands and its result have different scales, which TFLM takes no notice of")
    operands = [broadcast(material, t, y, find) for t in (condition, a, b)]
    text = f"{{{', '.join([*operands, find(y.id).text, str(element_bytes(y))])}}}"
    return Kernel("select_operand", text, sizes_of(y))
