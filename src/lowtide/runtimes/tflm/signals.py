"""What TFLM's signal kernels keep: custom operators of its audio front end, their options in a flexbuffer.

Read in `signal/micro/kernels/*.cc` and `signal/src`, kissfft's `kiss_fft.c` and `tools/kiss_fftr.c` (version 130), at
tflite-micro commit 90b983c. Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from lowtide.read.tflite.model import Subgraph, TfliteOp
from lowtide.rules.tflm.flexbuffer import custom_numbers
from lowtide.runtimes.tflm.builds import Build

SIGNALS: Mapping[str, str] = {
    "SignalDelay": "3i2p", "SignalEnergy": "2i", "SignalFftAutoScale": "", "SignalFilterBank": "(i5p2i)p",
    "SignalFilterBankLog": "2i", "SignalFilterBankSquareRoot": "", "SignalFilterBankSpectralSubtraction": "(8ib)2p",
    "SignalFramer": "4ib2p", "SignalIrfft": "4iep", "SignalOverlapAdd": "4iep", "SignalPCAN": "i",
    "SignalRfft": "4iepip", "SignalStacker": "4i2pb2p", "SignalWindow": "2i",
}  # fmt: skip
"""Layout of what each asks for when it is made; nothing if empty."""

_CIRCULAR_BUFFER = "3p2ip"
_WIDTH = {"int16": 2, "int32": 4, "float32": 4}


def signal_data(op: TfliteOp, subgraph: Subgraph, build: Build) -> Iterator[int]:
    """Bytes of each block that a signal kernel asks for when it is made."""
    name = op.type.removeprefix("CUSTOM:")
    layout = SIGNALS.get(name, "")
    if layout:
        yield build.size(layout)[0]
    o = custom_numbers(op.options)
    if name in ("SignalRfft", "SignalIrfft"):
        dtype = subgraph.tensors[op.inputs[0]].dtype if op.inputs else ""
        yield fourier_state(o.get("fft_length", 0), _WIDTH.get(dtype, 0), build)
    elif name == "SignalFilterBank":
        yield 8 * (o.get("num_channels", 0) + 1)
    elif name == "SignalFilterBankSpectralSubtraction":
        yield 4 * o.get("num_channels", 0)
    elif name == "SignalStacker":
        rows = o.get("stacker_left_context", 0) + o.get("stacker_right_context", 0) + 1
        yield _circular(o.get("num_channels", 0) * rows, build)


def signal_prepared(op: TfliteOp, subgraph: Subgraph, build: Build) -> Iterator[int]:
    """Bytes of each block that a signal kernel asks for when it is prepared."""
    name = op.type.removeprefix("CUSTOM:")
    shape = subgraph.tensors[op.inputs[0]].shape
    pointer = build.abi.pointer
    if not shape or 0 in shape:
        return
    o = custom_numbers(op.options)
    if name in ("SignalDelay", "SignalFramer"):
        outer, step, frame = prod(shape[:-1]), o.get("frame_step", 1), o.get("frame_size", 0)
        room = shape[-1] + o.get("delay_length", 0) if name == "SignalDelay" else -(-frame // max(step, 1)) * step
        yield from (outer * pointer, outer * pointer)
        yield from [_circular(room, build)] * outer
    elif name == "SignalOverlapAdd" and len(shape) > 1:
        outer = prod(shape[:-2])
        yield outer * pointer
        yield from [shape[-1] * _WIDTH.get(subgraph.tensors[op.inputs[0]].dtype, 0)] * outer


def fourier_state(length: int, width: int, build: Build) -> int:
    """State of kissfft for a real transform of `length` values of `width` bytes each."""
    half = length // 2
    plan = build.size("2i64i")[0] + 2 * width + 2 * width * (half - 1)
    return build.size("3p")[0] + plan + 2 * width * (half * 3 // 2)


def _circular(capacity: int, build: Build) -> int:
    return build.size(_CIRCULAR_BUFFER)[0] + 4 * capacity
