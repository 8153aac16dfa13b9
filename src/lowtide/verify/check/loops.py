"""Loops of a plan: the graph with an op for each, rebuilt from the user's own, and a replay of every loop.

Each read is looked up in a circular line buffer: slot p mod R holds position p, or a later one. Where a tensor shares
the memory of another one, both are looked up in the same slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import get_args

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.rewrites import Exactness, PlanLoop
from lowtide.sizes import format_count
from lowtide.target import Target
from lowtide.verify.check.loop_behind import Sharing, block_begins, check_behind, check_sums_apart, kept_bytes
from lowtide.verify.check.loop_play import Event, LoopPlay, fail, ids_of

LOOP = "RowLoop"
_LONGER = {"int8": 4, "uint8": 4, "int16": 8, "uint16": 8, "float16": 4, "bfloat16": 4}
"""Bytes of what elements of these types are added up in; others are added up in their own."""
_OWN = ("float32", "float64", "int32", "int64", "uint32", "uint64")


def looped(graph: Graph, plan: Plan) -> Graph:
    """The graph with an op for each of the plan's loops. Raises `VerificationError`: ``loops``: an op is in two loops,
    others read what one keeps in line buffers, or a loop waits for another one."""
    if plan.version < 2:
        raise fail("a plan with loops is version 2")
    if plan.rewrites:
        raise fail("ops are tiled or recomputed in a plan with loops")
    with _fitting():
        return _looped(graph, plan)


@contextmanager
def _fitting() -> Iterator[None]:
    """A plan's file may say anything: what does not fit together fails, and is no reason to stop otherwise."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        if isinstance(error, VerificationError):
            raise
        raise fail(f"what the plan says of its loops does not fit together ({type(error).__name__}: {error})") from None


def _looped(graph: Graph, plan: Plan) -> Graph:
    inside: dict[int, int] = {}
    gone: set[int] = set()
    for loop in plan.loops or ():
        for table in (loop.along, loop.axis, loop.merge, loop.keep, loop.sums, loop.streamed, loop.behind):
            ids_of(table)
        if loop.op in graph.op_by_id or any(o in inside or o not in graph.index_of for o in loop.ops):
            raise fail(f"loop {loop.op} shares an op with another, or is an op of the graph itself")
        inside.update(dict.fromkeys(loop.ops, loop.op))
        gone |= _kept(graph, loop)
    listed = {op.id: op.origin for op in plan.ops if op.origin is not None}
    if listed != {loop.op: loop.ops for loop in plan.loops or ()}:
        raise fail("the ops and the loops name different ops that run in loops")
    ops = [op for op in graph.ops if op.id not in inside]
    ops += [_as_op(graph, loop, gone, plan) for loop in plan.loops or ()]
    tensors = [t for t in graph.tensors if t.id not in gone]
    tensors += [_block(loop, plan) for loop in plan.loops or () if _is_block(graph, loop)]
    return replace(graph, tensors=tuple(tensors), ops=_in_order(ops), file_order=())


def _is_block(graph: Graph, loop: PlanLoop) -> bool:
    """Whether all that a loop keeps is a tensor of the plan, which may lie over an input."""
    return loop.over is not None and loop.over not in graph.tensor_by_id


def _block(loop: PlanLoop, plan: Plan) -> Tensor:
    """That tensor."""
    assert loop.over is not None, loop
    names = {t.id: t.name for t in plan.tensors}
    return Tensor(loop.over, kept_bytes(loop, plan), name=names.get(loop.over, ""))


def _kept(graph: Graph, loop: PlanLoop) -> set[int]:
    """Tensors that are never materialised: no op outside of the loop reads them."""
    made = {t for o in loop.ops for t in graph.op_by_id[o].outputs}
    result = set()
    for key in (*loop.keep, *loop.streamed):
        t = graph.tensor_by_id.get(int(key))
        if t is None or any(r not in loop.ops for r in graph.consumers.get(t.id, ())):
            raise fail(f"tensor {key} is read outside of loop {loop.op}, and is not complete there")
        streamed = key in loop.streamed
        if t.kind is not Kind.INPUT if streamed else (t.id not in made or t.kind is Kind.OUTPUT):
            raise fail(f"tensor {key} is not loop {loop.op}'s to keep")
        if streamed and loop.streamed[key] != t.name:
            raise fail(f"{t.label} is streamed by the name {loop.streamed[key]!r}")
        if streamed and key not in loop.keep:
            raise fail(f"input {key} is streamed and not kept")
        if any(t.id in (other.id, other.alias_of) for other in graph.tensors if other.alias_of is not None):
            raise fail(f"tensor {key} shares memory by the graph's own aliases")
        result.add(t.id)
    return result


def _as_op(graph: Graph, loop: PlanLoop, gone: set[int], plan: Plan) -> Op:
    members = [graph.op_by_id[o] for o in loop.ops]
    made = {t for op in members for t in op.outputs}
    read = tuple(dict.fromkeys(t for op in members for t in op.inputs if t not in made | gone))
    leaving = tuple(t for op in members for t in op.outputs if t not in gone)
    if sorted(map(int, loop.merge)) != sorted(leaving):
        raise fail(f"loop {loop.op} does not say how its results are completed")
    if min((*(r.slots for r in loop.keep.values()), *(r.bytes for r in loop.keep.values())), default=0) < 0:
        raise fail(f"loop {loop.op} has line buffers of negative size")
    names = {op.id: op.name for op in plan.ops}
    name, kept = names.get(loop.op, ""), kept_bytes(loop, plan)
    if loop.over is None:
        if loop.behind:
            raise fail(f"loop {loop.op} says what lies behind an input, and not which tensor")
        return Op(loop.op, read, leaving, name, LOOP, workspace=kept)
    if not _is_block(graph, loop) and loop.over not in leaving:
        raise fail(f"tensor {loop.over} is to overlap an input, and is no result of loop {loop.op}")
    size = kept if _is_block(graph, loop) else graph.tensor_by_id[loop.over].size
    near = all(0 <= d < size and d % plan.alignment == 0 for d in loop.behind.values())
    if len(loop.behind) != 1 or not set(map(int, loop.behind)) & set(read) or not near:
        raise fail(f"loop {loop.op} reads no input that tensor {loop.over} could overlap, or not at such a distance")
    behind = {"behind": tuple((int(t), distance) for t, distance in loop.behind.items())}
    outputs = (loop.over, *(t for t in leaving if t != loop.over))
    kept = 0 if _is_block(graph, loop) else kept
    return Op(loop.op, read, outputs, name, LOOP, workspace=kept, attributes=behind)


def _in_order(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Ops after what they need. Raises ``loops`` if there is no such order."""
    maker = {t: op.id for op in ops for t in op.outputs}
    there = {op.id: op for op in ops}
    needs = {op.id: [maker[t] for t in op.inputs if t in maker] + [o for o in op.after if o in there] for op in ops}
    try:
        return tuple(there[o] for o in TopologicalSorter(needs).static_order())
    except CycleError:
        raise fail("a loop needs what another op computes from its results") from None


def check_loops(graph: Graph, plan: Plan, target: Target) -> str:
    """``loops``: replay each loop; reads find their line buffers filled, buffers share no byte, inputs come in order.
    `graph`: the user's."""
    if target.rule:
        raise fail(f"target {target.name} loops over no rows")
    if plan.proved_over is None:
        raise fail("the plan does not say over what its bound holds")
    worst: Exactness = "bits"
    classes: tuple[Exactness, ...] = get_args(Exactness)
    positions = 0
    for loop in plan.loops or ():
        with _fitting():
            play = LoopPlay(graph, loop)
            _check_memory(graph, plan, loop, play, target)
            events: Iterable[Event] = play.events()
            if loop.behind:
                events = tuple(events)
                check_behind(graph, plan, loop, play, events, target)
            positions += check_play(graph, loop, play, events)
        worst = classes[max(map(classes.index, (worst, *(_exactness(graph, play, op) for op in play.ops))))]
    if plan.exactness != worst:
        raise fail(f"the plan promises {plan.exactness!r}, its loops {worst!r}")
    streamed = [name for loop in plan.loops or () for name in loop.streamed.values()]
    more = f", {format_count(len(streamed), 'input')} handed over in turn" if streamed else ""
    return f"{format_count(len(plan.loops or ()), 'loop')}, {positions:,} positions: what is read is there{more}"


def _exactness(graph: Graph, play: LoopPlay, op: Op) -> Exactness:
    """What running in parts does to an op's numbers."""
    access = play.access[op.id]
    if not play.summed(op.id):
        return "bits" if access.exact == "bits" else "kernel"
    floats = "float" in (graph.tensor_by_id[op.outputs[0]].dtype or "")
    return "sum" if floats and access.merge == "sum" else "bits"


def _check_memory(graph: Graph, plan: Plan, loop: PlanLoop, play: LoopPlay, target: Target) -> None:
    """Line buffers hold entire positions, are in the loop's workspace, share bytes only where the plan says so, and
    take each other's memory only where that holds."""
    kept: list[tuple[int, int, str]] = []
    placed = plan.offsets is not None or loop.kept_bytes is not None
    for key, buffer in loop.keep.items():
        t = int(key)
        tensor = graph.tensor_by_id[t]
        count = prod(play.sizes(t)) if t in play.dims else 0
        if not count or buffer.bytes * count != tensor.size or buffer.name != tensor.name:
            raise fail(f"{tensor.label} has no {count} positions of {buffer.bytes} bytes")
        if buffer.over is not None:
            _check_over(graph, loop, play, target, t, buffer.over)
        elif placed:
            kept.append((_offset(buffer.offset, tensor), buffer.slots * buffer.bytes, tensor.label))
    _check_sums(graph, loop, play)
    if loop.kept_bytes is not None:
        check_sums_apart(graph, loop)
    for key, added in loop.sums.items():
        if placed:
            tensor = graph.tensor_by_id[int(key)]
            kept.append((_offset(added.offset, tensor), added.bytes, f"the sums of {tensor.label}"))
    begin = block_begins(graph, plan, loop)
    end = begin + kept_bytes(loop, plan)
    at = begin
    for start, size, name in sorted(kept):
        if start < at or start % plan.alignment or start + size > end:
            raise fail(
                f"{name} is at {start}, outside of the loop's {begin} to {end}, over another line buffer, or unaligned"
            )
        at = begin if loop.kept_bytes is not None else start + size


def _offset(offset: int | None, tensor: Tensor) -> int:
    if offset is None:
        raise fail(f"{tensor.label} has no place")
    return offset


def _check_sums(graph: Graph, loop: PlanLoop, play: LoopPlay) -> None:
    """What is added up has an accumulator that holds it, and the plan says how each result is materialised."""
    needed: dict[str, int] = {}
    for op in play.ops:
        access = play.access[op.id]
        for t in op.outputs:
            merge = access.merge if play.summed(op.id) else "concat"
            if loop.merge.get(str(t), "concat" if str(t) in loop.keep else None) != merge:
                raise fail(f"tensor {t} is completed by {merge}")
            tensor = graph.tensor_by_id[t]
            if play.summed(op.id) and tensor.dtype not in (*_OWN, *_LONGER):
                raise fail(f"{tensor.label} of type {tensor.dtype} cannot be summed in tiles")
            if play.summed(op.id) and merge == "sum" and tensor.dtype in _LONGER:
                needed[str(t)] = _LONGER[tensor.dtype] * prod(tensor.shape or ())
    if needed != {key: added.bytes for key, added in loop.sums.items()}:
        raise fail(f"loop {loop.op} needs accumulators of {needed} bytes")


def _check_over(graph: Graph, loop: PlanLoop, play: LoopPlay, target: Target, one: int, other: int) -> None:
    """Two tensors have the same memory: an op between them reads just the position that it makes, and no other op reads
    the first one. In a materialised result the tensor is live until the last of these ops writes the result."""
    if str(other) in loop.keep:
        _check_in_place(graph, play, target, other, one)
        return
    above = {r.over: int(key) for key, r in loop.keep.items() if r.over is not None and str(r.over) in loop.keep}
    last, steps = one, 0
    while last in above and steps <= len(above):
        last, steps = above[last], steps + 1
    _check_in_place(graph, play, target, last, other)


def _check_in_place(graph: Graph, play: LoopPlay, target: Target, read: int, result: int) -> None:
    makers = [op for op in play.ops if result in op.outputs]
    if len(makers) != 1:
        raise fail(f"tensor {result} is not made by one op alone")
    op = makers[0]
    allowed = read in target.in_place_inputs(graph, op) or target.view_source(graph, op) == read
    readers = graph.consumers.get(read, ())
    times = [t for t, _ in play.operands(op)].count(read)
    if not allowed or readers != (op.id,) or times != 1:
        raise fail(f"{op.label} may not write over tensor {read}")
    if play.sizes(read) != play.sizes(result):
        raise fail(f"tensors {read} and {result} have other positions")
    for number in range(play.count(op.id)):
        row, column = divmod(number, play.sizes(result)[1])
        for t, span in play.reads(op, number):
            if t == read and span != ((row, row + 1), (column, column + 1)):
                raise fail(f"{op.label} reads more of tensor {read} than the position that it makes")


def check_play(graph: Graph, loop: PlanLoop, play: LoopPlay, events: Iterable[Event]) -> int:
    """Follow the events of a loop; how many positions ran."""
    home, slots_of = _homes(loop, play)
    held: dict[int, dict[int, tuple[int, int]]] = {t: {} for t in slots_of}
    streaming = {t: _stream_dimension(graph, t) for t in play.given}
    for t, dimension in streaming.items():
        if play.dims[t][0] != dimension:
            raise fail(f"input {t} would be handed over along dimension {play.dims[t][0]}, and comes along {dimension}")
    ran, sharing = 0, Sharing.of(loop)
    for event in events:
        for t, ((a, b), (c, d)) in event.reads:
            width, buffer, slots = play.sizes(t)[1], held[home[t]], slots_of[home[t]]
            for row in range(a, b):
                for position in range(row * width + c, row * width + d):
                    if buffer.get(position % slots) != (t, position):
                        label = graph.tensor_by_id[t].label
                        raise fail(f"op {event.op} reads position {position} of {label}, which is no longer live")
        for t in event.makes:
            if t in home:
                slot = event.position % slots_of[home[t]]
                if sharing.on.get(home[t]):
                    sharing.write(held, home[t], slot, _slots_read(play, event, home, slots_of))
                held[home[t]][slot] = (t, event.position)
        ran += 1
    return ran


def _slots_read(
    play: LoopPlay, event: Event, home: Mapping[int, int], slots_of: Mapping[int, int]
) -> set[tuple[int, int]]:
    """(line buffer, slot) of all that a position reads."""
    return {
        (home[t], (row * play.sizes(t)[1] + column) % slots_of[home[t]])
        for t, ((a, b), (c, d)) in event.reads
        for row in range(a, b)
        for column in range(c, d)
    }


def _homes(loop: PlanLoop, play: LoopPlay) -> tuple[dict[int, int], dict[int, int]]:
    """In which tensor's slots each tensor that is kept in tiles is, and how many these are."""
    home: dict[int, int] = {}
    for t in play.dims:
        at = t
        while str(at) in loop.keep and (over := loop.keep[str(at)].over) is not None:
            at = over
        home[t] = at
    slots = {t: loop.keep[str(t)].slots if str(t) in loop.keep else prod(play.sizes(t)) for t in set(home.values())}
    if any(loop.keep[str(t)].slots != slots[at] for t, at in home.items() if str(t) in loop.keep):
        raise fail(f"line buffers of loop {loop.op} that share memory have other slots")
    return home, slots


def _stream_dimension(graph: Graph, t: int) -> int | None:
    """Rows of an image, else the first dimension of more than one row."""
    shape = graph.tensor_by_id[t].shape or ()
    image = len(shape) == 4 and graph.dialect != "tflite"
    long = [d for d, size in enumerate(shape) if size > 1]
    if image:
        return 2 if 2 in long else None
    return long[0] if long else None
