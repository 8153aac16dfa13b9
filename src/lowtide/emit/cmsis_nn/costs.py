"""What calls cost, in instructions: a fixed part, sums over the weights, and what grows with pixels and products.

A call of a 1x1 convolution adds up all weights, whatever its rows: it costs as much as two pixels do. Fitted to counts
of each call of three models of MLPerf Tiny with 1 to 8 rows and all of them a call, on qemu's Cortex-M4 and Cortex-M55
(`packages/research/bench/mcu/calls.c`): half of the estimates are within 3 %, 9 of 10 within 5 % (1x1), 15 %
(depthwise), 35 % (others). Only the choice of rows rests on them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

from lowtide.emit.cmsis_nn.layers import NO_TENSOR, Layer, Layers
from lowtide.emit.cmsis_nn.stripes import Call, Segment
from lowtide.emit.places import sizes_of

STEP = 80
"""Instructions of the code that calls."""


@dataclass(frozen=True)
class Rate:
    """Instructions of a call, and of a channel of the result, a weight, a pixel, an element, a product, and an element
    of a window that is copied."""

    call: float = 0.0
    channel: float = 0.0
    weight: float = 0.0
    pixel: float = 0.0
    element: float = 0.0
    product: float = 0.0
    copied: float = 0.0


RATES = {
    "dsp": {
        "pointwise": Rate(580, 22, 3.17, 0, 41.4, 1.404),
        "conv": Rate(8108, 0, 2.29, 0, 57.5, 1.087, 14.5),
        "depthwise": Rate(0, 0, 0, 102.6, 0, 7.55),
        "other": Rate(200, 0, 1.0, 0, 30, 1.5),
    },
    "mve": {
        "pointwise": Rate(281, 0, 0.073, 0, 15.3, 0.152, 0.24),
        "conv": Rate(4998, 0, 0.131, 0, 19.1, 0.059, 3.37),
        "depthwise": Rate(0, 20.7, 0, 243.6, 0, 1.92),
        "other": Rate(200, 0, 0.2, 0, 6, 0.2),
    },
}
BYTE = {"dsp": 0.4, "mve": 0.2}
"""Instructions of a byte that moves."""


@dataclass(frozen=True)
class Costs:
    """Of a model's layers; of other instructions than those that were counted as if for DSP."""

    layers: Layers

    def of(self, part: Segment) -> float:
        """Of a segment."""
        simd = "mve" if self.layers.simd == "mve" else "dsp"
        calls: Counter[tuple[int, int]] = Counter()
        total = 0.0
        for step in part.steps:
            total += STEP
            if isinstance(step, Call):
                calls[step.layer, step.end - step.first] += 1
            else:
                total += step.kept * self.layers.row_bytes(step.tensor) * BYTE[simd]
        return total + sum(
            many * self._call(self.layers.listed[layer], rows, simd) for (layer, rows), many in calls.items()
        )

    def _call(self, layer: Layer, rows: int, simd: str) -> float:
        kept = layer.writes_last or layer.result == NO_TENSOR
        tensor = self.layers.given(layer) if kept else self.layers.result(layer)
        _, width, channels = sizes_of(tensor)
        pixels = rows * width
        window = layer.macs // max(1, width * channels)  # products of an element
        kind = layer.kind if layer.kind == "depthwise" else "other"
        if layer.kind == "conv":
            rows_in = layer.operands[0].window
            taps = 1 if rows_in is None else prod((rows_in.taps, layer.columns.taps, rows_in.stride))
            kind = "pointwise" if taps == 1 else "conv"
        rate = RATES[simd][kind]
        total = rate.call + rate.channel * channels + rate.pixel * pixels + rate.copied * pixels * window
        return total + channels * (rate.weight * window + pixels * (rate.element + rate.product * window))
