"""Tensors that are allocated inside others: their addresses rebuilt from the plan, and every byte watched in its order.

The memory that such tensors share is divided into units of equal size, so small that every tensor that an op reads or
makes there begins and ends with a unit. Every unit of a tensor has a *content*: the result of a concat holds what its
operands do, the result of a slice, a split or a view holds what it takes, and everything else is new. Along the order,

    an op finds in every tensor that it reads the content that the tensor has;
    where a result differs from what its memory holds, the op writes: over nothing that it reads, but for an input that
    the target lets it write over, unit for unit;
    at the end, the outputs hold their content.

So it does not matter why a tensor is where it is: only that kernels can write there (in one stretch, or row by row
where the target's kernels do), and that no byte is written over before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.forms import Concat, Indexed, Split
from lowtide.ops.meaning import meaning
from lowtide.ops.raster import memory_dims
from lowtide.plan import Plan
from lowtide.rewrites import TensorAlias
from lowtide.sizes import format_count
from lowtide.target import Target

if TYPE_CHECKING:
    import numpy as np

    Units = np.ndarray[Any, np.dtype[np.int64]]

MOST_UNITS = 2**28  # units of all that is watched at once; a plan of more is refused


class _Rows(NamedTuple):
    """Row i of a tensor is `run` bytes, `first + i * pitch` from the start of another one."""

    first: int
    run: int
    pitch: int


def has_aliases(plan: Plan) -> bool:
    """Whether the plan allocates tensors inside others."""
    return any(isinstance(r, TensorAlias) for r in plan.rewrites or ())


def aliased(graph: Graph, plan: Plan, target: Target) -> Graph:
    """The graph with tensors inside others. Raises `VerificationError`: ``aliases``: a tensor is unknown, inside two
    others, or where the target's kernels cannot write."""
    listed = [r for r in plan.rewrites or () if isinstance(r, TensorAlias)]
    inside: dict[int, TensorAlias] = {}
    for r in listed:
        if r.tensor in inside:
            raise _fail(f"tensor {r.tensor} is allocated in two others")
        if r.tensor not in graph.tensor_by_id or r.of not in graph.tensor_by_id or r.op not in graph.index_of:
            raise _fail(
                f"tensor {r.tensor} is allocated in tensor {r.of} by op {r.op}, and one of the three does not exist"
            )
        inside[r.tensor] = r
        _check_rows(graph, r, target)
    for t in inside:
        at, seen = t, {t}
        while at in inside:
            at = inside[at].of
            if at in seen:
                raise _fail(f"{graph.tensor_by_id[t].label} is allocated in itself")
            seen.add(at)
    rows = {_root(t, inside) for t in inside if _in_rows(graph, t, inside)}
    tensors = tuple(
        replace(t, alias_of=inside[t.id].of, alias_offset=inside[t.id].offset, piece=_root(t.id, inside) not in rows)
        if t.id in inside
        else t
        for t in graph.tensors
    )
    return replace(graph, tensors=tensors, ops=tuple(_without_rows(graph, op, target, inside) for op in graph.ops))


def _check_rows(graph: Graph, r: TensorAlias, target: Target) -> None:
    """One entry by itself: bytes that exist, and that the target's kernels can write."""
    inner, outer = graph.tensor_by_id[r.tensor], graph.tensor_by_id[r.of]
    if any(t.kind is Kind.CONSTANT or t.alias_of is not None for t in (inner, outer)) or not inner.size:
        raise _fail(f"{inner.label} cannot be allocated in {outer.label}: one of them has no memory of its own")
    if any(target.copies(t) or target.offset(t) is not None for t in (inner, outer)):
        raise _fail(f"{inner.label} or {outer.label} has memory of its own under the target")
    if inner.id not in graph.producer:
        raise _fail(f"{inner.label} is the caller's, and cannot be allocated in {outer.label}")
    rows = _rows(graph, r)
    if rows.run < 1 or inner.size % rows.run or rows.pitch < rows.run or r.offset < 0:
        raise _fail(f"{inner.label} is allocated in {outer.label} in rows of {rows.run} bytes every {rows.pitch}")
    if target.pieces == "copied" or target.rule or (rows.run < inner.size and target.pieces != "strided"):
        raise _fail(f"{target.name} copies: {inner.label} cannot be allocated in {outer.label} so")
    if rows.first + (inner.size // rows.run - 1) * rows.pitch + rows.run > outer.size:
        raise _fail(f"{inner.label} does not end within {outer.label}")
    if rows.run < inner.size and (outer.size % rows.pitch or rows.first + rows.run > rows.pitch):
        raise _fail(f"{outer.label} has no rows of {rows.pitch} bytes with {inner.label} in them")


def _rows(graph: Graph, r: TensorAlias) -> _Rows:
    size = graph.tensor_by_id[r.tensor].size
    if r.run is None or r.pitch is None:
        return _Rows(r.offset, size, max(size, graph.tensor_by_id[r.of].size))
    return _Rows(r.offset, r.run, r.pitch)


def _in_rows(graph: Graph, t: int, inside: Mapping[int, TensorAlias]) -> bool:
    """Whether the rows of a tensor are apart in memory, in the tensor around it or in one further out."""
    while t in inside:
        if _rows(graph, inside[t]).run < graph.tensor_by_id[t].size:
            return True
        t = inside[t].of
    return False


def _concatenates(graph: Graph, op: Op) -> bool:
    known = meaning(graph, op)
    return known is not None and isinstance(known.form, Concat)


def _root(t: int, inside: Mapping[int, TensorAlias]) -> int:
    while t in inside:
        t = inside[t].of
    return t


def _without_rows(graph: Graph, op: Op, target: Target, inside: Mapping[int, TensorAlias]) -> Op:
    """The op, which writes over nothing in memory that it reads row by row."""
    roots = {_root(t, inside) for t in op.inputs if _in_rows(graph, t, inside)}
    if not roots or len(op.outputs) != 1:
        return op
    return replace(
        op, overwrites=tuple(t for t in target.overwritable_inputs(graph, op) if _root(t, inside) not in roots)
    )


def check_aliases(user: Graph, graph: Graph, plan: Plan, target: Target) -> str:
    """``aliases``: along the plan's order, every byte in shared memory is there when it is read. `user`: the graph
    without aliases. `graph`: what `aliased` made of it. Raises `VerificationError`: ``aliases``: an op writes over what
    it reads, finds what is not there, or an output is spoilt at the end."""
    inside = {r.tensor: r for r in plan.rewrites or () if isinstance(r, TensorAlias)}
    above = {t: (r.of, _rows(user, r)) for t, r in inside.items()}
    in_rows = {t for t in inside if _in_rows(user, t, inside)}
    for op in graph.ops:
        source = target.view_source(graph, op)
        if source is not None:
            size = user.tensor_by_id[source].size
            above[op.outputs[0]] = (source, _Rows(0, size, size))
            if source in in_rows:
                raise _fail(f"{op.label} gives {user.tensor_by_id[source].label} another shape, which lies row by row")
    for t in in_rows:
        if user.tensor_by_id[t].kind is not Kind.ACTIVATION:
            raise _fail(f"{user.tensor_by_id[t].label} is the caller's, and is allocated row by row")
    trees: dict[int, list[int]] = {}
    for t in above:
        at = t
        while at in above:
            at = above[at][0]
        trees.setdefault(at, []).append(t)
    count = 0
    for root, members in trees.items():
        if any(t in inside for t in members):
            _Watch(user, target, above, root, members).run(plan.order)
            count += 1
    strided = f", {len(in_rows):,} row by row" if in_rows else ""
    for r in inside.values():
        op, puts = user.op_by_id[r.op], user.op_by_id[user.producer[r.tensor]]
        nested = r.of in op.outputs and _concatenates(user, op) and _concatenates(user, puts)
        if not nested and not {r.tensor, r.of} <= {*op.inputs, *op.outputs}:
            raise _fail(f"{op.label} does not put tensor {r.tensor} into tensor {r.of}")
    return f"{format_count(len(inside), 'tensor')} in others{strided}, {count:,} wholes watched along the order"


class _Watch:
    """The units of the memory that some tensors share, while the order runs."""

    def __init__(
        self, graph: Graph, target: Target, above: Mapping[int, tuple[int, _Rows]], root: int, members: Sequence[int]
    ) -> None:
        self.graph, self.target, self.root = graph, target, root
        self.above = above
        self.members = {root, *members}
        self.moved: dict[int, list[tuple[int, _Rows, _Rows]]] = {}
        sizes = [graph.tensor_by_id[t].size for t in self.members]
        todo, known = list(self.members), set(self.members)
        while todo:
            t = todo.pop()
            self.moved[t] = list(self._moves(t))
            for source, read, made in self.moved[t]:
                sizes += [graph.tensor_by_id[source].size, *read, *made]
                if source not in known:
                    known.add(source)
                    todo.append(source)
        sizes += [number for t in members for number in above[t][1]]
        self.unit = gcd(*sizes)
        if sum(graph.tensor_by_id[t].size for t in known) // self.unit > MOST_UNITS:
            raise _fail(f"the tensors in {graph.tensor_by_id[root].label} have too many slices to be checked")
        self.next = 1
        self.contents: dict[int, Units] = {}
        self.places: dict[int, Units] = {}

    def _moves(self, t: int) -> Iterator[tuple[int, _Rows, _Rows]]:
        """What a tensor holds of others: each with its rows there, and the rows here that they become."""
        graph = self.graph
        op = graph.op_by_id[graph.producer[t]] if t in graph.producer else None
        if op is None:
            return
        own = graph.tensor_by_id[t]
        source = self.target.view_source(graph, op)
        if source is not None:
            yield source, _Rows(0, own.size, own.size), _Rows(0, own.size, own.size)
            return
        known = meaning(graph, op)
        given = op.operands or op.inputs
        match None if known is None else known.form:
            case Concat(dim=dim, literal=literal) if not op.attributes.get("fused_activation_function"):
                at = 0
                for i, o in enumerate(given):
                    if o is None or i in literal:
                        continue
                    rows, size = self._rows_of(o, dim), graph.tensor_by_id[o].size
                    if self._alike(o, t):
                        made = self._stretch(t, dim, at, rows)
                        yield o, _Rows(0, size, size), made
                    at += rows
            case Split(dim=dim, literal=literal):
                source = next(o for i, o in enumerate(given) if o is not None and i not in literal)
                at = sum(self._rows_of(o, dim) for o in op.outputs[: op.outputs.index(t)])
                if self._alike(source, t):
                    yield source, self._stretch(source, dim, at, self._rows_of(t, dim)), _Rows(0, own.size, own.size)
            case Indexed(family="piece" | "gather", indices=indices) if self._alike(op.inputs[0], t):
                read = self._taken(op, indices, t)
                if read is not None:
                    yield op.inputs[0], read, _Rows(0, own.size, own.size)
            case _:
                return

    def _alike(self, a: int, b: int) -> bool:
        one, other = self.graph.tensor_by_id[a], self.graph.tensor_by_id[b]
        orders = [self._dims(t) for t in (a, b)]
        plain = all(dims == sorted(dims) for dims in orders)
        same = (one.dtype, one.quant) == (other.dtype, other.quant)
        return same and None not in (one.shape, other.shape) and (plain or orders[0] == orders[1])

    def _dims(self, t: int) -> list[int]:
        """Dimensions as they lie in memory, the slowest first."""
        last = self.target.channels_last and not self.target.aliases_keep_file_layout
        return list(memory_dims(self.graph, t, channels_last=last))

    def _rows_of(self, t: int, dim: int) -> int:
        return (self.graph.tensor_by_id[t].shape or ())[dim]

    def _stretch(self, t: int, dim: int, start: int, rows: int) -> _Rows:
        """Bytes of some rows of one dimension."""
        tensor, dims = self.graph.tensor_by_id[t], self._dims(t)
        shape = tensor.shape or ()
        inner = tensor.size // max(1, prod(shape[d] for d in dims[: dims.index(dim) + 1]))
        return _Rows(start * inner, rows * inner, shape[dim] * inner)

    def _taken(self, op: Op, indices: Sequence[Any], t: int) -> _Rows | None:
        """Bytes of the box that a slice takes: rows of one dimension, with single rows of those before it."""
        shape = self.graph.tensor_by_id[op.inputs[0]].shape or ()
        made = self.graph.tensor_by_id[t].shape or ()
        axes = [index.axis for index in indices if index is not None and index.axis >= 0]
        if None in indices or len(indices) != len(shape) or axes != sorted(axes):
            return None
        box = []
        for index, size in zip(indices, shape, strict=True):
            rows = made[index.axis] if index.axis >= 0 else 1
            low = index.lo
            if (index.axis >= 0 and (index.num, index.den) != (1, 1)) or index.lo != index.hi or low < 0:
                return None
            if low + rows > size:
                return None
            box.append((low, rows))
        dims = self._dims(op.inputs[0])
        partial = [d for d in dims if box[d] != (0, shape[d])]
        last = partial[-1] if partial else dims[0] if dims else 0
        stretch = self._stretch(op.inputs[0], last, *box[last]) if shape else None
        if stretch is None or len(partial) < 2:
            return stretch
        slower = dims[: dims.index(last)]
        if any(box[d][1] != 1 for d in slower):
            return None
        before = sum(box[d][0] * self._stretch(op.inputs[0], d, 0, 1).run for d in slower)
        return _Rows(before + stretch.first, stretch.run, self.graph.tensor_by_id[op.inputs[0]].size)

    # units

    def _units(self, count: int) -> Units:
        import numpy as np  # not needed for a plan without aliases, and slow to load

        self.next += count
        return np.arange(self.next - count, self.next, dtype=np.int64)

    def _pick(self, units: Units, rows: _Rows, size: int) -> Units:
        """Units of some rows: `size` bytes in all."""
        first, run, pitch = (number // self.unit for number in rows)
        count = size // rows.run
        if count == 1:
            return units[first : first + run]
        return units[: count * pitch].reshape(count, pitch)[:, first : first + run].reshape(-1)

    def place(self, t: int) -> Units:
        """Which units of the root a tensor has."""
        if t not in self.places:
            size = self.graph.tensor_by_id[t].size
            if t == self.root:
                import numpy as np

                self.places[t] = np.arange(size // self.unit, dtype=np.int64)
            else:
                of, rows = self.above[t]
                self.places[t] = self._pick(self.place(of), rows, size)
        return self.places[t]

    def content(self, t: int) -> Units:
        """What the units of a tensor hold."""
        trail = [t]
        while trail:
            at = trail[-1]
            missing = [s for s, _, _ in self.moved[at] if s not in self.contents]
            if at in self.contents:
                trail.pop()
            elif missing:
                trail += missing
            else:
                self.contents[at] = self._content(at)
                trail.pop()
        return self.contents[t]

    def _content(self, t: int) -> Units:
        size = self.graph.tensor_by_id[t].size
        units = self._units(size // self.unit)
        for source, read, made in self.moved[t]:
            first, run, pitch = (number // self.unit for number in made)
            taken = self._pick(self.contents[source], read, made.run * (size // made.pitch))
            units.reshape(-1, pitch)[:, first : first + run] = taken.reshape(-1, run)
        return units

    def run(self, order: Sequence[int]) -> None:
        """Run the order, and look."""
        import numpy as np

        graph = self.graph
        held = np.zeros(graph.tensor_by_id[self.root].size // self.unit, dtype=np.int64)
        for t in sorted(self.members):
            if t not in graph.producer:
                held[self.place(t)] = self.content(t)
        for v in order:
            op = graph.op_by_id[v]
            reads = [t for t in dict.fromkeys(op.inputs) if t in self.members]
            for t in reads:
                if not np.array_equal(held[self.place(t)], self.content(t)):
                    raise _fail(f"{op.label} finds other bytes in {graph.tensor_by_id[t].label}")
            made = [t for t in op.outputs if t in self.members]
            for t in made:
                self._write(op, t, reads, held)
            for t in made:
                if not np.array_equal(held[self.place(t)], self.content(t)):
                    raise _fail(f"{op.label} makes two tensors over each other")
        for t in sorted(self.members):
            if graph.tensor_by_id[t].kind is Kind.OUTPUT and not np.array_equal(held[self.place(t)], self.content(t)):
                raise _fail(f"the output {graph.tensor_by_id[t].label} is spoilt at the end")

    def _write(self, op: Op, t: int, reads: Sequence[int], held: Units) -> None:
        """Write a tensor; it may write over inputs that the op may write over, unit for unit."""
        import numpy as np

        place, content = self.place(t), self.content(t)
        changed = place[held[place] != content]
        may = self.target.overwritable_inputs(self.graph, op) if not self.moved[t] and len(op.outputs) == 1 else ()
        for r in reads:
            own = self.place(r)
            if not np.intersect1d(changed, own).size:
                continue
            if r not in may or not np.array_equal(own, place):
                names = (self.graph.tensor_by_id[x].label for x in (t, r))
                raise _fail(f"{op.label} writes {' over '.join(names)}, which it reads")
        held[place] = content


def _fail(why: str) -> VerificationError:
    return VerificationError("aliases", why)
