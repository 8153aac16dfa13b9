"""The operators of TFLM's audio front end: what they are as material of C.

Source: tflite-micro's `signal/micro/kernels` and `signal/src`, and kissfft's `kiss_fft.c` and `tools/kiss_fftr.c` in 16
bits. The spectrum is made in the result's own bytes, and the filter bank straight into it; TFLM takes memory aside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lowtide.emit.kernel import Find, Kernel, Material, fit
from lowtide.emit.places import sizes_of
from lowtide.errors import InputError
from lowtide.graph import Op, Tensor
from lowtide.rules.tflm.flexbuffer import custom_numbers

_MOST_SAMPLES = 1 << 14
_GAINS = 4 * 32 - 6 + 3
"""Numbers of a gain's curve: three for each power of two, the first of each four apart."""
_LOG_PARTS = 128


def log_curve() -> list[int]:
    """log2(1 + x) - x of x = 0, 1/128, 2/128 ..., 16 bits right of the point, and a zero after it.

    >>> log_curve()[:3], log_curve()[-3:]
    ([0, 224, 442], [142, 0, 0])
    """
    xs = [i / _LOG_PARTS for i in range(_LOG_PARTS + 1)]
    return [*(math.floor(65536 * (math.log2(1 + x) - x) + 0.5) for x in xs), 0]


def turns(half: int) -> tuple[list[int], list[int]]:
    """Cosines and sines of a transform of `half` complex numbers, 15 bits right of the point: of its steps, as far as
    they go, and of the last one, which makes the spectrum of twice as many real numbers of it.

    >>> turns(4)
    ([32767, 0, 0, -32767, -32767, 0], [-23170, -23170, -32767, 0])
    """

    def at(phase: float) -> list[int]:
        return [math.floor(0.5 + 32767 * math.cos(phase)), math.floor(0.5 + 32767 * math.sin(phase))]

    most = max(1, 3 * half // 4)
    steps = [n for i in range(most) for n in at(-2 * math.pi * i / half)]
    return steps, [n for i in range(half // 2) for n in at(-math.pi * ((i + 1) / half + 0.5))]


def signal(material: Material, op: Op, find: Find) -> Kernel:
    """A signal operator, which runs outside of loops. Raises `InputError`: its types, shapes or options are others than
    TFLM takes, or the plan has a tensor of it in parts."""
    given = [material.given(op, i) for i in range(len(op.operands or op.inputs))]
    results = [material.graph.tensor_by_id[t] for t in op.outputs]
    types, make = _TABLE[op.type]
    takes, makes = (side.split() for side in types.split("->"))
    if [t.dtype for t in given] != takes or [t.dtype for t in results] != makes:
        raise InputError(f"it is of {', '.join(str(t.dtype) for t in (*given, *results))}; C is written for {types}")
    options = custom_numbers(op.attributes)
    try:
        return make(_Signal(material, op, find, given, results, options))
    except KeyError as error:
        raise InputError(f"it lacks the option {error}") from None


class _Signal:
    """An op with its tensors and options."""

    def __init__(
        self, material: Material, op: Op, find: Find, given: Sequence[Tensor], results: Sequence[Tensor],
        options: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.material, self.op, self.find = material, op, find
        self.given, self.results, self.options = given, results, options

    def at(self, tensor: Tensor) -> int:
        """Where a tensor begins."""
        view = self.find(tensor.id)
        if view.slots:
            raise InputError(f"the plan has {tensor.label} in parts; C is written for whole ones")
        return view.base

    def places(self) -> list[int]:
        """Where operands that are no constants begin, then results."""
        data = [t for t in self.given if t.kind.value != "constant"]
        return [self.at(t) for t in (*data, *self.results)]

    def constant(self, which: int) -> tuple[int, ...]:
        """What an operand holds that has to be a constant."""
        return self.material.weights.numbers(self.given[which].id)

    def array(self, what: str, kind: str, numbers: Sequence[int]) -> str:
        """Name of an array of the model."""
        return self.material.weights.array(what, kind, numbers)

    def between(self, name: str, low: int, high: int) -> int:
        """An option that has to lie between two numbers."""
        value = self.options[name]
        if not low <= value <= high:
            raise InputError(f"its option {name} is {value}; C is written for {low} to {high}")
        return value

    def kernel(self, name: str, *words: object) -> Kernel:
        """The kernel, of these parameters."""
        return Kernel(name, f"{{{', '.join(map(str, words))}}}", sizes_of(self.results[0]))


def _count(tensor: Tensor) -> int:
    return math.prod(tensor.shape or ())


def _window(s: _Signal) -> Kernel:
    weights, samples = s.constant(1), _count(s.given[0])
    fit(len(weights) > 0 and samples % len(weights) == 0 and _count(s.results[0]) == samples)
    shift, names = s.between("shift", 0, 31), s.array("weights", "int16", weights)
    return s.kernel("signal_window", *s.places(), samples, len(weights), shift, names)


def _scale(s: _Signal) -> Kernel:
    samples = _count(s.results[0])
    fit(len(s.results[0].shape or ()) == 1 and _count(s.given[0]) == samples and _count(s.results[1]) == 1)
    return s.kernel("signal_scale", *s.places(), samples)


def _rfft(s: _Signal) -> Kernel:
    length, samples = s.between("fft_length", 4, _MOST_SAMPLES), (s.given[0].shape or (0,))[-1]
    if length & (length - 1):
        raise InputError(f"its length is {length}; C is written for powers of two")
    fit(_count(s.given[0]) == samples <= length and _count(s.results[0]) == length + 2)
    steps, last = (s.array("turns", "int16", numbers) for numbers in turns(length // 2))
    return s.kernel("signal_rfft", *s.places(), samples, length // 2, f"{length.bit_length() - 2}U", steps, last)


def _energy(s: _Signal) -> Kernel:
    count = _count(s.results[0])
    begin, end = s.between("start_index", 0, count), s.between("end_index", 0, count)
    fit(_count(s.given[0]) >= 2 * end)
    return s.kernel("signal_energy", *s.places(), begin, end)


def _bank(s: _Signal) -> Kernel:
    channels = s.between("num_channels", 1, _count(s.results[0]))
    weights, left_over, starts, weight_starts, widths = (s.constant(i) for i in range(1, 6))
    fit(channels == _count(s.results[0]) and len(weights) == len(left_over))
    fit(len(starts) == len(weight_starts) == len(widths) == channels + 1)
    for start, first, width in zip(starts, weight_starts, widths, strict=True):
        inside = min(start, first) >= 0 and start + width <= _count(s.given[0]) and first + width <= len(weights)
        fit(width <= 0 or inside)
    tables = (weights, left_over, starts, weight_starts, widths)
    names = [s.array("weights", "int16", numbers) for numbers in tables]
    return s.kernel("signal_bank", *s.places(), channels, *names)


def _root(s: _Signal) -> Kernel:
    channels = _count(s.results[0])
    fit(_count(s.given[0]) == channels and _count(s.given[1]) == 1)
    return s.kernel("signal_root", *s.places(), channels)


def _noise(s: _Signal) -> Kernel:
    channels = s.between("num_channels", 1, _count(s.results[0]))
    fit(all(_count(t) == channels for t in (*s.given, *s.results)))
    begin = s.material.keep(s.op, 4 * channels)
    bits, smoothing = s.between("spectral_subtraction_bits", 0, 63), s.between("smoothing_bits", 0, 31)

    def unsigned(name: str) -> str:
        return f"{s.between(name, 0, (1 << 31) - 1)}U"

    follows = f"{{{unsigned('smoothing')}, {unsigned('alternate_smoothing')}}}"
    stays = f"{{{unsigned('one_minus_smoothing')}, {unsigned('alternate_one_minus_smoothing')}}}"
    clamps, least = int(bool(s.options["clamping"])), unsigned("min_signal_remaining")
    return s.kernel("signal_noise", *s.places(), channels, begin, bits, smoothing, clamps, follows, stays, least)


def _gain(s: _Signal) -> Kernel:
    channels, curve = _count(s.results[0]), s.constant(2)
    fit(_count(s.given[0]) == _count(s.given[1]) == channels and len(curve) >= _GAINS)
    shift, name = s.between("snr_shift", 0, 63), s.array("curve", "int16", curve)
    return s.kernel("signal_gain", *s.places(), channels, shift, name)


def _log(s: _Signal) -> Kernel:
    channels = _count(s.results[0])
    fit(_count(s.given[0]) == channels)
    shift, scale = s.between("input_correction_bits", 0, 31), s.between("output_scale", 0, (1 << 31) - 1)
    return s.kernel("signal_log", *s.places(), channels, shift, f"{scale}U", s.array("curve", "uint16", log_curve()))


_TABLE = {
    "CUSTOM:SignalWindow": ("int16 int16 -> int16", _window),
    "CUSTOM:SignalFftAutoScale": ("int16 -> int16 int32", _scale),
    "CUSTOM:SignalRfft": ("int16 -> int16", _rfft),
    "CUSTOM:SignalEnergy": ("int16 -> uint32", _energy),
    "CUSTOM:SignalFilterBank": ("uint32 int16 int16 int16 int16 int16 -> uint64", _bank),
    "CUSTOM:SignalFilterBankSquareRoot": ("uint64 int32 -> uint32", _root),
    "CUSTOM:SignalFilterBankSpectralSubtraction": ("uint32 -> uint32 uint32", _noise),
    "CUSTOM:SignalPCAN": ("uint32 uint32 int16 -> uint32", _gain),
    "CUSTOM:SignalFilterBankLog": ("uint32 -> int16", _log),
}
"""Types of operands and results, and who makes the kernel."""
SIGNALS = tuple(_TABLE)
"""Operators that there are material for."""
