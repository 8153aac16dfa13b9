"""What TFLM's kernels keep in the arena, operator by operator, and which tensors they look at while they are prepared.

`OPTIONS` are parsed out of the file; `DATA` a kernel asks for when it is made; the rest when it is prepared. Layouts
are those of `layout.py`. Read in tflite-micro at commit 90b983c: `tensorflow/compiler/mlir/lite/core/c/
builtin_op_data.h`, `tensorflow/lite/core/api/flatbuffer_conversions.cc`, `tensorflow/lite/micro/kernels/*.cc` and
`kernels/cmsis_nn/*.cc`, and held against traces of every allocation (`bench/tflm32`).

What TFLM's signal kernels keep: custom operators of its audio front end, their options in a flexbuffer.

Read in `signal/micro/kernels/*.cc` and `signal/src`, kissfft's `kiss_fft.c` and `tools/kiss_fftr.c` (version 130), at
tflite-micro commit 90b983c. Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from lowtide.read.tflite.model import Subgraph, TfliteOp, TfliteTensor
from lowtide.rules.tflm.cmsis_nn import row_sums
from lowtide.rules.tflm.flexbuffer import custom_numbers
from lowtide.runtimes.tflm.builds import Build

OPTIONS: Mapping[str, str] = {
    "ADD": "eb", "SUB": "eb", "MUL": "e", "DIV": "e", "CONV_2D": "e2ie2ie", "DEPTHWISE_CONV_2D": "e3ie2i",
    "FULLY_CONNECTED": "2e2be", "AVERAGE_POOL_2D": "e4ie(4i)", "MAX_POOL_2D": "e4ie(4i)", "L2_POOL_2D": "e4ie(4i)",
    "SOFTMAX": "i", "RESHAPE": "9i", "SQUEEZE": "9i", "MEAN": "b", "SUM": "b", "REDUCE_MAX": "b", "REDUCE_MIN": "b",
    "REDUCE_ALL": "b", "CONCATENATION": "ie", "SVDF": "ieb", "UNIDIRECTIONAL_SEQUENCE_LSTM": "e2i3b",
    "STRIDED_SLICE": "5ib", "TRANSPOSE_CONV": "e2i2e", "LEAKY_RELU": "i", "L2_NORMALIZATION": "e", "PACK": "2i",
    "UNPACK": "2i", "SPLIT": "i", "SPLIT_V": "i", "GATHER": "2i", "RESIZE_BILINEAR": "2b",
    "RESIZE_NEAREST_NEIGHBOR": "2b", "SPACE_TO_DEPTH": "i", "DEPTH_TO_SPACE": "i", "ARG_MAX": "e", "ARG_MIN": "e",
    "MIRROR_PAD": "e", "IF": "2i", "WHILE": "2i", "CALL_ONCE": "i", "BATCH_MATMUL": "3b", "CAST": "2e", "CUMSUM": "2b",
    "SHAPE": "e", "VAR_HANDLE": "2p",
}  # fmt: skip
"""Options that are parsed into the arena; other operators have none there."""

_PIP_ROWS = (32, 8)  # options of FULLY_CONNECTED in the pip package of 2026-10-23, seen from what it takes

_COMPARISON = "7ib"
_REDUCTION = "11i"
_CONV = "(4i)5i2p3i"
_ARITHMETIC = "(b14i2w2h5i)"
_GATE = "((9i3b)(9i3b))"
_LSTM = f"(b4i)(ihi)e4{_GATE}(3{_ARITHMETIC})4i"
_SOFTMAX = "(w7i5p)"

DATA: Mapping[str, str] = {
    "ADD": "b14i", "SUB": "b12i", "MUL": "9i", "DIV": "7i", "CONV_2D": _CONV, "DEPTHWISE_CONV_2D": _CONV,
    "FULLY_CONNECTED": "9i2pb", "AVERAGE_POOL_2D": "(4i)4i", "MAX_POOL_2D": "(4i)4i", "SOFTMAX": _SOFTMAX,
    "MEAN": _REDUCTION, "SUM": _REDUCTION, "REDUCE_MAX": _REDUCTION, "REDUCE_MIN": _REDUCTION,
    "REDUCE_ALL": _REDUCTION, "CONCATENATION": "(i2p3i)", "SVDF": "9i", "UNIDIRECTIONAL_SEQUENCE_LSTM": _LSTM,
    "STRIDED_SLICE": "b5ib5ib5i5hb", "LEAKY_RELU": "6i", "L2_NORMALIZATION": "i", "QUANTIZE": "(iw)3i",
    "DEQUANTIZE": "(wi)3i", "RELU": "b6i", "RELU6": "2i", "LOGISTIC": "4i", "TANH": "4i", "HARD_SWISH": "3hihi",
    "PRELU": "7i", "PAD": "(b5ib5ib)i", "PADV2": "(b5ib5ib)i", "ELU": "256b", "SQUARED_DIFFERENCE": f"b{_ARITHMETIC}",
    "ABS": "4ib2e", "RSQRT": "4ib2e", "MIRROR_PAD": "5i", "IF": "2i", "WHILE": "2i", "CALL_ONCE": "ib",
    "TRANSPOSE_CONV": "(b8h9i)2i2p", "BATCH_MATMUL": "3p3b", "SELECT_V2": "b", "SPACE_TO_BATCH_ND": "i",
    "VAR_HANDLE": "i", "ASSIGN_VARIABLE": "i", "CUSTOM:CIRCULAR_BUFFER": "2i",
    **dict.fromkeys(("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _COMPARISON),
}  # fmt: skip
"""What a reference kernel asks for when it is made, in a build without compression."""

_PIP: Mapping[str, str] = {
    "CONV_2D": _CONV + "2i", "DEPTHWISE_CONV_2D": _CONV + "2i", "FULLY_CONNECTED": "9i2pb2i",
    "CONCATENATION": "(i2p3i)10i", "TRANSPOSE_CONV": "(b8h9i)4i2p",
}  # fmt: skip
"""The same in the pip package, which is made with compression, where that differs."""

_CMSIS_NN: Mapping[str, str] = {
    "CONV_2D": f"({_CONV})i", "DEPTHWISE_CONV_2D": f"({_CONV})i", "FULLY_CONNECTED": "(9i2pb)2ip3i",
    "AVERAGE_POOL_2D": "((4i)4i)i", "MAX_POOL_2D": "((4i)4i)i", "SOFTMAX": f"{_SOFTMAX}2i", "SVDF": "9ip",
    "TRANSPOSE_CONV": "(b8h9i)3i2p", "BATCH_MATMUL": "(3p3b)(4i)i",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": f"({_LSTM})(15i4(2i2p2i3pe))",
}  # fmt: skip
"""The same with CMSIS-NN's kernels, where that differs."""

_ESP_NN: Mapping[str, str] = {
    "CONV_2D": f"({_CONV})i", "DEPTHWISE_CONV_2D": f"({_CONV})i", "SOFTMAX": f"({_SOFTMAX})i",
}  # fmt: skip
"""The same with ESP-NN's."""

_PLAIN = frozenset(
    (
        "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "MAXIMUM", "MINIMUM", "EXP", "SIN", "COS", "LOG", "SQRT", "SQUARE", "NEG",
        "CEIL", "FLOOR", "ROUND", "TRANSPOSE", "SLICE", "LOGICAL_NOT", "LOGICAL_AND", "LOGICAL_OR", "PACK", "UNPACK",
        "SPLIT", "SPLIT_V", "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR", "ARG_MAX", "ARG_MIN", "SPACE_TO_DEPTH",
        "DEPTH_TO_SPACE", "ZEROS_LIKE", "GATHER", "GATHER_ND", "CAST", "SHAPE", "FILL", "BROADCAST_TO",
        "BROADCAST_ARGS", "REVERSE_V2", "BATCH_TO_SPACE_ND", "DYNAMIC_UPDATE_SLICE", "FLOOR_DIV", "FLOOR_MOD",
        "L2_POOL_2D", "READ_VARIABLE", "ADD_N", "LOG_SOFTMAX", "CUMSUM", "EMBEDDING_LOOKUP",
    )
)  # fmt: skip
"""Kernels that ask for nothing when they are made."""

_MOVED_SHAPES = frozenset(
    ("BATCH_MATMUL", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND", "L2_POOL_2D")
)
"""Kernels that move their output's shape out of the file, so that they can write it."""

LOOKS: Mapping[str, str] = {
    "CONV_2D": "o0 0 1 | 0 1 2 o0", "DEPTHWISE_CONV_2D": "o0 0 1 | 0 1 2 o0", "TRANSPOSE_CONV": "o0 2 1 | 2 1 3 o0 |",
    "SOFTMAX": "0 o0 |", "FULLY_CONNECTED": "0 1 2 o0 |", "BATCH_MATMUL": "0 1 o0 |", "RELU6": "0", "IF": "0",
    "WHILE": "", "CALL_ONCE": "", "RESHAPE": "0 o0", "SPLIT": "0", "SPLIT_V": "2", "READ_VARIABLE": "0",
    "VAR_HANDLE": "", "ASSIGN_VARIABLE": "1 |", "PACK": "", "UNPACK": "", "ARG_MAX": "", "ARG_MIN": "",
    "BATCH_TO_SPACE_ND": "0 o0", "SPACE_TO_BATCH_ND": "0 o0", "L2_POOL_2D": "o0 0", "MEAN": "0 o0 1 0 1 o0",
    "SUM": "0 o0 1 0 1 o0", "REDUCE_MAX": "0 1 o0 0 o0 1", "REDUCE_MIN": "0 1 o0 0 o0 1",
    "REDUCE_ALL": "0 o0 1 0 1", "TANH": "0 0 o0", "MAXIMUM": "", "MINIMUM": "", "LOGICAL_AND": "", "LOGICAL_OR": "",
    "SQRT": "0 o0",
}  # fmt: skip
"""Tensors that a reference kernel looks at while it is prepared, by position (``o``: of the outputs), each in memory
that is given back when it is done; ``|`` is where it asks for what it keeps. Others look at all inputs, then all
outputs, and then ask."""


_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL")


def is_modelled(op: TfliteOp) -> bool:
    """Whether what a kernel keeps is worked out here."""
    return op.type in DATA or op.type in _PLAIN or op.type.removeprefix("CUSTOM:") in SIGNALS


def refused(op: TfliteOp, subgraph: Subgraph) -> str:
    """Why TFLM refuses an operator when it prepares it, in words; empty if it does not, as far as is known. Float
    inputs with 8-bit weights are LiteRT's alone (`conv_common.cc`, `depthwise_conv_common.cc`, `transpose_conv.cc`,
    `fully_connected.cc`, `batch_matmul.cc`)."""
    read = [subgraph.tensors[t] if t >= 0 else None for t in op.inputs]
    given, weights = (2, 1) if op.type == "TRANSPOSE_CONV" else (0, 1)
    if op.type not in _WEIGHTED or len(read) <= max(given, weights):
        return ""
    x, w = read[given], read[weights]
    if x is None or w is None or x.dtype != "float32" or w.dtype == "float32":
        return ""
    return f"{op.type} of floats with {w.dtype} weights, which TFLM refuses"


def options_of(op: TfliteOp, build: Build) -> tuple[int, int] | None:
    """Size and alignment of an operator's options in the arena; None if it has none."""
    layout = OPTIONS.get(op.type)
    if build.pip and op.type == "FULLY_CONNECTED":
        return _PIP_ROWS
    return None if layout is None else build.size(layout)


def data_of(op: TfliteOp, subgraph: Subgraph, build: Build) -> Iterator[int]:
    """Bytes of each block that a kernel asks for when it is made."""
    if op.type.startswith("CUSTOM:Signal"):
        yield from signal_data(op, subgraph, build)
        return
    layout = DATA.get(op.type)
    if build.kernels == "cmsis_nn":
        layout = _CMSIS_NN.get(op.type, layout)
    elif build.kernels == "esp_nn":
        layout = _ESP_NN.get(op.type, layout)
    elif build.pip:
        layout = _PIP.get(op.type, layout)
    if layout is not None:
        yield build.size(layout)[0]


def prepared_of(op: TfliteOp, subgraph: Subgraph, build: Build) -> list[int]:
    """Bytes of each block that a kernel asks for when it is prepared: multipliers per channel, tables, copies."""
    read = [subgraph.tensors[t] if t >= 0 else None for t in op.inputs]
    given = read[0] if read else None
    weights = read[1] if len(read) > 1 else None
    if given is None:
        return []
    if op.type.startswith("CUSTOM:Signal"):
        return list(signal_prepared(op, subgraph, build))
    quantised = given.dtype in ("int8", "int16")
    library = build.kernels == "cmsis_nn"
    if op.type in ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV") and weights is not None and weights.shape:
        if library and given.dtype == "float32" and op.type != "TRANSPOSE_CONV":
            return []
        return [4 * weights.shape[-1 if op.type == "DEPTHWISE_CONV_2D" else 0]] * 2
    if op.type == "FULLY_CONNECTED" and weights is not None:
        channels = [4 * weights.channels] * 2 if weights.channels > 1 and given.dtype != "float32" else []
        return channels + (_sums(op, read, subgraph, build) if library else [])
    if op.type == "SVDF" and library and given.dtype == "int8" and weights is not None:
        return [size for size in (row_sums((weights.shape or (0,))[0], build.simd),) if size]
    if op.type == "UNIDIRECTIONAL_SEQUENCE_LSTM" and library and quantised:
        wide = 4 if given.dtype == "int8" else 8
        return [wide * (subgraph.tensors[op.outputs[0]].shape or (0,))[-1]] * 8
    if op.type == "SOFTMAX" and given.dtype == "int16":
        return [1026, 1026]
    if op.type == "ADD_N" and given.dtype == "int8":
        return [40]
    if op.type == "CUMSUM" and given.dtype == "int8":
        return [36]
    if op.type == "LOG_SOFTMAX" and given.dtype == "int8":
        return [build.size("5i2p")[0]]
    blocks = [build.size("ip")[0]] if op.type == "EMBEDDING_LOOKUP" else []
    if op.type == "BATCH_MATMUL" and weights is not None:
        blocks += _products(op, given, weights, build)
    if op.type in _MOVED_SHAPES:
        blocks.append(4 + 4 * len(subgraph.tensors[op.outputs[0]].shape))
    return blocks


def _products(op: TfliteOp, left: TfliteTensor, right: TfliteTensor, build: Build) -> list[int]:
    """BATCH_MATMUL: its multipliers, and a copy of each operand that it transposes."""
    blocks = [28] if left.dtype in ("int8", "int16") else []
    for tensor, turned in ((left, op.options.get("adj_x", 0)), (right, not op.options.get("adj_y", 0))):
        if turned:
            blocks += [build.eval_tensor[0], 4 + 4 * len(tensor.shape), tensor.size]
    return blocks


def _sums(op: TfliteOp, read: list[TfliteTensor | None], subgraph: Subgraph, build: Build) -> list[int]:
    """FULLY_CONNECTED of CMSIS-NN with MVE: the sums of constant weights, where it is no 1x1 convolution."""
    given, weights, output = read[0], read[1], subgraph.tensors[op.outputs[0]]
    if given is None or weights is None or given.dtype != "int8" or weights.dtype == "int4":
        return []
    if len(output.shape) > 2 and weights.shape and weights.shape[-1] % 4 == 0:
        return []
    constant = all(t is None or t.buffer_bytes for t in read[1:3])
    size = row_sums(output.shape[-1] if output.shape else 0, build.simd)
    return [size] if size and constant else []


def looks_of(op: TfliteOp, build: Build) -> list[str]:
    """What a kernel looks at, and where it asks for what it keeps: see `LOOKS`."""
    if build.kernels == "cmsis_nn" and op.type in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return ["0", "1", "o0", "|", "0", "1", "2", "o0"]
    if build.kernels == "cmsis_nn" and op.type == "AVERAGE_POOL_2D":
        return ["0", "o0", "0", "o0"]
    known = LOOKS.get(op.type)
    if known is not None:
        return known.split()
    if op.type in ("CONCATENATION", "ADD_N"):
        others = range(op.type == "ADD_N", len(op.inputs))
        return ["0", "o0", *(str(i) for i in others), "|"]
    return [*(str(i) for i in range(len(op.inputs))), *(f"o{i}" for i in range(len(op.outputs))), "|"]


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
