"""What calls cost, in instructions: a fixed part, sums over the weights, and what grows with the rows.

Fitted to counts of `packages/research/bench/mcu`; only the choice of rows rests on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.emit.cmsis_nn.layers import Layer, Layers
from lowtide.emit.cmsis_nn.stripes import Call, Segment
from lowtide.graph import Kind


@dataclass(frozen=True)
class Rate:
    """Instructions of a call, of a weight in a call, of a multiply-accumulate, and of a byte that moves."""

    call: float
    weight: float
    mac: float
    byte: float


RATES = {
    "none": Rate(500, 0.0, 6.0, 1.0),
    "dsp": Rate(500, 1.0, 3.0, 0.5),
    "mve": Rate(500, 0.1, 0.4, 0.1),
}


@dataclass(frozen=True)
class Costs:
    """Of a model's layers."""

    layers: Layers

    @property
    def rate(self) -> Rate:
        """For the instructions that the library is compiled for."""
        return RATES["dsp" if self.layers.simd == "any" else self.layers.simd]

    def of(self, part: Segment) -> float:
        """Of a segment."""
        total = 0.0
        for step in part.steps:
            if isinstance(step, Call):
                total += self._call(self.layers.listed[step.layer], step)
            else:
                total += 100 + step.kept * self.layers.row_bytes(step.tensor) * self.rate.byte
        return total

    def _call(self, layer: Layer, call: Call) -> float:
        rate, rows = self.rate, call.end - call.first
        weights = sum(
            t.size for i in layer.op.inputs if (t := self.layers.tensor(i)).kind is Kind.CONSTANT and t.dtype == "int8"
        )
        made = self.layers.row_bytes(layer.operands[0].tensor if layer.writes_last else layer.result)
        return rate.call + rate.weight * weights + rows * (rate.mac * layer.macs + 10 * rate.byte * made)
