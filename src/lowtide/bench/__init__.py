"""The benchmarks that `lowtide bench` runs: the papers' tables again, ours beside the published figures.

`schedule` runs every method on the papers' networks; `space` draws random orders of one network;
`onnxruntime` measures models in the runtime, before and after.
"""

from __future__ import annotations

from lowtide.bench.ort import OrtResults, onnxruntime
from lowtide.bench.sampling import Distribution, space
from lowtide.bench.suite import Results, schedule

__all__ = ["Distribution", "OrtResults", "Results", "onnxruntime", "schedule", "space"]
