"""The benchmarks that `lowtide research bench` runs: the papers' tables again, ours beside the published figures.

>>> from lowtide_research.bench.command import suites
>>> list(suites())
['schedule', 'space', 'onnxruntime', 'tflite', 'executorch', 'allocate', 'spill']
"""

from __future__ import annotations

from lowtide_research.bench.suite import Results, Watch, run

__all__ = ["Results", "Watch", "run"]
