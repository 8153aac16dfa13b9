"""The benchmarks that `lowtide bench` runs: the papers' tables again, ours beside the published figures.

`schedule` runs every method on the papers' networks; `space` draws random orders of one network;
`onnxruntime`, `tflite` and `executorch` measure models in their runtimes, before and after;
`allocate` places buffers and arenas with every allocator; `spill` runs COSMA's networks in a small fast memory.
"""

from __future__ import annotations

from lowtide.bench.allocation import Arenas, allocate
from lowtide.bench.ort import OrtResults, onnxruntime
from lowtide.bench.pte import ExecutorchResults, executorch
from lowtide.bench.sampling import Distribution, space
from lowtide.bench.spilling import SpillResults, spill
from lowtide.bench.suite import Results, schedule
from lowtide.bench.tflm import TfliteResults, tflite

__all__ = [
    "Arenas",
    "Distribution",
    "ExecutorchResults",
    "OrtResults",
    "Results",
    "SpillResults",
    "TfliteResults",
    "allocate",
    "executorch",
    "onnxruntime",
    "schedule",
    "space",
    "spill",
    "tflite",
]
