"""Layers of a segment run in turn, a few rows a call: in which order, and how many rows of each tensor are kept.

A segment is a run of layers in the model's order. Its last layer drives: before a call, the rows that it needs are
requested from the layers that make them, and these request theirs. A tensor that is read in its segment alone is kept
in a *row buffer*, where the rows that are still needed are contiguous, as the library's functions read them::

    rows      4 5 6 | 7             row 4 is needed no more: before row 8 is made, the rows that are still needed
    buffer   [4 5 6 7]              move to the front (`Move`), and row 8 follows
    then     [5 6 7 8]

A row buffer is as large as a circular one: as many rows as are live at once. All other tensors are complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowtide.emit.cmsis_nn.layers import NO_TENSOR, Layer, Layers


@dataclass(frozen=True, slots=True)
class Call:
    """Layer `layer` (by its index) makes rows ``[first, end)``; of a sum: reads them."""

    layer: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Move:
    """The first `rows` rows in the row buffer of a tensor are dropped, and `kept` rows move to the front."""

    tensor: int
    rows: int
    kept: int


@dataclass(frozen=True)
class Segment:
    """Layers ``[begin, end)`` run together."""

    begin: int
    end: int
    rows: int  # that a call makes at most, but for a layer that runs in one
    steps: tuple[Call | Move, ...]  # calls, and moves between them
    buffers: dict[int, int]  # rows that are kept of each tensor that has a row buffer

    @property
    def calls(self) -> list[Call]:
        """Calls alone."""
        return [step for step in self.steps if isinstance(step, Call)]


@dataclass
class Flow:
    """What the segments of a model have in common."""

    layers: Layers
    # Index of the layer that makes a tensor, of the result of an IF the first
    maker: dict[int, int] = field(default_factory=dict)
    readers: dict[int, list[int]] = field(default_factory=dict)  # indices of the layers that read it, ascending

    def __post_init__(self) -> None:
        for k, layer in enumerate(self.layers.listed):
            for tensor in (layer.result, *layer.more):
                if tensor != NO_TENSOR:
                    self.maker.setdefault(tensor, k)
            for tensor in dict.fromkeys(o.tensor for o in layer.operands):
                self.readers.setdefault(tensor, []).append(k)

    def inner(self, begin: int, end: int) -> list[int]:
        """Tensors of a segment that have row buffers: made and read in it alone, row by row."""
        result = []
        for layer in self.layers.listed[begin:end]:
            readers = self.readers.get(layer.result, [])
            inside = readers and readers[-1] < end and layer.result not in self.layers.kept
            if inside and layer.streams and not layer.writes_last:
                result.append(layer.result)
        return result

    def possible(self, begin: int, end: int) -> bool:
        """Whether layers can run as a segment: each of several in rows, and what is not kept in a row buffer is not
        read in it, but for the operand of a call that comes after all of it is made."""
        listed = self.layers.listed
        if end - begin == 1:
            return True
        return all(layer.streams for layer in listed[begin:end]) and not any(
            listed[k].writes_last for k in range(begin, end - 1)
        )


def rates(flow: Flow, begin: int, end: int, rows: int) -> list[int]:
    """Rows a call of each layer of a segment: `rows` of a layer that makes more of them than the others, and of each
    other one as many as its readers use up in their calls; one at least."""
    listed = flow.layers.listed
    steps = [0] * (end - begin)  # rows of each layer for one of the last layer's
    for k in range(end - 1, begin - 1, -1):
        layer = listed[k]
        wanted = [
            steps[reader - begin] * operand.window.stride
            for reader in flow.readers.get(layer.result, [])
            if begin <= reader < end
            for operand in listed[reader].operands
            if operand.tensor == layer.result and operand.window is not None
        ]
        steps[k - begin] = max(wanted, default=1)
    times = max(1, rows // max(steps))
    return [max(1, min(rows, times * step, listed[begin + k].rows)) for k, step in enumerate(steps)]


class _Run:
    """A segment while it runs."""

    def __init__(self, flow: Flow, begin: int, end: int, rows: int) -> None:
        self.flow, self.begin, self.end = flow, begin, end
        self.listed = flow.layers.listed
        self.done = dict.fromkeys(range(begin, end), 0)
        self.rates = rates(flow, begin, end, rows)
        self.inner = flow.inner(begin, end)
        self.most = dict.fromkeys(self.inner, 0)
        self.windows = {
            t: [(k, o.window) for k in flow.readers[t] for o in self.listed[k].operands if o.tensor == t and o.window]
            for t in self.inner
        }
        self.calls: list[tuple[Call, int]] = []
        """With the first row of the result that is still needed."""

    def run(self) -> None:
        for k in (self.end - 1, *range(self.begin, self.end - 1)):
            while self.done[k] < self.listed[k].rows:
                self._request(k, min(self.listed[k].rows, self.done[k] + self.rates[k - self.begin]))

    def _request(self, k: int, upto: int) -> None:
        layer, layers = self.listed[k], self.flow.layers
        while self.done[k] < upto:
            first = self.done[k]
            end = min(upto, first + self.rates[k - self.begin])
            for operand in layer.operands:
                maker = self.flow.maker.get(operand.tensor, -1)
                if self.begin <= maker < self.end:
                    self._request(maker, layers.reads(layer, operand, first, end)[1])
            self._call(k, layer, first, end)

    def _call(self, k: int, layer: Layer, first: int, end: int) -> None:
        needed = 0
        if layer.result in self.most:
            needed = self._needed(layer.result, first)
            self.most[layer.result] = max(self.most[layer.result], end - needed)
        self.calls.append((Call(k, first, end), needed))
        self.done[k] = end

    def _needed(self, tensor: int, rows_made: int) -> int:
        """The first row of a tensor that some reader has still to read."""
        least = rows_made
        for reader, window in self.windows[tensor]:
            at = self.done[reader]
            if at < self.listed[reader].rows:
                least = min(least, max(0, at * window.stride - window.before))
        return least


def segment(flow: Flow, begin: int, end: int, rows: int) -> Segment:
    """How layers ``[begin, end)`` run in calls of a given number of rows (`rates`)."""
    run = _Run(flow, begin, end, rows)
    run.run()
    steps: list[Call | Move] = []
    front = dict.fromkeys(run.inner, 0)
    for call, needed in run.calls:
        tensor = run.listed[call.layer].result
        if tensor in front and call.end - front[tensor] > run.most[tensor]:
            steps.append(Move(tensor, needed - front[tensor], call.first - needed))
            front[tensor] = needed
        steps.append(call)
    return Segment(begin, end, rows, tuple(steps), run.most)
