"""Rules of single runtimes, kernel by kernel, where the op table says too much or too little.

A rule answers what `lowtide.target.Target` is asked, one op at a time. A target names its rule in the field `rule`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lowtide.graph import Graph, Op
from lowtide.rules.litert.rule import LitertRule
from lowtide.rules.onnxruntime.rule import OnnxRuntimeRule
from lowtide.rules.tflm.rule import TflmRule


class Rule(Protocol):
    """What a runtime's kernels do with memory."""

    def view_source(self, graph: Graph, op: Op) -> int | None:
        """The tensor whose storage the op's output shares, as a view; None: it is no view."""
        ...

    def in_place_inputs(self, graph: Graph, op: Op) -> tuple[int, ...]:
        """Inputs that the kernel may write over, whether or not a target counts that as an overlap."""
        ...

    def overlap_inputs(self, graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
        """Inputs that the output may overlap in part, each with the least bytes by which it begins below."""
        ...

    def workspace(self, graph: Graph, op: Op) -> int:
        """Bytes that the op's kernel asks for while it runs, in addition to what the graph says."""
        ...

    def as_run(self, graph: Graph, order: Sequence[int]) -> list[int]:
        """The order in which the runtime runs a file whose ops stand in `order`; both are op ids."""
        ...


RULES: Mapping[str, Rule] = {
    "onnxruntime": OnnxRuntimeRule(),
    "tflite": LitertRule(),
    "tflm": TflmRule(),
}
"""By name. TFLM's rule depends on whose kernels run: `lowtide.target.Target` says."""
