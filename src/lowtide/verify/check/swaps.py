"""Plans whose tensors are stored on the host and loaded back: the graph with these ops, and when the last op ends.

Nothing here is shared with the search. The clock is played op by op on the plan's own graph, tensor by tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.rewrites import Swap, Swapping
from lowtide.verify.check.memory import CheckedMemory

_STORE, _LOAD = "StoreToHost", "LoadFromHost"


def swaps_of(plan: Plan) -> list[Swap]:
    """What a plan says is stored."""
    return [r for r in plan.rewrites or () if isinstance(r, Swap)]


def with_stores(graph: Graph, swaps: Sequence[Swap], ops: dict[int, Op], names: Mapping[int, str]) -> None:
    """Add the stores to the ops of a graph. Raises `VerificationError`: ``rewrites``: one stores what no op makes, what
    shares another tensor's memory, or what is stored already."""
    stored: set[int] = set()
    for s in swaps:
        tensor = graph.tensor_by_id.get(s.tensor)
        if tensor is None or tensor.id not in graph.producer or tensor.alias_of is not None or s.store in ops:
            raise VerificationError("rewrites", f"op {s.store} cannot store tensor {s.tensor}")
        if s.tensor in stored or tensor.kind is not Kind.ACTIVATION:
            raise VerificationError("rewrites", f"tensor {s.tensor} is stored twice, or is there at the end")
        stored.add(s.tensor)
        ops[s.store] = Op(s.store, (s.tensor,), (), names.get(s.store, ""), _STORE)


def with_loads(
    swaps: Sequence[Swap],
    ops: dict[int, Op],
    tensors: dict[int, Tensor],
    op_names: Mapping[int, str],
    names: Mapping[int, str],
    user_tensor: Mapping[int, int],
) -> None:
    """Add the loads, and let ops read what they make; `user_tensor`: of each tensor of a clone the user's own. Raises
    `VerificationError`: ``rewrites``: a load makes a tensor that is there, or is for an op that does not read what was
    stored."""
    for s in swaps:
        if not s.loads:
            raise VerificationError("rewrites", f"tensor {s.tensor} is stored, and never loaded")
        for load in s.loads:
            if load.op in ops or load.output in tensors:
                raise VerificationError("rewrites", f"op {load.op} cannot load tensor {load.output}")
            if user_tensor.get(load.instead, load.instead) != s.tensor:
                raise VerificationError("rewrites", f"tensor {load.instead} is not what op {s.store} stores")
            for reader in load.readers:
                op = ops.get(reader)
                if op is None or op.type == _STORE or load.instead not in op.inputs:
                    raise VerificationError("rewrites", f"op {reader} does not read tensor {load.instead}")
                ops[reader] = reading(op, {load.instead: load.output})
            ops[load.op] = Op(load.op, (), (load.output,), op_names.get(load.op, ""), _LOAD, after=(s.store,))
            tensors[load.output] = replace(tensors[s.tensor], id=load.output, name=names.get(load.output, ""))


def reading(op: Op, instead: Mapping[int, int]) -> Op:
    """The op with other tensors in the place of some that it reads."""
    return replace(
        op,
        inputs=tuple(instead.get(t, t) for t in op.inputs),
        operands=tuple(None if t is None else instead.get(t, t) for t in op.operands),
        overwrites=None if op.overwrites is None else tuple(instead.get(t, t) for t in op.overwrites),
    )


def time_of(changed: Graph, memory: CheckedMemory, plan: Plan, units: Mapping[int, int]) -> int:
    """Nanoseconds until the last op of a plan has ended. `changed`, `memory`: the plan's graph, with clones and
    transfers, and its memory. `units`: nanoseconds of each op that runs, by id."""
    swapping = plan.swapping
    assert swapping is not None, plan.graph
    there: dict[int, int] = {}
    ops_end = stores_end = loads_end = 0
    for v in plan.order:
        op = changed.op_by_id[v]
        if op.type == _STORE:
            place = memory.storage_of[op.inputs[0]]
            begun = max(stores_end, there[place])
            stores_end = begun + _takes(memory.storages[place].size, swapping.to_host)
            ops_end = max(ops_end, stores_end)
        elif op.type == _LOAD:
            place = memory.storage_of[op.outputs[0]]
            begun = max(loads_end, ops_end)
            loads_end = there[place] = begun + _takes(memory.storages[place].size, swapping.from_host)
        else:
            touched = [memory.storage_of[t] for t in (*op.inputs, *op.outputs) if t in memory.storage_of]
            ops_end = max([ops_end, *(there.get(place, 0) for place in touched)]) + units[v]
            for place in touched:
                there.setdefault(place, ops_end)
    kept = [at for place, at in there.items() if memory.storages[place].at_end]
    return max([ops_end, *kept])


def _takes(size: int, rate: float) -> int:
    exact = Fraction(size) / Fraction(rate) * 1_000_000_000
    return -(-exact.numerator // exact.denominator)


def check_swapping(plan: Plan, sizes: Mapping[int, int], ran: int, took: int) -> str:
    """Check the bytes of transfers and the time that ops wait for them. `sizes`: bytes of each stored tensor's storage.
    `ran`, `took`: nanoseconds of all runs, and until the last has ended. Raises `VerificationError`: ``recompute``: a
    rate is none, or bytes or waiting are not what they add up to."""
    swapping = plan.swapping
    assert swapping is not None, plan.graph
    swaps = swaps_of(plan)
    stored = sum(sizes[s.tensor] for s in swaps)
    loaded = sum(sizes[s.tensor] * len(s.loads) for s in swaps)
    if (swapping.stored_bytes, swapping.loaded_bytes) != (stored, loaded):
        raise VerificationError("recompute", f"{stored} bytes are stored and {loaded} loaded; the plan says otherwise")
    if swapping.waiting_nanoseconds != took - ran:
        raise VerificationError("recompute", f"ops wait {took - ran} ns, and not {swapping.waiting_nanoseconds}")
    return f"; {len(swaps):,} tensors leave memory, {stored:,} bytes out and {loaded:,} in, {took - ran:,} ns waiting"


def check_rates(swapping: Swapping, graph: Graph) -> None:
    """Check that rates and times are such. Raises `VerificationError` ``recompute``."""
    if not (0 < swapping.to_host < 1e30 and 0 < swapping.from_host < 1e30):
        raise VerificationError("recompute", f"{swapping.to_host} and {swapping.from_host} bytes a second are no rates")
    each = swapping.op_nanoseconds
    if len(each) != len(graph.ops) or any(not 0 <= units < 2**52 for units in each):
        raise VerificationError("recompute", f"times of {len(each)} ops are given, and {len(graph.ops)} are there")


def transfer_rates(plan: Plan) -> tuple[Fraction, Fraction] | None:
    """Bytes per nanosecond to the host and back; None if nothing is moved."""
    swapping = plan.swapping
    if swapping is None:
        return None
    return Fraction(swapping.to_host) / 1_000_000_000, Fraction(swapping.from_host) / 1_000_000_000
