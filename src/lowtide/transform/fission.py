"""Fission: ops of a step that run in tiles, with an axis of each op and the ends of the tiles.

::

    x ---> a ---> b ---> loss            x ---> [ a' b' loss' c' d' ]  n times ---> dw ---> update
    |      |             |        =>             slices of x, accumulated in dw
    w <- update <- dw <- d <- c <-+

It is MAGIS's fission (S, D, n) (ASPLOS 2024, section 4.2): S a convex set of ops, D one axis of each op, n tiles. A
region becomes one op of the **outer graph**. Its workspace is the peak of the largest tile, the **body**: a graph of
its own in which ops may be recomputed. A slice of an operand is a view if it is contiguous, else a copy. A tiled result
is copied to its place; a sum is accumulated in place, from the first tile on. Regions are refused if an op in them
reads the rows of a sum, or other rows than those of its tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Access
from lowtide.ops.index import Index
from lowtide.ops.meaning import meaning
from lowtide.topological import topological

PARTS = "Parts"
"""Type of the op of a region."""


Estimate = Callable[[str, float, float], float]
"""Seconds of an op of a type, of this many operations and bytes."""


class NoFission(Exception):
    """Ops that cannot be tiled; the message gives the reason."""


@dataclass(frozen=True)
class Fission:
    """Tiled ops."""

    axes: tuple[tuple[int, int], ...]  # of each op's id, in file order, the tiled axis of its access
    ends: tuple[int, ...]  # rows at which the tiles end, ascending; the last one is the size

    @property
    def rows(self) -> Counter[int]:
        """How many parts there are of a given number of rows."""
        return Counter(b - a for a, b in pairwise((0, *self.ends)))

    @property
    def all(self) -> Parts:
        """All of them."""
        return Parts(tuple(sorted(self.rows.items())), len(self.ends) - 1)

    @property
    def searched(self) -> Parts:
        """One part, the largest, that adds to sums."""
        return Parts(((max(self.rows), 1),), 1)

    @property
    def alike(self) -> dict[Parts, int]:
        """Single parts, and how many take the same time: the first adds to no sum."""
        first, *others = [b - a for a, b in pairwise((0, *self.ends))]
        found = Counter(Parts(((rows, 1),), 1) for rows in others)
        return {**found, Parts(((first, 1),), 0): 1}


@dataclass(frozen=True)
class Parts:
    """Parts whose seconds are added up: rows, ascending, with how many parts have as many; how many add to sums."""

    rows: tuple[tuple[int, int], ...]
    added: int

    @property
    def largest(self) -> int:
        """Rows of the largest."""
        return self.rows[-1][0]


def even_ends(rows: int, parts: int) -> tuple[int, ...]:
    """Ends of parts as equal as can be, the larger ones first."""
    size, more = divmod(rows, parts)
    ends, at = [], 0
    for k in range(parts):
        at += size + (k < more)
        ends.append(at)
    return tuple(ends)


@dataclass(frozen=True)
class Region:
    """A region that can be tiled."""

    axes: tuple[tuple[int, int], ...]  # as `Fission.axes`
    rows: int  # of the axis
    # sliced, untiled: operands from outside: those that tiles slice, with their dimension along the axis; and those
    # that every tile reads in full.
    sliced: tuple[tuple[int, int], ...]
    untiled: tuple[int, ...]
    # concatenated, summed: results for the outside, as rows along a dimension, or as sums.
    concatenated: tuple[tuple[int, int], ...]
    summed: tuple[int, ...]

    @property
    def results(self) -> tuple[int, ...]:
        """All that leaves."""
        return (*(t for t, _ in self.concatenated), *self.summed)


def access_of(graph: Graph, op: Op) -> Access:
    """What an op reads for a part of its results. Raises `NoFission` if it is not known."""
    known = meaning(graph, op)
    if known is None or known.opaque is not None:
        why = "the graph is in no dialect" if known is None else known.opaque
        raise NoFission(f"{op.label} cannot run in parts: {why}")
    if known.random or known.mutates or op.writes:
        raise NoFission(f"{op.label} cannot run in parts: it is random, or writes over what it reads")
    if op.after:
        raise NoFission(f"{op.label} cannot run in parts: it stands after ops of which it reads nothing")
    return known.access


def region_of(graph: Graph, axes: Mapping[int, int]) -> Region:
    """The region of ops along these axes. Raises `NoFission`: an op reads other rows than those of its tile, or an
    incomplete sum; or the ops are not convex."""
    dims: dict[int, int | None] = {}
    sliced: dict[int, int] = {}
    untiled: dict[int, None] = {}
    sizes: set[int] = set()
    ordered = [(op.id, axes[op.id]) for op in graph.ops if op.id in axes]
    for op_id, axis in ordered:
        op = graph.op_by_id[op_id]
        access = access_of(graph, op)
        sizes.add(access.sizes[axis])
        for t, indices in zip(op.inputs, access.inputs, strict=True):
            dim = dim_along(op, indices or (), axis)
            if t in dims:
                if dims[t] is None:
                    raise NoFission(f"{op.label} reads a sum over all rows, of which a part has only its own")
                if dim != dims[t]:
                    raise NoFission(f"{op.label} needs all rows of {graph.tensor_by_id[t].label}, not a part's")
            elif dim is None:
                untiled[t] = None
            elif sliced.setdefault(t, dim) != dim:
                raise NoFission(f"{op.label} reads rows of {graph.tensor_by_id[t].label} along another dimension")
        for t, along in zip(op.outputs, access.outputs, strict=True):
            dims[t] = along.index(axis) if axis in along else None
        if None in [dims[t] for t in op.outputs] and (access.merge != "sum" or access.exactness(axis) == "never"):
            raise NoFission(f"parts of {op.label} do not add up")
    if len(sizes) != 1:
        raise NoFission("the ops' axes have different numbers of rows")
    both = next((t for t in sliced if t in untiled), None)
    if both is not None:
        raise NoFission(f"{graph.tensor_by_id[both].label} is read whole and in rows")
    leaving = [t for t in dims if _leaves(graph, t, axes)]
    region = Region(
        tuple(ordered),
        sizes.pop(),
        tuple(sliced.items()),
        tuple(untiled),
        tuple([(t, d) for t in leaving if (d := dims[t]) is not None]),
        tuple([t for t in leaving if dims[t] is None]),
    )
    _check_convex(graph, axes)
    return region


def dim_along(op: Op, indices: Sequence[Index | None], axis: int) -> int | None:
    """The dimension of an operand of which a part reads its own rows; None: it reads all. Raises `NoFission` if other
    rows than its own."""
    found = [d for d, index in enumerate(indices) if index is not None and index.axis == axis]
    if len(found) > 1 or any(indices[d] != Index(axis) for d in found):
        raise NoFission(f"{op.label} reads other rows than those of its part")
    return found[0] if found else None


def _leaves(graph: Graph, tensor: int, inside: Mapping[int, int]) -> bool:
    kept = graph.tensor_by_id[tensor].kind is Kind.OUTPUT
    return kept or any(reader not in inside for reader in graph.consumers.get(tensor, ()))


def _check_convex(graph: Graph, inside: Mapping[int, int]) -> None:
    """Raise if an outside op is on a path between the ops."""
    behind: dict[int, int] = {}  # to the first op outside on the way there
    for i, op in enumerate(graph.ops):
        before = graph.predecessors[i]
        if op.id in inside:
            between = next((behind[u] for u in before if u in behind), None)
            if between is not None:
                raise NoFission(f"{graph.ops[between].label} lies between, and takes all rows at once")
        elif any(graph.ops[u].id in inside for u in before):
            behind[i] = i
        else:
            first = next((behind[u] for u in before if u in behind), None)
            if first is not None:
                behind[i] = first


@dataclass(frozen=True)
class Body:
    """One tile of a region as a graph; `copies`: ops that copy rows of an operand, each with that tensor's id."""

    graph: Graph
    copies: Mapping[int, int]


def body_of(graph: Graph, region: Region, parts: Parts, estimate: Estimate | None) -> Body:
    """The largest of these tiles of a region, with costs of all of them together. `estimate`: time of an op by type,
    operations and bytes; None: its own cost."""
    largest, inside = parts.largest, dict(region.axes)
    tensors: dict[int, Tensor] = {}
    ops: list[Op] = []
    copied: dict[int, int] = {}
    copies: dict[int, int] = {}
    fresh_tensor, fresh_op = max(graph.tensor_by_id) + 1, max(graph.op_by_id) + 1
    for t in region.untiled:
        tensors[t] = replace(graph.tensor_by_id[t], kind=Kind.CONSTANT)
    for t, dim in region.sliced:
        tensors[t] = _rows_of(graph.tensor_by_id[t], dim, largest, region.rows, Kind.CONSTANT)
    dims = dict(region.sliced)
    for op_id, axis in region.axes:
        op = graph.op_by_id[op_id]
        access = access_of(graph, op)
        for t in dict.fromkeys(op.inputs):
            if t in dims and t not in copied and prod((graph.tensor_by_id[t].shape or ())[: dims[t]]) > 1:
                part = replace(tensors[t], id=fresh_tensor, kind=Kind.ACTIVATION, name=f"rows of {tensors[t].name}")
                tensors[fresh_tensor] = part
                cost = _glue(estimate, "slice", 2 * graph.tensor_by_id[t].size, region, parts)
                ops.append(Op(fresh_op, (t,), (fresh_tensor,), f"slice of {tensors[t].name}", "slice", cost=cost))
                copied[t], copies[fresh_op] = fresh_tensor, t
                fresh_tensor, fresh_op = fresh_tensor + 1, fresh_op + 1
        for t, along in zip(op.outputs, access.outputs, strict=True):
            dim = along.index(axis) if axis in along else None
            old = graph.tensor_by_id[t]
            tensors[t] = (
                replace(old, kind=Kind.ACTIVATION)
                if dim is None
                else _rows_of(old, dim, largest, region.rows, Kind.ACTIVATION)
            )
        cost = _cost(graph, op, access, axis, region, parts, estimate)
        inputs = tuple([copied.get(t, t) for t in op.inputs])
        operands = tuple([None if t is None else copied.get(t, t) for t in op.operands])
        flops = None if op.flops is None else op.flops * largest // region.rows
        after = tuple([u for u in op.after if u in inside])
        ops.append(replace(op, inputs=inputs, operands=operands, flops=flops, cost=cost, after=after, overwrites=None))
    made = replace(
        graph, name=f"{graph.name} in parts", tensors=tuple(tensors.values()), ops=tuple(ops), folded=(),
        file=None, file_order=(),
    )  # fmt: skip
    return Body(made, copies)


def _rows_of(tensor: Tensor, dim: int, rows: int, of: int, kind: Kind) -> Tensor:
    shape = tensor.shape or ()
    part = (*shape[:dim], rows, *shape[dim + 1 :])
    return replace(tensor, shape=part, size=tensor.size * rows // of, kind=kind)


def _cost(
    graph: Graph, op: Op, access: Access, axis: int, region: Region, parts: Parts, estimate: Estimate | None
) -> float | None:
    """Cost of these tiles of an op, and of the concatenation of its results."""
    if estimate is None:
        return op.cost
    cut = [
        (t, dim_along(op, indices or (), axis) is not None) for t, indices in zip(op.inputs, access.inputs, strict=True)
    ]
    cut += [(t, axis in along) for t, along in zip(op.outputs, access.outputs, strict=True)]
    shared = sum(graph.tensor_by_id[t].size for t, along in cut if not along)
    own = sum(graph.tensor_by_id[t].size for t, _ in cut) - shared
    total = 0.0
    for rows, count in parts.rows:
        size = shared + own * rows // region.rows
        total += count * estimate(op.type, (op.flops or 0) * rows / region.rows, size)
    concatenated = dict(region.concatenated)
    for t in op.outputs:
        size = graph.tensor_by_id[t].size
        if t in concatenated:
            total += _glue(estimate, "join", 2 * size, region, parts) or 0.0
        elif t in region.summed:
            total += parts.added * estimate("merge", 0, 3 * size)
    return total


def _glue(estimate: Estimate | None, role: str, size: int, region: Region, parts: Parts) -> float | None:
    """Cost of a copy of a given number of bytes in these tiles."""
    if estimate is None:
        return None
    return sum(count * estimate(role, 0, size * rows // region.rows) for rows, count in parts.rows)


@dataclass(frozen=True)
class Loop:
    """A region that runs in tiles, as one op of the outer graph: bytes of a tile, and seconds of all tiles."""

    region: Region
    workspace: int
    cost: float | None


def outer_of(graph: Graph, loops: Sequence[Loop]) -> Graph:
    """The graph with one op in the place of each region. Regions are disjoint. Raises `NoFission`: regions wait for
    each other."""
    replacement: dict[int, int] = {}
    made: dict[int, Op] = {}
    fresh = max(graph.op_by_id) + 1
    for k, loop in enumerate(loops):
        inside = [op for op, _ in loop.region.axes]
        inputs = (*(t for t, _ in loop.region.sliced), *loop.region.untiled)
        name = f"{len(inside)} ops from {graph.op_by_id[inside[0]].name}"
        made[fresh + k] = Op(
            fresh + k, tuple(sorted(inputs)), tuple(sorted(loop.region.results)), name, PARTS, loop.workspace,
            after=(), cost=loop.cost,
        )  # fmt: skip
        replacement.update(dict.fromkeys(inside, fresh + k))
    around = [op for op in graph.ops if op.id not in replacement]
    ops = [replace(op, after=tuple(dict.fromkeys(replacement.get(u, u) for u in op.after))) for op in around]
    ops += made.values()
    there = {t for op in ops for t in (*op.inputs, *op.outputs)}
    read = {t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    tensors = tuple([t for t in graph.tensors if t.id in there or t.id not in read])
    place: dict[int, int] = {}  # a region's is where its first op stood
    for i, op in enumerate(graph.ops):
        place.setdefault(replacement.get(op.id, op.id), i)
    return replace(graph, tensors=tensors, ops=tuple(in_order(ops, place, replacement)), file=None, file_order=())


def in_order(ops: Sequence[Op], place: Mapping[int, int], replacement: Mapping[int, int]) -> list[Op]:
    """Ops topologically, else by their places. `replacement`: for a removed op that others run after, the op in its
    place. Raises `NoFission`: some wait for each other."""
    maker = {t: op.id for op in ops for t in op.outputs}
    waits = {
        op.id: {maker[t] for t in op.inputs if t in maker} | {replacement.get(u, u) for u in op.after} for op in ops
    }
    order = topological(waits, place.__getitem__)
    if len(order) < len(ops):
        raise NoFission("regions wait for each other")
    by_id = {op.id: op for op in ops}
    return [by_id[op_id] for op_id in order]
