"""Scratch that CMSIS-NN's kernels ask for, by the library's own `*_get_buffer_size` rules.

TFLM's kernels for CMSIS-NN (tensorflow/lite/micro/kernels/cmsis_nn, commit 90b983c) ask the library (commit 99f736a)
how much a layer needs, and take nothing where it says 0. The answer depends on the instructions that the library is
compiled for: none (Cortex-M0, M3), DSP (Cortex-M4, M7, M33), or MVE (Cortex-M55, M85). Compiled with Arm's own
compiler a 1x1 convolution for DSP asks for 4 bytes more per channel; that is not counted here.

The functions below stand for the library's of the same name; `bench/tflm32` compares them with its compiled C.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.rules.tflm.kernels import KernelWindow, window_of

Simd = Literal["none", "dsp", "mve", "esp32s3", "esp32p4"]
"""For which instructions a library is compiled: CMSIS-NN for the first three; ESP-NN for the last two, else as C."""

_MVE_CHANNELS = 124
_REVERSED_ABOVE = 16


def cmsis_nn_scratch(graph: Graph, op: Op, simd: str) -> tuple[int, ...] | None:
    """Bytes of each scratch buffer, in the order of asking; None where the reference kernel's scratch holds."""
    data = [graph.tensor_by_id[t] for t in op.inputs]
    if not data or not op.outputs:
        return None
    output, source = graph.tensor_by_id[op.outputs[0]], data[0]
    weights = data[1] if len(data) > 1 else None
    if op.type == "AVERAGE_POOL_2D":
        return _some(average_pool(source, simd)) if source.dtype in ("int8", "int16") else None
    if weights is None:
        return None
    if op.type in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return _convolution_scratch(op, data, output, simd)
    if op.type == "FULLY_CONNECTED":
        return _rows_scratch(data, output, simd)
    if op.type == "TRANSPOSE_CONV" and len(data) > 2:
        return _transposed_scratch(op, weights, data[2], output, data[3] if len(data) > 3 else None, simd)
    if op.type == "BATCH_MATMUL" and source.dtype == "int8" and output.shape:
        return _some(4 * (output.shape[-1] if simd == "mve" else 0))
    if op.type == "UNIDIRECTIONAL_SEQUENCE_LSTM" and source.dtype in ("int8", "int16"):
        return _recurrent_scratch(op, source, output)
    return None


def _some(size: int) -> tuple[int, ...]:
    return (size,) if size > 0 else ()


def _convolution_scratch(op: Op, data: list[Tensor], output: Tensor, simd: str) -> tuple[int, ...] | None:
    source, weights = data[0], data[1]
    window = window_of(op, data, output)
    if source.dtype not in ("int8", "int16") or window is None or not weights.shape:
        return () if source.dtype == "float32" else None
    if op.type == "DEPTHWISE_CONV_2D":
        if source.dtype != "int8":
            return ()
        packed = weights.dtype == "int4"
        return _some(depthwise_int4(window, simd) if packed else depthwise(window, simd))
    if source.dtype == "int16":
        return _some(convolution_int16(window, simd))
    # TFLM asks for the int8 rule whatever the filter's type is.
    return _some(convolution(window, weights.shape[3], simd))


def _rows_scratch(data: list[Tensor], output: Tensor, simd: str) -> tuple[int, ...] | None:
    """FULLY_CONNECTED: multipliers of a 1x1 convolution, which it is in three dimensions or more; sums with MVE."""
    source, weights = data[0], data[1]
    if source.dtype == "int16" or weights.dtype == "int4":
        return ()
    if source.dtype != "int8" or not weights.shape or not output.shape:
        return None
    depth, outputs = weights.shape[-1], output.shape[-1]
    if len(output.shape) > 2 and depth % 4 == 0:
        per_channel = weights.quant is not None and len(weights.quant.scales) > 1
        return () if per_channel else _some(8 * outputs)
    return () if sums_are_kept(data) else _some(row_sums(outputs, simd))


def sums_are_kept(data: list[Tensor]) -> bool:
    """Whether FULLY_CONNECTED keeps the sums of its rows, for its weights and bias are constants, instead of
    scratch. So it is with KERNELS_OPTIMIZED_FOR_SPEED, TFLM's default."""
    return all(t.kind is Kind.CONSTANT for t in data[1:3])


def _transposed_scratch(
    op: Op, weights: Tensor, source: Tensor, output: Tensor, bias: Tensor | None, simd: str
) -> tuple[int, ...] | None:
    if source.dtype == "int16":
        converted = (8 * prod(bias.shape),) if bias is not None and bias.dtype == "int16" and bias.shape else ()
        # The sums are requested before the bias is looked at.
        return (8 * prod(output.shape or ()), *converted)
    if source.dtype != "int8" or len(source.shape or ()) != 4 or len(weights.shape or ()) != 4 or not output.shape:
        return () if source.dtype == "float32" else None
    assert source.shape is not None
    assert weights.shape is not None
    stride = (op.attributes.get("stride_h", 0), op.attributes.get("stride_w", 0))
    return transposed(source.shape, weights.shape, output.shape, stride, simd)


def _recurrent_scratch(op: Op, source: Tensor, output: Tensor) -> tuple[int, ...] | None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: three buffers of the cell's type instead of four."""
    if len(source.shape or ()) != 3 or not output.shape:
        return None
    assert source.shape is not None
    batches = source.shape[1 if op.attributes.get("time_major") else 0]
    return (2 * batches * output.shape[-1],) * 3


def convolution(w: KernelWindow, filter_depth: int, simd: str) -> int:
    """`arm_convolve_wrapper_s8_get_buffer_size`."""
    depth, x = w.input[3], w.columns
    ungrouped = filter_depth == depth
    if w.area == 1 and not (w.rows.before or x.before or w.dilated) and ungrouped:
        return 0
    columns = depth * w.area
    one_row = w.input[1] == w.rows.taps == x.dilation == 1 and x.stride * depth % 4 == 0 and ungrouped
    if simd == "mve":
        return _one_row_mve(w) if one_row else _windows_mve(columns, 16, 1)
    return 4 * _up(columns, 4)


def _windows_mve(columns: int, lanes: int, width: int) -> int:
    """Four windows, each in full registers."""
    return 4 * _up(columns, lanes) * width


def _one_row_mve(w: KernelWindow) -> int:
    """`arm_convolve_1_x_n_s8_get_buffer_size_mve`: the windows at both ends, with what pads them."""
    depth, kernel, stride, pad, out = w.input[3], w.columns.taps, w.columns.stride, w.columns.before, w.output[2]
    total = (out - 1) * stride + kernel - w.input[2]
    odd = total % 2 if total >= 0 else -(-total % 2)
    right = max(1, _quotient(pad + odd + stride - 1, stride)) if pad + odd else 0
    left = max(1, (pad + stride - 1) // stride) if pad else 0
    if right + max(out - right - left, 0) + left != out:
        return _windows_mve(depth * kernel, 16, 1)
    left_size = pad * depth
    right_size = right * depth if odd else left_size
    return max(kernel * depth + left_size, kernel * depth - depth + right_size)


def _quotient(a: int, b: int) -> int:
    """As C divides: towards zero."""
    return a // b if a >= 0 else -(-a // b)


def convolution_int16(w: KernelWindow, simd: str) -> int:
    """`arm_convolve_wrapper_s16_get_buffer_size`."""
    columns = w.input[3] * w.area
    return _windows_mve(columns, 8, 2) if simd == "mve" else 4 * columns


def depthwise(w: KernelWindow, simd: str) -> int:
    """`arm_depthwise_conv_wrapper_s8_get_buffer_size`."""
    batches, _, _, depth = w.input
    channels, area = w.output[3], w.area
    if simd == "mve" and depth == 1 and channels > 1:
        return convolution(w, 1, simd) + channels * area
    if depth != channels or batches != 1 or w.dilated:
        return 0
    if simd == "mve":
        return 4 * _MVE_CHANNELS * area
    if w.rows.taps == w.columns.taps == 3 and max(w.rows.before, w.columns.before) <= 1:
        return 0
    return 2 * depth * area if simd == "dsp" else 0


def depthwise_int4(w: KernelWindow, simd: str) -> int:
    """`arm_depthwise_conv_wrapper_s4_get_buffer_size`."""
    if w.input[3] != w.output[3] or w.input[0] != 1 or w.dilated:
        return 0
    return 4 * _MVE_CHANNELS * w.area if simd == "mve" else 2 * w.input[3] * w.area


def average_pool(source: Tensor, simd: str) -> int:
    """`arm_avgpool_s8_get_buffer_size`, and that of int16."""
    return 4 * (source.shape or (0,))[-1] if simd == "dsp" else 0


def row_sums(outputs: int, simd: str) -> int:
    """`arm_fully_connected_s8_get_buffer_size` and `arm_svdf_s8_get_buffer_size`: a sum for each row of the weights."""
    return 4 * outputs if simd == "mve" else 0


def transposed(
    source: tuple[int, ...], weights: tuple[int, ...], output: tuple[int, ...], stride: tuple[int, int], simd: str
) -> tuple[int, int]:
    """`arm_transpose_conv_s8_get_buffer_size` and `..._get_reverse_conv_buffer_size`."""
    rows, columns, depth = weights[1], weights[2], source[3]
    if max(stride) <= 2 and depth > _REVERSED_ABOVE:
        length = depth * rows * columns
        windows = _windows_mve(length, 16, 1) if simd == "mve" else 4 * _up(length, 4)
        return windows, length * weights[0]
    # The library takes the row's stride for the column's here.
    width = ((source[2] - 1) * stride[1] + max(columns, stride[0])) * output[3]
    return 4 * width * max(rows, stride[0]), 0


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
