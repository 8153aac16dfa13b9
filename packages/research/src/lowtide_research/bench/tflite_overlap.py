"""How far an output may lie over its input in TFLM: the rule's distances tried in the interpreter itself.

For each operator of the table of kernels, models of that one operator with random shapes, strides and paddings. The
output lies at the rule's distance below the input, and must be bit-equal to what comes out without an offline plan;
then one row nearer, and one element nearer, where it may not be. What is one element nearer and still equal is the
slack of the rule there: chance (the spoilt value was the same), or a distance that is larger than need be.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.graph import Graph
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm.kernels import distances
from lowtide.run.tflite_process import draw as draw_input
from lowtide.run.tflite_process import quiet, tflm_interpreter
from lowtide.write.tflite import planned_bytes
from lowtide_research.bench.tflite_kinds import Make, kinds
from lowtide_research.bench.tflite_net import Net

_ARENA = 4 * 2**20


def overlap_rows(shapes: int, seed: int, *, slack: bool = True) -> Iterator[OverlapRow]:
    """Try every kind on so many shapes; without `slack` the figures of elements are 0, and not looked for."""
    return (_row(kind, dtype, make, shapes, seed, slack) for (kind, dtype), make in kinds().items())


def _row(kind: str, dtype: str, make: Make, shapes: int, seed: int, of_elements: bool) -> OverlapRow:
    draw = random.Random(f"{seed} {kind} {dtype}")
    tried = equal = rows = elements = most_slack = 0
    for _ in range(shapes):
        net = Net(draw.randrange(2**31))
        inputs, out = make(draw, net)
        net.ends(inputs, [out])
        case = _Case.of(net.bytes(), inputs, out, draw.randrange(2**31))
        if case is None:
            continue
        for over, distance in distances(case.graph, case.graph.ops[0]):
            tried += 1
            if case.spoilt(over, distance, 0):
                continue
            equal += 1
            read = case.graph.tensor_by_id[over]
            shape = read.shape or (1,)
            width = read.size // int(np.prod(shape))
            row = read.size // int(np.prod(shape[:-2] or (1,)))
            rows += case.spoilt(over, distance, row)
            if not of_elements:
                continue
            slack = 0
            while slack <= 4 * row and not case.spoilt(over, distance, slack + width):
                slack += width
            elements += slack == 0
            most_slack = max(most_slack, slack)
    return OverlapRow(kind, dtype, tried, equal, rows, elements, most_slack)


@dataclass(frozen=True)
class _Case:
    """A model of one operator, random inputs, and what comes out of it without an offline plan."""

    data: bytes
    graph: Graph
    inputs: list[int]
    out: int
    feeds: list[list[np.ndarray]]
    results: list[bytes]

    @classmethod
    def of(cls, data: bytes, inputs: list[int], out: int, seed: int) -> _Case | None:
        """Run it plainly; None if TFLM refuses the model."""
        model = parse_tflite(data, "net")
        rng = np.random.default_rng(seed)
        tensors = model.subgraphs[0].tensors
        feeds = [[draw_input(rng, tensors[t].dtype, tensors[t].shape) for t in inputs] for _ in range(2)]
        results = _run(data, feeds)
        return None if results is None else cls(data, graph_of(model, [], "net", ""), inputs, out, feeds, results)

    def spoilt(self, over: int, distance: int, nearer: int) -> bool:
        """Whether outputs differ with the output `nearer` bytes less than `distance` below the input `over`."""
        tensors = self.graph.tensor_by_id
        low = max(0, nearer - distance)
        places = {self.out: low, over: low + distance - nearer}
        at = sum(t.size for t in tensors.values()) + nearer
        for other in self.inputs:
            if other != over:
                places[other] = at
                at += tensors[other].size
        return _run(planned_bytes(self.data, [0], places, "net"), self.feeds) != self.results


def _run(data: bytes, feeds: Sequence[Sequence[np.ndarray]]) -> list[bytes] | None:
    """Outputs for each of the inputs; None if TFLM refuses the model."""

    def invoke() -> list[bytes] | None:
        session = tflm_interpreter(data, _ARENA)
        if session is None:
            return None
        results = []
        for feed in feeds:
            for i, value in enumerate(feed):
                session.set_input(value, i)
            try:
                session.invoke()
            except RuntimeError:
                return None
            results.append(np.array(session.get_output(0)).tobytes())
        return results

    return quiet(invoke)[0]


@dataclass(frozen=True, slots=True)
class OverlapRow:
    """What was seen of one kind of operator."""

    # kind, dtype: operator and type of its output.
    kind: str
    dtype: str
    shapes: int  # how many shapes the rule gives an overlap for; each is tried for each input that may be overlapped
    equal: int  # at the rule's distance, bit-equal to the plain run
    # row_nearer_corrupt, element_nearer_corrupt: a row, an element nearer, and the outputs differ.
    row_nearer_corrupt: int
    element_nearer_corrupt: int
    # Largest number of bytes by which the output could lie nearer, over all shapes, with outputs still equal.
    most_slack_bytes: int
