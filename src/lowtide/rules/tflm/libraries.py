"""Kernel libraries for TFLM that replace some of its reference kernels: how much of `kernels.py` holds there.

Firmware mostly has a library's kernels, and neither the file nor TFLM says whose: so only what holds under the
reference kernels and every library may overlap, unless the user names the kernels that will run.

A library replaces kernels of some operators for some types; all others are the reference's, and so is what may overlap.
Of those that it replaces an overlap is allowed where the source was read in all its variants (plain C, DSP, MVE), and
reads of the input never come later than the reference kernel's; where they come later, the distance grows; else none
is allowed, for the reason given here.

CMSIS-NN (commit 99f736a; called by tensorflow/lite/micro/kernels/cmsis_nn at tflite-micro commit 90b983c):

    arm_elementwise_add_s8, _s16, arm_elementwise_mul_s8, _s16, arm_maximum_s8, arm_minimum_s8: up to 16 elements are
        read, then written: as the reference. A broadcast ADD or MUL is the reference's own; of MAXIMUM and MINIMUM
        operands of one shape were read only.
    arm_convolve_s8: copies the windows of two (MVE: four) pixels to scratch before it writes these pixels: it reads
        earlier than the reference. With groups it walks the image once for each: none.
    arm_convolve_1x1_s8, _fast, arm_convolve_1_x_n_s8 (arm_nn_mat_mult_nt_t_s8): two output channels of all pixels,
        then the next two: all of the input is read after the first write: none.
    arm_depthwise_conv_s8, _3x3_s8, _s8_opt: channel by channel or four at a time, or a copy of one or four full
        windows: as the reference or earlier. MVE walks the image once per 124 channels: none with more of them. With
        one channel MVE may call arm_convolve_wrapper_s8: as there.
    arm_avgpool_s8: a window, or 16 channels of it, is summed before they are written: as the reference.
    arm_max_pool_s8: copies the first pixel of a window to the output, then reads the others: a pixel's write counts
        before its own window.
    arm_fully_connected_s8, _per_channel_s8: up to four outputs at a time, each after all of the row was read: as the
        reference. From three dimensions on, with a depth that is a multiple of 4, it is a 1x1 convolution: none.
    arm_softmax_s8, _s8_s16: maximum and sum of a row first, then element by element: as the reference.
    arm_pad_s8: memcpy of a row, which may not touch its own copy.
    The rest (int16 but for ADD and MUL, int4 filters, arm_transpose_s8, arm_transpose_conv_s8, arm_batch_matmul_s8):
        not reviewed, none.

No pointer to an input of these is `restrict`. Plain C and DSP variants (their instructions written out in C) were also
compiled for x86-64 and run (docs/tflite.md); MVE was read only.

ESP-NN (commit d45b843): its plain C kernels walk as the reference does, but ESP32-S3 and ESP32-P4 run assembly, which
copies and pads images, and works on blocks of channels and pixels. That was not reviewed and cannot be run here: none
for any operator of int8 that the library has a kernel for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from lowtide.graph import Graph, Op, Tensor
from lowtide.rules.tflm.cmsis_nn import Simd
from lowtide.rules.tflm.copies import constant
from lowtide.rules.tflm.kernels import distances, raster_distance, window_of

Library = Literal["any", "reference", "cmsis_nn", "esp_nn"]
"""Whose kernels run; ``"any"``: one of the others, it is not known which."""
LIBRARIES: tuple[Library, ...] = tuple(name for name in get_args(Library) if name != "any")
"""Those that ``"any"`` stands for; what is said of it is enough for each."""
BEYOND: tuple[tuple[Library, Simd], ...] = (("cmsis_nn", "mve"), ("esp_nn", "esp32s3"), ("esp_nn", "esp32p4"))
"""Builds of the libraries with scratch of their own, mostly more: they are to be named, and ``"any"`` is not for them.
"""
Review = Callable[[Op, list[Tensor], Tensor, int], int | None]
"""From the operator, its inputs, its output and the reference kernel's distance: the library's, None for none."""

LIBRARY_NAMES: Mapping[str, str] = {
    "reference": "reference",
    "cmsis_nn": "CMSIS-NN",
    "esp_nn": "ESP-NN",
    "cmsis_nn,simd=mve": "CMSIS-NN with MVE (Cortex-M55, M85)",
    "esp_nn,simd=esp32s3": "ESP-NN on ESP32-S3",
    "esp_nn,simd=esp32p4": "ESP-NN on ESP32-P4",
}
"""For screens: what stands after ``kernels=``."""

KERNEL_WORDS: Mapping[str, str] = {
    "any": "whichever kernels run: the reference ones, CMSIS-NN's or ESP-NN's",
    "reference": "the reference kernels only",
    "cmsis_nn": "CMSIS-NN's kernels",
    "esp_nn": "ESP-NN's kernels",
}
"""For screens: under what a plan holds."""

_MVE_CHANNELS = 124
_INT8 = ("int8",)
_QUANTISED = ("int8", "int16")

REPLACED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cmsis_nn": {
        "ADD": _QUANTISED, "MUL": _QUANTISED, "MAXIMUM": _INT8, "MINIMUM": _INT8, "CONV_2D": _QUANTISED,
        "DEPTHWISE_CONV_2D": _QUANTISED, "AVERAGE_POOL_2D": _QUANTISED, "MAX_POOL_2D": _QUANTISED,
        "FULLY_CONNECTED": _QUANTISED, "SOFTMAX": _QUANTISED, "PAD": _INT8, "PADV2": _INT8, "TRANSPOSE": _INT8,
        "TRANSPOSE_CONV": _QUANTISED, "BATCH_MATMUL": _QUANTISED,
    },
    "esp_nn": dict.fromkeys(
        ("ADD", "MUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "AVERAGE_POOL_2D", "MAX_POOL_2D", "SOFTMAX",
         "RELU", "RELU6", "HARD_SWISH", "LOGISTIC", "MEAN"), _INT8,
    ),
}  # fmt: skip
"""Operators, with types of their input, that a library has kernels of its own for."""


def libraries_text(arenas: Mapping[str, int]) -> str:
    """Libraries, each with the bytes of its arena."""
    return ", ".join(f"{LIBRARY_NAMES.get(name, name)} {size:,}" for name, size in arenas.items())


def library_distances(library: Library, graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
    """As `kernels.distances`, for the kernels of a library; for any, what holds under all: the longest distance."""
    reference = distances(graph, op)
    if library == "any":
        each = [dict(_reviewed(name, graph, op, reference)) for name in REPLACED]
        shared = [(t, d) for t, d in reference if all(t in row for row in each)]
        return tuple((t, max(d, *(row[t] for row in each))) for t, d in shared)
    return _reviewed(library, graph, op, reference)


def _reviewed(
    library: str, graph: Graph, op: Op, reference: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """The distances under the kernels of one library, from those of the reference kernels."""
    types = REPLACED.get(library, {}).get(op.type, ())
    data = [graph.tensor_by_id[t] for t in op.inputs]
    if not reference or not data or graph.tensor_by_id[reference[0][0]].dtype not in types:
        return reference
    review = _REVIEWED.get((library, op.type))
    if review is None:
        return ()
    output = graph.tensor_by_id[op.outputs[0]]
    allowed = ((t, review(op, data, output, d)) for t, d in reference)
    return tuple((t, d) for t, d in allowed if d is not None and d < output.size)


def _same(op: Op, data: list[Tensor], output: Tensor, d: int) -> int | None:
    return d


def _of_bytes(op: Op, data: list[Tensor], output: Tensor, d: int) -> int | None:
    return d if data[0].dtype == "int8" else None


def _of_one_shape(op: Op, data: list[Tensor], output: Tensor, d: int) -> int | None:
    return d if all(t.shape == output.shape for t in data[:2]) else None


def _convolution(op: Op, data: list[Tensor], output: Tensor, d: int) -> int | None:
    source, weights = data[0].shape or (), data[1].shape or ()
    if data[1].dtype != "int8" or data[0].dtype != "int8" or len(source) != 4 or len(weights) != 4:
        return None
    rows, columns = weights[1:3]
    if rows == columns == 1 or (rows == 1 and source[1] == 1) or weights[3] != source[3]:
        return None
    return d


def _depthwise(op: Op, data: list[Tensor], output: Tensor, d: int) -> int | None:
    source, weights = data[0].shape or (), data[1].shape or ()
    if data[1].dtype != "int8" or data[0].dtype != "int8" or len(source) != 4 or len(weights) != 4:
        return None
    rows, columns = weights[1:3]
    if source[3] == 1 and (rows == columns == 1 or (rows == 1 and source[1] == 1)):
        return None
    return d if source[3] <= _MVE_CHANNELS else None


def _largest(op: Op, data: list[Tensor], output: Tensor, d: int) -> int | None:
    window = window_of(op, data, output) if data[0].dtype == "int8" else None
    if window is None:
        return None
    depth = window.input[3]
    return raster_distance(
        window.input[:3],
        depth,
        depth,
        window.first_rows,
        window.first_columns,
        depth,
    )


def _rows(op: Op, data: list[Tensor], output: Tensor, d: int) -> int | None:
    if data[0].dtype != "int8" or data[1].dtype != "int8":
        return None
    depth = (data[1].shape or (0,))[-1]
    return d if len(output.shape or ()) <= 2 or depth % 4 else None


def _padded(op: Op, data: list[Tensor], output: Tensor, d: int) -> int | None:
    source, pads = data[0].shape or (), constant(data, 1)
    if len(source) != 4 or len(pads) != 8:
        return None
    return d + (source[3] if pads[6] or pads[7] else source[2] * source[3])


_REVIEWED: Mapping[tuple[str, str], Review] = {
    ("cmsis_nn", "ADD"): _same,
    ("cmsis_nn", "MUL"): _same,
    ("cmsis_nn", "MAXIMUM"): _of_one_shape,
    ("cmsis_nn", "MINIMUM"): _of_one_shape,
    ("cmsis_nn", "CONV_2D"): _convolution,
    ("cmsis_nn", "DEPTHWISE_CONV_2D"): _depthwise,
    ("cmsis_nn", "AVERAGE_POOL_2D"): _of_bytes,
    ("cmsis_nn", "MAX_POOL_2D"): _largest,
    ("cmsis_nn", "FULLY_CONNECTED"): _rows,
    ("cmsis_nn", "SOFTMAX"): _of_bytes,
    ("cmsis_nn", "PAD"): _padded,
    ("cmsis_nn", "PADV2"): _padded,
}
