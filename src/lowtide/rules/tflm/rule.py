"""TensorFlow Lite Micro: lifetimes are the plain ones; reshapes share memory, and the rest goes by kernel.

TFLM's own planner never lets tensors share memory. It takes offsets from the file (metadata `OfflineMemoryAllocation`)
as they are, though: what may lie over what is ours to know (`rules/tflm/kernels.py`). `overlap` says how much of that
is used: "never", "in_place" or "diagonal"; `kernels` whose kernels run: the reference ones, those of a library
(`rules/tflm/libraries.py` says what was reviewed of it), or any of them: then only what holds under all may overlap.

Scratch is what the reference kernels ask for (`RequestScratchBufferInArena` in tensorflow/lite/micro/kernels, at
tflite-micro commit 90b983c), and a library's where its kernels run (`rules/tflm/cmsis_nn.py`, `esp_nn.py`), each buffer
rounded up to 16 bytes. Where it is open whose kernels run, the most that any takes is counted, operator by operator.
Variable tensors and what kernels keep are persistent: TFLM takes them from the other end of the arena.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import ClassVar

from lowtide.graph import Graph, Kind, Op
from lowtide.rules.tflm.cmsis_nn import Simd, cmsis_nn_scratch
from lowtide.rules.tflm.esp_nn import esp_nn_scratch
from lowtide.rules.tflm.flexbuffer import custom_numbers
from lowtide.rules.tflm.kernels import KERNELS, RESHAPES
from lowtide.rules.tflm.libraries import LIBRARIES, Library, library_distances
from lowtide.sizes import round_up

ALIGNMENT = 16
NPU = "CUSTOM:ethos-u"
"""Vela's operator. Its commands hold places in the arena, which no plan of ours may change."""
_REDUCERS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL")
_INT = 4
_WIDTH = {"int16": 2, "int32": 4, "float32": 4}


@dataclass(frozen=True)
class TflmRule:
    """See the module. `kernels` change what may overlap; with `simd` and `pointer`, its bytes, they change scratch."""

    kernels: Library = "any"
    simd: Simd = "dsp"
    pointer: int = 8

    tables: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType(
        {"Share their input's memory": RESHAPES}
        | {f"May lie over an input, {row.reads} (reference kernels; {row.source})": row.types for row in KERNELS}
    )

    def view_source(self, graph: Graph, op: Op) -> int | None:
        """The input of a reshape, unless it is in flash: then the kernel copies."""
        if op.type not in RESHAPES or len(op.outputs) != 1 or not op.inputs:
            return None
        output, read = graph.tensor_by_id[op.outputs[0]], graph.tensor_by_id[op.inputs[0]]
        if read.kind is Kind.CONSTANT or output.size != read.size or output.alias_of is not None:
            return None
        return read.id

    def in_place_inputs(self, graph: Graph, op: Op) -> tuple[int, ...]:
        """None as such: in place is an overlap at distance 0."""
        return ()

    def overlap_inputs(self, graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
        """By kernel."""
        return library_distances(self.kernels, graph, op)

    def workspace(self, graph: Graph, op: Op) -> int:
        """All scratch buffers of the kernel."""
        return sum(round_up(size, ALIGNMENT) for size in self.scratch(graph, op))

    def scratch(self, graph: Graph, op: Op) -> tuple[int, ...]:
        """Bytes of each scratch buffer that the op's kernel asks for, in the order of asking; of any, the most."""
        if self.kernels == "any":
            each = [TflmRule(kernels, self.simd, self.pointer).scratch(graph, op) for kernels in LIBRARIES]
            return max(each, key=lambda sizes: sum(round_up(size, ALIGNMENT) for size in sizes))
        own = cmsis_nn_scratch(graph, op, self.simd) if self.kernels == "cmsis_nn" else None
        esp_nn = esp_nn_scratch(graph, op, self.simd) if self.kernels == "esp_nn" else ()
        return (*scratch(graph, op, self.pointer), *esp_nn) if own is None else own

    def as_run(self, graph: Graph, order: Sequence[int]) -> list[int]:
        """The file's order."""
        return list(order)


def scratch(graph: Graph, op: Op, pointer: int = 8) -> tuple[int, ...]:
    """Bytes of each scratch buffer that the op's reference kernel asks for, in the order of asking. `pointer`: bytes
    of one."""
    data = [graph.tensor_by_id[t] for t in op.inputs]
    if not data or not op.outputs:
        return ()
    output = graph.tensor_by_id[op.outputs[0]]
    source = data[0]
    quantised = source.dtype in ("int8", "int16")
    if op.type in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        weights = data[1] if len(data) > 1 else None
        return (prod(weights.shape or ()),) if weights is not None and weights.dtype == "int4" else ()
    if op.type == "TRANSPOSE_CONV":
        source = data[2] if len(data) > 2 else source
        bias = data[3] if len(data) > 3 else None
        wide = {"int8": 4, "int16": 8}.get(source.dtype or "")
        if wide is None:
            return ()
        converted = (8 * prod(bias.shape or ()),) if source.dtype == "int16" and bias and bias.dtype == "int16" else ()
        return (wide * prod(output.shape or ()), *converted)
    if op.type in _REDUCERS and len(data) > 1:
        axes = max(prod(data[1].shape or ()), 1)
        walk = (_INT * len(source.shape or ()), _INT * axes)
        sums = quantised and op.type in ("MEAN", "SUM")
        return (_INT * prod(output.shape or ()), *walk) if sums else walk
    if op.type == "ADD_N":
        return (pointer * len(data),)
    if op.type == "MIRROR_PAD":
        return (_INT * len(source.shape or ()),) * 2
    if op.type == "SVDF" and len(data) > 1 and source.shape and data[1].shape:
        batches, filters = source.shape[0], data[1].shape[0]
        units = (output.shape or (0,))[-1]
        return (4 * batches * filters, 4 * batches * units) if quantised else (4 * batches * filters,)
    if op.type == "CUSTOM:SignalRfft":
        return (custom_numbers(op.attributes).get("fft_length", 0) * _WIDTH.get(source.dtype or "", 0),)
    if op.type == "UNIDIRECTIONAL_SEQUENCE_LSTM" and source.shape and len(source.shape) == 3 and output.shape:
        batches = source.shape[1 if op.attributes.get("time_major") else 0]
        return (batches * output.shape[-1] * (2 if quantised else 4),) * 4
    return ()


def scratch_unknown(type_: str) -> bool:
    """Whether the kernel of a type may ask for scratch that this module cannot tell: most custom operators."""
    name = type_.removeprefix("CUSTOM:")
    return name != type_ and not name.startswith("Signal") and name != "CIRCULAR_BUFFER"
