"""Scratch that ESP-NN's kernels ask for, by the library's own `*_get_*_scratch_size` rules.

Espressif's kernels for TFLM (esp-tflite-micro at commit 99f49e1, tensorflow/lite/micro/kernels/esp_nn: conv.cc,
depthwise_conv.cc, softmax.cc; the others ask for nothing) ask the library (esp-nn at commit d45b843) how much a layer
of int8 needs, in addition to what the reference kernel takes. The answer depends on the chip: ESP32, C3 and the like
run plain C (`esp_nn_*_opt.c`), ESP32-S3 and ESP32-P4 assembly, which copies images and filters.

The functions below stand for the library's of the same name; `bench/tflm32` compares them with its compiled C.
"""

from __future__ import annotations

from lowtide.graph import Graph, Op
from lowtide.rules.tflm.kernels import KernelWindow, window_of

_CACHE = 32768  # `L1D_BUDGET` of `esp_nn_conv_esp32p4.c`
_MOST_IMAGE = 40 * 1024
_MOST_WIDE = 48 * 1024


def esp_nn_scratch(graph: Graph, op: Op, chip: str) -> tuple[int, ...]:
    """Bytes of the buffer that the library's kernel asks for, if it does; `chip`: ``"esp32s3"``, ``"esp32p4"``, or
    anything else for those that run its C."""
    data = [graph.tensor_by_id[t] for t in op.inputs]
    if not data or not op.outputs or data[0].dtype != "int8":
        return ()
    output = graph.tensor_by_id[op.outputs[0]]
    if op.type == "SOFTMAX":
        shape = data[0].shape or ()
        return _some(4 * shape[1]) if output.dtype == "int8" and len(shape) > 1 else ()
    if op.type not in ("CONV_2D", "DEPTHWISE_CONV_2D") or len(data) < 2:
        return ()
    window = window_of(op, data, output)
    weights = data[1].shape
    if window is None or not weights:
        return ()
    if op.type == "CONV_2D":
        size = {"esp32s3": convolution_s3, "esp32p4": convolution_p4}.get(chip)
        return () if size is None else _some(size(window))
    return _some(depthwise_s3(window, op.attributes.get("depth_multiplier", 1))) if chip == "esp32s3" else ()


def _some(size: int) -> tuple[int, ...]:
    return (size,) if size > 0 else ()


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _by_pixel(w: KernelWindow) -> bool:
    """A 1x1 convolution without stride or padding."""
    return w.area == 1 and not w.rows.before and not w.columns.before and w.rows.stride == w.columns.stride == 1


def _pixels(w: KernelWindow) -> int:
    """What a 1x1 convolution takes on both chips: padded channels, and two blocks of eight pixels."""
    _, height, width, depth = w.input
    padded = _up(depth, 8)
    blocks = 16 * padded if height * width >= 8 else 0
    return (height * width * padded if depth % 8 else 0) + padded * w.output[3] + blocks


def convolution_s3(w: KernelWindow) -> int:
    """`esp_nn_get_conv_scratch_size_esp32s3`."""
    _, height, width, depth = w.input
    _, out_height, out_width, channels = w.output
    rows, columns = w.rows, w.columns
    if _by_pixel(w):
        return _pixels(w) + 64
    row, taps = columns.taps * depth, w.area * depth
    if row < 16 <= taps:
        window = _up(taps, 16)
        return 4 * channels + 16 + channels * window + 16 + window + 64
    padded = 0
    if rows.before or columns.before:
        padded = (width + 2 * columns.before) * (height + 2 * rows.before) * depth
    filters = w.area * _up(depth, 16) * channels + _up(row, 16) * rows.taps * channels
    right = max(0, out_width * columns.stride + columns.taps - 1 - width)
    bottom = max(0, out_height * rows.stride + rows.taps - 1 - height)
    edges = (width + right) * (height + bottom) * depth if right or bottom else 0
    return padded + filters + edges + 64 + 4 * channels


def convolution_p4(w: KernelWindow) -> int:
    """`esp_nn_get_conv_scratch_size_esp32p4`."""
    _, height, width, depth = w.input
    channels, rows, columns = w.output[3], w.rows, w.columns
    sums = 4 * channels
    if _by_pixel(w):
        return sums + 16 * channels + 32 + 32 if depth < 16 else _pixels(w) + 32
    unpadded = not rows.before and not columns.before
    if unpadded and columns.taps * depth >= 16:
        return w.area * _up(depth, 16) * channels + 32 + sums
    if w.area * depth >= 16:
        return sums + w.area * depth + 32
    deeper = _up(-(-16 // columns.taps), 16)
    filters = w.area * deeper * channels
    if unpadded:
        return sums + filters + width * height * deeper + 32
    padded_width = width + 2 * columns.before
    image = padded_width * (height + 2 * rows.before) * depth
    if image + sums <= _CACHE:
        return image + w.area * _up(depth, 16) * channels + 32 + sums
    row, room, lines = padded_width * deeper, _CACHE - sums - filters, 1
    if room > 0 and rows.taps * row <= room:
        lines = min((room - rows.taps * row) // (rows.stride * row) + 1, w.output[1])
    return ((lines - 1) * rows.stride + rows.taps + 2 * rows.before) * row + filters + 32 + sums


def depthwise_s3(w: KernelWindow, multiplier: int) -> int:
    """`esp_nn_get_depthwise_conv_scratch_size_esp32s3`."""
    _, height, width, depth = w.input
    _, out_height, out_width, _ = w.output
    rows, columns = w.rows, w.columns
    filters, image = w.area * depth * multiplier, width * height * depth
    if multiplier == 1 and depth % 8 == 0:
        if not rows.taps == columns.taps == 3:
            wide = 2 * (filters + image)
            return (wide if wide <= _MOST_WIDE else 2 * filters + 2 * width * rows.taps * depth) + 32
        if depth % 16 == 0:
            return filters + _padded_s3(w) + 16
        if depth < 12:
            return 2 * (filters + image) + 32
        deeper = _up(depth, 16)
        across = 2 * columns.before + max(0, out_width * columns.stride + 2 - width)
        down = 2 * rows.before + max(0, out_height * rows.stride + 2 - height)
        return (9 + (width + across) * (height + down) + out_width * out_height) * deeper + 64
    if multiplier == 1 and depth > 3:
        deeper = _up(depth, 8)
        at = _up(2 * w.area * deeper, 16)
        at = _up(at + 2 * width * height * deeper, 16)
        at = _up(at + out_width * out_height * deeper, 16)
        return at + 12 * deeper + 16
    return 2 * (filters + image) + 32 if multiplier % 4 == 0 else 32


def _padded_s3(w: KernelWindow) -> int:
    """The padded image of a depthwise 3x3 convolution, or three rows of a large one; 0 where nothing is padded."""
    _, height, width, depth = w.input
    if w.rows.before or w.columns.before:
        across, down = 2 * w.columns.before, 2 * w.rows.before
    else:
        across = w.output[2] * w.columns.stride + 2 - width
        down = w.output[1] * w.rows.stride + 2 - height
    if not across and not down:
        return 0
    image = (width + across) * (height + down) * depth
    return image if image <= _MOST_IMAGE else (width + across) * 3 * depth
