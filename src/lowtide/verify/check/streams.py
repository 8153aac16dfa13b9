"""Tensors that a plan with cuts and moves leaves on the host: their slices are loads, and their concats are stores.

In the graph whose memory is checked, such slices and concats are ops that touch nothing. That a slice loads rows that
were stored follows from the order of the tiled graph, in which the slice comes after the concat. What each transfer
carries was checked when the tiled graph was built: a concat has tiles of its result alone, so that none of them comes
from the host. Here the bytes are counted: all that is stored, and loaded for the first time, but for what any plan has
to move: each row of an input or an output once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

import msgspec

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op
from lowtide.plan import Plan
from lowtide.rewrites import Rows
from lowtide.sizes import format_count, format_size
from lowtide.spill_plan import PlanStream, Spilling
from lowtide.target import Target
from lowtide.verify.check.memory import work_out


def in_the_fast_memory(graph: Graph, plan: Plan, target: Target) -> tuple[Graph, Plan, str]:
    """The tiled graph without its transfers, the plan without what these carry, and that in words. Raises
    `VerificationError`: ``streams``: what is streamed is no tensor of the user's that is sliced or concatenated, shares
    its memory, or moves other bytes than the plan says."""
    if plan.streams is None:
        return graph, plan, "none"
    return _Streams(graph, plan, target).run()


def _fail(text: str) -> VerificationError:
    return VerificationError("streams", text)


class _Streams:
    def __init__(self, graph: Graph, plan: Plan, target: Target) -> None:
        self.graph, self.plan = graph, plan
        self.loads: dict[int, Op] = {}
        self.stores: dict[int, Op] = {}
        self.streams = {s.tensor: s for s in plan.streams or []}
        self.roles = {op.id: op.part.role for op in plan.ops if op.part is not None}
        self.boxes = {t.id: t.piece.box for t in plan.tensors if t.piece is not None}
        rules = plan.spilling or Spilling()
        if rules.lead or rules.outputs_end_fast or not (rules.inputs_have_copy and rules.outputs_written_early):
            raise _fail("tensors are streamed where moves are counted otherwise")
        if len(self.streams) != len(plan.streams or []):
            raise _fail("a tensor is streamed twice")
        alone = {s.tensors[0] for s in work_out(graph, target).storages if len(s.tensors) == 1}
        for t in self.streams:
            if t in self.boxes or t not in graph.tensor_by_id or t not in alone:
                raise _fail(f"tensor {t} cannot be on the host by itself")

    def run(self) -> tuple[Graph, Plan, str]:
        graph, streams = self.graph, self.streams
        loads = [op for op in graph.ops if self.roles.get(op.id) == "slice" and op.inputs[0] in streams]
        stores = self._stores()
        for t in streams:
            if all(op.inputs[0] != t for op in loads) and all(op.outputs[0] != t for op in stores.values()):
                raise _fail(f"tensor {t} is streamed, and neither sliced nor concatenated")
        self.loads = {op.id: op for op in loads}
        self.stores = stores
        rows = {op.outputs[0] for op in loads}
        concatenated = {op.outputs[0] for op in stores.values()}
        tiles = {t for op in stores.values() for t in op.inputs} - concatenated
        ops = tuple(self._left(op, rows) for op in graph.ops)
        read = {t for op in (*ops, *graph.folded) for t in op.inputs}
        tensors = []
        for t in graph.tensors:
            if t.id in concatenated and t.id not in read:
                continue
            inward = t.id in rows or (t.id in streams and (t.id in concatenated or t.id not in graph.producer))
            outward = t.id in tiles or (t.id in streams and not inward)
            tensors.append(replace(t, kind=Kind.INPUT if inward else Kind.OUTPUT if outward else t.kind))
        moved = sum(self._moved(s, s.tensor in read) for s in streams.values())
        return (
            replace(graph, tensors=tuple(tensors), ops=ops),
            self._rest_of_plan(moved),
            (f"{format_count(len(streams), 'tensor')} on the host whole, {format_size(moved)} moved of them"),
        )

    def _stores(self) -> dict[int, Op]:
        """Concats to what is streamed; and concats of groups that only such concats read."""
        stores: dict[int, Op] = {}
        for op in reversed(self.graph.ops):
            if self.roles.get(op.id) == "join":
                t = op.outputs[0]
                readers = self.graph.consumers.get(t, ())
                if t in self.streams or (t in self.boxes and readers and stores.keys() >= set(readers)):
                    stores[op.id] = op
        return stores

    def _left(self, op: Op, rows: set[int]) -> Op:
        """The op in the fast memory: a transfer touches nothing; what reads from the host runs after its producers."""
        transfer = op.id in self.loads or op.id in self.stores
        waits = [t for t in op.inputs if transfer or t in rows or t in self.streams]
        if not transfer and not waits:
            return op
        behind = tuple({self.graph.producer[t]: None for t in waits if t in self.graph.producer})
        if transfer:
            return replace(op, inputs=(), outputs=(), operands=(), after=(*op.after, *behind), workspace=0)
        return replace(op, after=(*op.after, *behind))

    def _moved(self, stream: PlanStream, is_read: bool) -> int:
        """What a stream moves, which is what the plan says of it."""
        tensor = self.graph.tensor_by_id[stream.tensor]
        maker = self.graph.producer.get(tensor.id)
        tiles = self._operands_of(tensor.id)
        stored = 0 if maker is None else sum(self.graph.tensor_by_id[t].size for t in tiles) or tensor.size
        stored = max(0, stored - (tensor.size if tensor.kind is Kind.OUTPUT else 0))
        slices = [op.outputs[0] for op in self.loads.values() if op.inputs[0] == tensor.id]
        loaded = sum(self.graph.tensor_by_id[t].size for t in slices)
        loads_all = is_read and (maker is None or maker in self.stores)
        loaded += tensor.size if loads_all else 0
        if maker is None:
            shape = tensor.shape or ()
            boxes = [self.boxes[t] for t in slices] + [[(0, n) for n in shape]] * loads_all
            loaded = max(0, loaded - -(-tensor.size * _covered(boxes) // max(1, prod(shape))))
        if (stored, loaded) != (stream.stored_bytes, stream.loaded_bytes):
            raise _fail(
                f"{tensor.label} is stored with {stored} bytes and loaded with {loaded}; the plan says "
                f"{stream.stored_bytes} and {stream.loaded_bytes}"
            )
        return stored + loaded

    def _operands_of(self, t: int) -> list[int]:
        """What is concatenated to a tensor, groups expanded; nothing if an op makes all of the tensor."""
        maker = self.graph.producer.get(t)
        if maker not in self.stores:
            return []
        inner = (self._operands_of(x) or [x] for x in self.stores[maker].inputs)
        return [x for listed in inner for x in listed]

    def _rest_of_plan(self, moved: int) -> Plan:
        """The plan of what is left: of the traffic and of its bound what the streams do not carry."""
        plan = self.plan
        traffic, bound = (plan.traffic_bytes or 0) - moved, (plan.traffic_lower_bound_bytes or 0) - moved
        if bound < 0:
            raise _fail(f"the streams move {moved} bytes, and the bound is {plan.traffic_lower_bound_bytes}")
        return msgspec.structs.replace(plan, traffic_bytes=traffic, traffic_lower_bound_bytes=bound, streams=None)


def _covered(boxes: Sequence[Sequence[Rows]]) -> int:
    """Elements in some of the boxes: cells of the grid that their ends make, each counted once."""
    if not boxes:
        return 0
    marks = [sorted({end for box in boxes for end in box[d]}) for d in range(len(boxes[0]))]
    cells: set[tuple[int, ...]] = set()
    for box in boxes:
        inner = [[k for k, at in enumerate(m) if a <= at < b] for m, (a, b) in zip(marks, box, strict=True)]
        cells.update(product(*inner))
    return sum(prod(m[k + 1] - m[k] for m, k in zip(marks, cell, strict=True)) for cell in cells)
