"""Recurrent layers: what they are as material of C.

Source: TFLM's `unidirectional_sequence_lstm.cc`, `lstm_eval.cc` and `lstm_eval_common.cc`, and TFLite's
`integer_ops/logistic.h` and `tanh.h`. Products go to 16 bits with 12 right of the point, gates come out with 15; the
logistic function and tanh are lines between 256 values of the former.
"""

from __future__ import annotations

import math

import numpy as np

from lowtide.emit import arithmetic
from lowtide.emit.formats import real
from lowtide.emit.kernel import Find, Kernel, Material, fit, scale_of, zero_of
from lowtide.emit.places import sizes_of
from lowtide.errors import InputError
from lowtide.graph import Op, Tensor

_GATE_SCALE, _UNIT_SCALE = 2.0**-12, 2.0**-15
"""Scales of what goes into a gate's curve, and of what comes out."""
_HIDDEN, _CELL, _INPUTS = 18, 19, 24
"""Places of what is kept, and operands in all."""
_GATES = {"forget": (2, 6, 13), "input": (1, 5, 12), "cell": (3, 7, 14), "output": (4, 8, 15)}
"""Places of a gate's weights, of those of the last results, and of its bias."""
_TANH = 4
_DIMENSIONS = 3
_CURVE = 256
_ONE_MORE = frozenset((
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49,
    50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
))  # fmt: skip
"""Where TFLite's table is one above the rounded function; everywhere else it is that."""


def logistic_curve() -> list[int]:
    """The logistic function of 0, 1/24, 2/24 ..., 16 bits right of the point, as TFLite's table has it.

    >>> logistic_curve()[:3], logistic_curve()[-1]
    ([32768, 33451, 34133], 65535)
    """
    return [math.floor(65536 / (1 + math.exp(-i / 24)) + 0.5) + (i in _ONE_MORE) for i in range(_CURVE)]


def lstm(material: Material, op: Op, find: Find) -> Kernel:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of 8 bits with cells of 16. Raises `InputError`: it is of a kind or of types that
    TFLM does not take, or no code is written for."""
    x, y = material.data(op), material.result(op)
    given = [None if t is None else material.graph.tensor_by_id[t] for t in (op.operands or op.inputs)]
    fit(len(given) == _INPUTS)
    _check_kind(op, given)
    hidden, cells = given[_HIDDEN], given[_CELL]
    if hidden is None or cells is None or (hidden.dtype, cells.dtype) != ("int8", "int16"):
        raise InputError("it does not keep results of 8 bits and cells of 16; C is written for these")
    _check_quants(hidden, cells)
    steps, inputs, units = _sizes(op, x, y, hidden)
    fit(prod_of(cells) == units)
    source, target = find(x.id), find(y.id)
    if not (source.channels_last and target.channels_last):
        raise InputError("the plan splits its channels; C needs all channels of a row")
    begin = material.keep(op, 3 * units)
    made = [_gate(material, given, places, x, hidden, inputs, units) for places in _GATES.values()]
    gates = f"{{{', '.join(text for text, _ in made)}}}"
    cell, power = scale_of(cells), round(math.log2(scale_of(cells)))
    factors = (
        arithmetic.product(_UNIT_SCALE, cell, cell), arithmetic.product(_UNIT_SCALE, _UNIT_SCALE, cell),
        arithmetic.product(_UNIT_SCALE, _UNIT_SCALE, scale_of(hidden)),
    )  # fmt: skip
    small = all(fits for _, fits in made) and all(-32 < shift < 0 for _, shift in factors)
    numbers = (inputs, units, zero_of(hidden), int(small), *(n for factor in factors for n in factor))
    words = (*numbers, *_tanh(power), *_clip(op, cell), begin)
    curve = material.weights.array("curve", "uint16", logistic_curve())
    text = f"{{{', '.join([source.text, target.text, gates, *map(str, words), curve])}}}"
    return Kernel("lstm", text, sizes_of(y), 4 * steps * units * (inputs + units))


def real_lstm(material: Material, op: Op, find: Find) -> Kernel:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of numbers with a point. Raises as `lstm`."""
    x, y = material.data(op), material.result(op)
    given = [None if t is None else material.graph.tensor_by_id[t] for t in (op.operands or op.inputs)]
    fit(len(given) == _INPUTS)
    _check_kind(op, given)
    hidden = given[_HIDDEN]
    fit(hidden is not None)
    assert hidden is not None, op
    steps, inputs, units = _sizes(op, x, y, hidden)
    source, target = find(x.id), find(y.id)
    if source.position[2] or target.position[2]:
        raise InputError("the plan splits its channels; C needs all channels of a row")
    gates = []
    for places in _GATES.values():
        names = []
        for place, shape in zip(places, ((units, inputs), (units, units), (units,)), strict=True):
            w = given[place]
            fit(w is not None and w.dtype == "float32" and w.shape == shape)
            assert w is not None, op
            names.append(material.weights.array("weights", "float32", material.weights.numbers(w.id)))
        gates.append(f"{{{', '.join(names)}}}")
    words = (inputs, units, real(float(op.attributes.get("cell_clip") or 0.0)), material.keep(op, 12 * units))
    text = f"{{{', '.join([source.text, target.text, *gates, *map(str, words)])}}}"
    return Kernel("real_lstm", text, sizes_of(y), 4 * steps * units * (inputs + units))


def _check_kind(op: Op, given: list[Tensor | None]) -> None:
    """Raise `InputError` for an LSTM that TFLM refuses, or whose cells have another activation."""
    if any(given[i] is not None for i in (9, 10, 11, 16, 17, 20, 21, 22, 23)):
        raise InputError("it has peepholes, a projection or norms, which TFLM refuses")
    if op.attributes.get("fused_activation_function", _TANH) != _TANH:
        raise InputError("its cells have another activation than tanh")


def prod_of(tensor: Tensor) -> int:
    """Elements of a tensor."""
    return math.prod(tensor.shape or ())


def _check_quants(*tensors: Tensor) -> None:
    for t in tensors:
        if t.quant is None or len(t.quant.scales) != 1:
            raise InputError(f"{t.label} has not one scale")
    if zero_of(tensors[1]) != 0:
        raise InputError("its cells are not around 0")


def _sizes(op: Op, x: Tensor, y: Tensor, hidden: Tensor) -> tuple[int, int, int]:
    """Steps, inputs and units of one sequence."""
    units = (hidden.shape or (0,))[-1]
    fit(len(x.shape or ()) == len(y.shape or ()) == _DIMENSIONS)
    first, second, inputs = x.shape or (0, 0, 0)
    fit(y.shape == (first, second, units))
    batch, steps = (second, first) if op.attributes.get("time_major") else (first, second)
    if batch != 1 or prod_of(hidden) != units:
        raise InputError("it takes several sequences at a time; C is written for one")
    return steps, inputs, units


def _gate(
    material: Material,
    given: list[Tensor | None],
    places: tuple[int, int, int],
    x: Tensor,
    hidden: Tensor,
    inputs: int,
    units: int,
) -> tuple[str, bool]:
    """`gate_t`, and whether its sums are below 2^30 and shifted to the right."""
    bias = given[places[2]]
    if bias is None or bias.dtype != "int32" or bias.shape != (units,):
        raise InputError("its bias is not one number of type int32 for each unit")
    arrays, biases, factors, small = [], [], [], True
    for place, source, depth in ((places[0], x, inputs), (places[1], hidden, units)):
        w = given[place]
        if w is None or w.dtype != "int8" or w.quant is None or len(w.quant.scales) != 1 or zero_of(w) != 0:
            raise InputError("its weights are not int8 around 0 with one scale, for all four gates")
        fit(w.shape == (units, depth))
        numbers = material.weights.numbers(w.id)
        arrays.append(material.weights.array("weights", "int8", numbers))
        by_unit = np.array(numbers).reshape(units, depth)
        folded = np.array(0 if biases else material.weights.numbers(bias.id)) - zero_of(source) * by_unit.sum(1)
        biases.append(material.weights.array("bias", "int32", folded.astype(np.int32).tolist()))
        factors += arithmetic.convolution(scale_of(source), scale_of(w), _GATE_SCALE)
        small &= bool((np.abs(folded) + 128 * np.abs(by_unit).sum(1)).max() < 1 << 30) and -32 < factors[-1] < 0
    return f"{{{', '.join([*arrays, *biases, *map(str, factors)])}}}", small


def _tanh(power: int) -> tuple[int, int]:
    """Factor and shift to the right that take cells with a scale of 2^power to where the curve counts from."""
    left = 12 + power
    if not -30 <= left <= 14:
        raise InputError(f"its cells have a scale of about 2^{power}; C is written for 2^-42 to 2^2")
    return (3 << left, 0) if left >= 0 else (3, -left)


def _clip(op: Op, cell: float) -> tuple[int, int]:
    """Least and most that a cell holds."""
    clip = float(op.attributes.get("cell_clip") or 0.0)
    most = int(min(max(clip / cell, -32768.0), 32767.0))
    return (-most, most) if clip > 0 else (-32768, 32767)
