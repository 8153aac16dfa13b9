"""What a plan with cuts and moves leaves on the host whole: slices of it are loads, and what is joined to it is stored.

In the graph that memory is checked of, such a slice and such a join are ops that touch nothing. That a slice loads
rows that are there follows from the order of the part graph, in which it comes behind the join; what each transfer
carries is a piece that was checked when the parts were put together: a join has pieces of what it makes alone, so that
none of them comes from the host. Here the bytes are counted: all that is
stored, and loaded for the first time, but for what any plan has to move: each row of an input or an output once.
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
    """The part graph without its transfers, the plan without what these carry, and that in words.

    Raises
    ------
    VerificationError
        ``streams``: what is streamed is no tensor of the user's that is sliced or joined, shares its memory, or moves
        other bytes than are said.
    """
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
        self.said = {s.tensor: s for s in plan.streams or []}
        self.roles = {op.id: op.part.role for op in plan.ops if op.part is not None}
        self.boxes = {t.id: t.piece.box for t in plan.tensors if t.piece is not None}
        rules = plan.spilling or Spilling()
        if rules.lead or rules.outputs_end_fast or not (rules.inputs_have_copy and rules.outputs_written_early):
            raise _fail("tensors are streamed where moves are counted otherwise")
        if len(self.said) != len(plan.streams or []):
            raise _fail("a tensor is streamed twice")
        alone = {s.tensors[0] for s in work_out(graph, target).storages if len(s.tensors) == 1}
        for t in self.said:
            if t in self.boxes or t not in graph.tensor_by_id or t not in alone:
                raise _fail(f"tensor {t} cannot lie on the host by itself")

    def run(self) -> tuple[Graph, Plan, str]:
        graph, said = self.graph, self.said
        loads = [op for op in graph.ops if self.roles.get(op.id) == "slice" and op.inputs[0] in said]
        stores = self._stores()
        for t in said:
            if all(op.inputs[0] != t for op in loads) and all(op.outputs[0] != t for op in stores.values()):
                raise _fail(f"tensor {t} is streamed, and neither sliced nor joined")
        self.loads = {op.id: op for op in loads}
        self.stores = stores
        rows = {op.outputs[0] for op in loads}
        put_together = {op.outputs[0] for op in stores.values()}
        pieces = {t for op in stores.values() for t in op.inputs} - put_together
        ops = tuple(self._left(op, rows) for op in graph.ops)
        read = {t for op in (*ops, *graph.folded) for t in op.inputs}
        tensors = []
        for t in graph.tensors:
            if t.id in put_together and t.id not in read:
                continue
            inward = t.id in rows or (t.id in said and (t.id in put_together or t.id not in graph.producer))
            outward = t.id in pieces or (t.id in said and not inward)
            tensors.append(replace(t, kind=Kind.INPUT if inward else Kind.OUTPUT if outward else t.kind))
        moved = sum(self._moved(s, s.tensor in read) for s in said.values())
        return (
            replace(graph, tensors=tuple(tensors), ops=ops),
            self._rest_of_plan(moved),
            (f"{format_count(len(said), 'tensor')} on the host whole, {format_size(moved)} moved of them"),
        )

    def _stores(self) -> dict[int, Op]:
        """Joins to what is streamed; and joins of groups that only such joins read."""
        stores: dict[int, Op] = {}
        for op in reversed(self.graph.ops):
            if self.roles.get(op.id) == "join":
                t = op.outputs[0]
                readers = self.graph.consumers.get(t, ())
                if t in self.said or (t in self.boxes and readers and stores.keys() >= set(readers)):
                    stores[op.id] = op
        return stores

    def _left(self, op: Op, rows: set[int]) -> Op:
        """The op in the fast memory: nothing of a transfer; who reads from the host comes behind what it waits for."""
        transfer = op.id in self.loads or op.id in self.stores
        waits = [t for t in op.inputs if transfer or t in rows or t in self.said]
        if not transfer and not waits:
            return op
        behind = tuple({self.graph.producer[t]: None for t in waits if t in self.graph.producer})
        if transfer:
            return replace(op, inputs=(), outputs=(), operands=(), after=(*op.after, *behind), workspace=0)
        return replace(op, after=(*op.after, *behind))

    def _moved(self, stream: PlanStream, read_whole: bool) -> int:
        """What a stream moves, which is what the plan says of it."""
        whole = self.graph.tensor_by_id[stream.tensor]
        maker = self.graph.producer.get(whole.id)
        pieces = self._pieces(whole.id)
        stored = 0 if maker is None else sum(self.graph.tensor_by_id[t].size for t in pieces) or whole.size
        stored = max(0, stored - (whole.size if whole.kind is Kind.OUTPUT else 0))
        slices = [op.outputs[0] for op in self.loads.values() if op.inputs[0] == whole.id]
        loaded = sum(self.graph.tensor_by_id[t].size for t in slices)
        again = read_whole and (maker is None or maker in self.stores)
        loaded += whole.size if again else 0
        if maker is None:
            shape = whole.shape or ()
            boxes = [self.boxes[t] for t in slices] + [[(0, n) for n in shape]] * again
            loaded = max(0, loaded - -(-whole.size * _covered(boxes) // max(1, prod(shape))))
        if (stored, loaded) != (stream.stored_bytes, stream.loaded_bytes):
            raise _fail(
                f"{whole.label} is stored with {stored} bytes and loaded with {loaded}; the plan says "
                f"{stream.stored_bytes} and {stream.loaded_bytes}"
            )
        return stored + loaded

    def _pieces(self, t: int) -> list[int]:
        """What is joined to a tensor, the groups taken apart; nothing if an op makes it whole."""
        maker = self.graph.producer.get(t)
        if maker not in self.stores:
            return []
        inner = (self._pieces(x) or [x] for x in self.stores[maker].inputs)
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
