"""Re-checks a bound over all regions, by a search for a plan that would need less at one op.

Claim: whatever `--allow tile` cuts, `bytes` are needed where op v runs. Suppose a plan with less. Either v runs
untiled, or it is tiled along some axis, and then each tensor that tiles of an op make is one of these:

    materialised   by a concat of its tiles: its bytes are live twice, in addition to what stays
    read           in tiles by every op that reads it, each of them cut as well; in the same region, if the claim is
                   only of plans whose regions materialise what other regions read

So the search goes on from each op that is cut to readers that are cut, until all are found to need too much (refuted),
or some choice needs less. A reader is in no region with an op if an op on the way between cannot be cut with them:
regions are convex, and within one a tensor is read along the dimension along which it is made.

*What stays* is live in every such plan: a tensor that is made completely before, and that is given completely to an op
that starts later. A tensor is made completely before if an op that runs by then is given all of it. Before the concat
of a tensor that is tiled along a dimension, a tile of an op may run that reads the tensor along that dimension, from
one of its tiles. A tile that reads all of that dimension may not run by then, nor one that reads a sum, nor one that is
given something of what such ops make. Of tensors that may share a storage one counts. See docs/proofs.md, section 15;
sets of ids here, no bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.access import Access
from lowtide.ops.forms import Concat
from lowtide.ops.index import Index
from lowtide.ops.kinds import kind_of
from lowtide.ops.meaning import Meaning, meaning
from lowtide.ops.part import spelling
from lowtide.plan import Plan
from lowtide.rewrites import Sections
from lowtide.sizes import format_size
from lowtide.target import Target
from lowtide.verify.check.last_results import Facts, end_needs

_OVER_REGIONS = ("orders_and_regions", "orders_and_joined_regions")

Where = tuple[int, int]  # an op and an axis along which it is cut


def check_regions(graph: Graph, plan: Plan, target: Target) -> str:
    """Check what a plan says of all regions. Returns what was seen, empty if it says nothing. Raises
    `VerificationError`: ``regions``: the bound is not proved at its op, is above the peak, or `proved_over` says more
    or less than that."""
    bound = plan.region_bound
    if bound is None:
        if plan.proved_over in _OVER_REGIONS:
            raise _fail("the bound is said to hold over regions, and none is given")
        return ""
    if plan.allow not in (["tile"], ["tile", "unmaterialised"]) or graph.dialect != "onnx":
        raise _fail(
            "a bound over all regions holds where an ONNX model is tiled in regions, and nothing else is allowed"
        )
    if plan.rounds or any(isinstance(r, Sections) for r in plan.rewrites or ()):
        raise _fail("a bound over all regions does not hold where products are split, or tiles are nested")
    if target.overlap != "never" and not target.rule:
        raise _fail("a bound over all regions does not hold where any tile may overlap a part of what it reads")
    if bound.bytes > plan.peak_bytes:
        raise _fail(
            f"{bound.bytes} bytes are claimed to be needed by every tiling, and the plan needs {plan.peak_bytes}"
        )
    over = "orders_and_joined_regions" if bound.joined else "orders_and_regions"
    said = plan.proved_over if plan.proved_over in _OVER_REGIONS else None
    if said != (over if bound.bytes == plan.peak_bytes else None):
        raise _fail(f"the bound is said to hold over {plan.proved_over!r}, with {bound.bytes} bytes over all regions")
    if bound.op is None:
        kinds = [t.id for t in graph.tensors if t.kind is Kind.INPUT and t.id in graph.consumers]
        search = _Search(graph, target, 0, materialised=bound.joined)
        proved = search.sizes(kinds) >= bound.bytes or end_needs(search.facts(), bound.bytes)
        place = "the start and the end"
    elif bound.op not in graph.index_of:
        raise _fail(f"op {bound.op} is none of the graph's")
    else:
        proved = _Search(graph, target, bound.bytes, materialised=bound.joined).refuted(bound.op)
        place = graph.op_by_id[bound.op].label
    if not proved:
        raise _fail(f"{bound.bytes} bytes over all regions are not proved at {place}")
    scope = " in regions whose pieces are joined" if bound.joined else ""
    return f"{format_size(bound.bytes)} at {place}, whatever is cut{scope}"


def _fail(why: str) -> VerificationError:
    return VerificationError("regions", why)


class _Search:
    """Is there a plan with less than `goal` bytes? With `materialised`, one whose regions materialise what others
    read."""

    def __init__(self, graph: Graph, target: Target, goal: int, *, materialised: bool = False) -> None:
        self.graph, self.target, self.goal, self.materialised = graph, target, goal, materialised
        self.meanings: dict[int, Meaning | None] = {}
        self.axes_of: dict[int, dict[int, int]] = {}
        self.given_all: dict[tuple[int, int], bool] = {}
        self.too_much: dict[Where, bool] = {}
        self.twice: dict[tuple[int, int | None], int] = {}
        self.all_run: set[int] = set()
        for op in reversed(graph.ops):
            if self._runs_all(op):
                self.all_run.add(op.id)
        self.group = self._groups()
        kinds = (Kind.CONSTANT,) if target.count_inputs else (Kind.CONSTANT, Kind.INPUT)
        self.free = {self.group[t.id] for t in graph.tensors if t.kind in kinds}

    def refuted(self, op: int) -> bool:
        """Whether no plan needs less than the goal, however an op runs."""
        if self._untiled(op) < self.goal:
            return False
        return all(self._cut_refuted((op, axis)) for axis in self._axes(op))

    def sizes(self, tensors: Iterable[int]) -> int:
        """Bytes of tensors, of those that may share a storage the largest."""
        return self._together({t: self.graph.tensor_by_id[t].size for t in tensors})

    def _together(self, sizes: dict[int, int]) -> int:
        most: dict[int, int] = {}
        for t, size in sizes.items():
            if self.group[t] not in self.free:
                most[self.group[t]] = max(most.get(self.group[t], 0), size)
        return sum(most.values())

    def facts(self) -> Facts:
        """What is known of the graph."""
        return Facts(
            graph=self.graph,
            sizes=self.sizes,
            group=self.group,
            given_all=self._given_all,
            made_before=self._made_before,
            cut=lambda op: bool(self._axes(op)),
            overwrites=lambda op: self._overwrites(op, cut=False),
            meaning=self._meaning,
        )

    # one op, untiled or cut

    def _untiled(self, op: int) -> int:
        if op not in self.all_run:
            return 0
        own = self.graph.op_by_id[op]
        reads = [t for t in own.inputs if self._given_all(own, t)]
        after = self._behind(ops={op}) - {op}
        stays = self._stays(self._made_before(reads), after)
        if self._overwrites(own, cut=False):
            return max(self.sizes({*reads, *stays}), self.sizes({*own.outputs, *stays}))
        return self.sizes({*reads, *own.outputs, *stays})

    def _cut_refuted(self, start: Where) -> bool:
        """Whether an op that is cut needs too much: for its own rows, or for a tensor that it makes. Readers go first,
        on an explicit stack, since chains of them are long."""
        stack = [start]
        while stack:
            at = stack[-1]
            if at in self.too_much:
                stack.pop()
                continue
            waiting: list[Where] = []
            refuted = self._rows(at) >= self.goal or any(
                self._tensor_refuted(at, t, waiting) for t in self.graph.op_by_id[at[0]].outputs
            )
            if refuted or not waiting:
                self.too_much[at] = refuted
                stack.pop()
            stack.extend(waiting if not refuted else ())
        return self.too_much[start]

    def _tensor_refuted(self, at: Where, t: int, waiting: list[Where]) -> bool:
        """Whether both choices for a tensor need too much; what has to be known first is added to `waiting`."""
        dim = self._made_along(at, t)
        if self._concatenated(t, dim) < self.goal:
            return False
        if self.graph.tensor_by_id[t].kind is Kind.OUTPUT or dim is None:
            return True
        unknown: list[Where] = []
        for reader in self.graph.consumers.get(t, ()):
            along = self._in_region_with(at, reader) if self.materialised else self._read_along(at, t, reader)
            others = [(reader, axis) for axis in along & self._axes(reader).keys()]
            if all(self.too_much.get(other, False) for other in others):
                return True
            if not any(self.too_much.get(other) is False for other in others):
                unknown += [other for other in others if other not in self.too_much]
        waiting += unknown
        return False

    def _concatenated(self, t: int, dim: int | None) -> int:
        """Bytes at the concat of a tensor that is tiled along a dimension; None: that is made as terms of a sum."""
        if (t, dim) not in self.twice:
            graph = self.graph
            readers = [graph.op_by_id[op] for op in graph.consumers.get(t, ())]
            output = graph.tensor_by_id[t].kind is Kind.OUTPUT
            value = 0
            if output or (readers and all(self._given_all(op, t) for op in readers)):
                after = set[int]() if output else self._behind(tiled=(t, dim))
                stays = self._stays(self._made_before([t]), after)
                others = [s for s in stays if self.group[s] != self.group[t]]
                value = graph.tensor_by_id[t].size + self.sizes([t]) + self.sizes(others)
            self.twice[t, dim] = value
        return self.twice[t, dim]

    def _rows(self, at: Where) -> int:
        """Bytes of a tile that has one grain: the first, one in the middle, the last; the least of all if not every
        one is made."""
        op, axis = at
        own, access, grain = self.graph.op_by_id[op], self._access(op), self._axes(op)[axis]
        size = access.sizes[axis]
        needs: list[int] = []
        all_run = op in self.all_run
        for first in (0, size // grain // 2 * grain, (size - 1) // grain * grain) if all_run else range(0, size, grain):
            rows = (first, min(size, first + grain))
            reads: dict[int, int] = {}
            for i, t in self._operands(own):
                if not (axis in access.reduce and i in access.once):
                    shape = self.graph.tensor_by_id[t].shape or ()
                    boxes = access.need(i, shape, {axis: rows})
                    indices = access.inputs[i] or ()
                    size_read = self.graph.tensor_by_id[t].size
                    for index, (a, b), length in zip(indices, boxes, shape, strict=True):
                        if index is not None and index.axis == axis and length:
                            size_read = size_read * (b - a) // length
                    reads[t] = max(reads.get(t, 0), size_read)
            writes: dict[int, int] = {}
            for t in own.outputs:
                d, made = self._made_along(at, t), self.graph.tensor_by_id[t]
                writes[t] = made.size if d is None else made.size * (rows[1] - rows[0]) // (made.shape or ())[d]
            if self._overwrites(own, cut=True):
                needs.append(max(self._together(reads), self._together(writes)))
            else:
                needs.append(self._together({**reads, **writes}))
        return max(needs, default=0) if all_run else min(needs, default=0)

    # what an op is given

    def _meaning(self, op: int) -> Meaning | None:
        if op not in self.meanings:
            self.meanings[op] = meaning(self.graph, self.graph.op_by_id[op])
        return self.meanings[op]

    def _access(self, op: int) -> Access:
        known = self._meaning(op)
        assert known is not None
        return known.access

    def _axes(self, op: int) -> dict[int, int]:
        """Axes along which an op can be cut, and the rows that parts begin at multiples of."""
        if op not in self.axes_of:
            known, own = self._meaning(op), self.graph.op_by_id[op]
            found = {}
            for axis in known.access.cuttable() if known is not None else ():
                how = spelling(self.graph, own, known, axis) if known is not None else None
                if how is not None:
                    found[axis] = how.grain
            self.axes_of[op] = found
        return self.axes_of[op]

    def _operands(self, op: Op) -> list[tuple[int, int]]:
        given = enumerate(op.operands or op.inputs)
        return [(i, t) for i, t in given if t is not None and self.graph.tensor_by_id[t].kind is not Kind.CONSTANT]

    def _given_all(self, op: Op, t: int) -> bool:
        """Whether all of a tensor is given to an op, however it runs."""
        key = (op.id, t)
        if key not in self.given_all:
            reads = [i for i, read in self._operands(op) if read == t]
            self.given_all[key] = not self._axes(op.id) or (
                op.id in self.all_run and any(self._dims_given(op.id, i, t) for i in reads)
            )
        return self.given_all[key]

    def _dims_given(self, op: int, operand: int, t: int) -> bool:
        """Whether all parts of an op together, however it is cut, are given all of an operand."""
        indices, shape = self._access(op).inputs[operand] or (), self.graph.tensor_by_id[t].shape or ()
        dims = [(index, length) for index, length in zip(indices, shape, strict=True) if index is not None]
        along = [index.axis for index, _ in dims if index.axis in self._axes(op)]
        return len(set(along)) == len(along) and all(self._all_rows(op, *dim) for dim in dims)

    def _runs_all(self, op: Op) -> bool:
        """Whether all rows of an op are made in every plan; that of its readers is known."""
        graph = self.graph
        read = False
        for t in op.outputs:
            readers = [graph.op_by_id[reader] for reader in graph.consumers.get(t, ())]
            if graph.tensor_by_id[t].kind is Kind.OUTPUT or any(self._given_all(reader, t) for reader in readers):
                return True
            read = read or bool(readers)
        return not read or not self._axes(op.id)

    def _all_rows(self, op: int, index: Index, length: int) -> bool:
        """Whether rows one by one, and all at once, give all of a dimension; always along an axis that is not cut."""
        axes, access = self._axes(op), self._access(op)
        if index.axis not in axes:
            return True
        size = access.sizes[index.axis]
        without_gaps = index.num > 0 and index.num + index.lo <= index.hi + index.den
        all_rows = access.aligned({index.axis: (0, size)})[index.axis]
        return without_gaps and index.need(*all_rows, length) == (0, length)

    def _made_along(self, at: Where, t: int) -> int | None:
        """The dimension along which parts of an op make a tensor; None: each makes all of it, a term of a sum."""
        op, axis = at
        dims = self._access(op).outputs[self.graph.op_by_id[op].outputs.index(t)]
        return dims.index(axis) if axis in dims else None

    # what stays

    def _made_before(self, tensors: Collection[int]) -> set[int]:
        """Tensors all of which are made before all of these are, and these."""
        found, todo = set(tensors), list(tensors)
        while todo:
            maker = self.graph.producer.get(todo.pop())
            own = None if maker is None else self.graph.op_by_id[maker]
            for t in () if own is None else own.inputs:
                if t not in found and own is not None and self._given_all(own, t):
                    found.add(t)
                    todo.append(t)
        return found

    def _behind(self, *, ops: Collection[int] = (), tiled: tuple[int, int | None] | None = None) -> set[int]:
        """Ops no tile of which runs before these ran, or before the concat of a tensor that is tiled along a dimension
        (None: that is made as terms of a sum)."""
        found = set(ops)
        for own in self.graph.ops:
            if own.id not in found:
                late = {t for t in own.inputs if self.graph.producer.get(t) in found}
                if tiled is not None and tiled[0] in own.inputs and not self._takes_tiles(own, *tiled):
                    late.add(tiled[0])
                if late and all(self._parts_read(own, late, axis) for axis in self._axes(own.id)):
                    found.add(own.id)
        return found

    def _takes_tiles(self, op: Op, t: int, dim: int | None) -> bool:
        """Whether a part of an op can be given less than all rows of a dimension of a tensor, as each operand is."""
        axes: set[int] | None = None
        for i, read in self._operands(op):
            if read == t and dim is not None and self._axes(op.id):
                index = (self._access(op.id).inputs[i] or ())[dim]
                here = {index.axis} if index is not None and index.num else set[int]()
                axes = here if axes is None else axes & here
        return bool((axes or set[int]()) & self._axes(op.id).keys())

    def _parts_read(self, op: Op, tensors: Collection[int], axis: int) -> bool:
        access, grain = self._access(op.id), self._axes(op.id)[axis]
        size = access.sizes[axis]
        ends = ((0, min(grain, size)), ((size - 1) // grain * grain, size))
        read = [(i, t) for i, t in self._operands(op) if not (axis in access.reduce and i in access.once)]
        for i, t in read:
            along = [index for index in access.inputs[i] or () if index is not None and index.axis == axis]
            shape = self.graph.tensor_by_id[t].shape or ()
            boxes = [access.need(i, shape, {axis: rows}) for rows in ends]
            always = all(a < b for box in boxes for a, b in box) and all(k.hi >= k.lo for k in along)
            if t in tensors and always:
                return True
        known = self._meaning(op.id)
        return known is not None and isinstance(known.form, Concat) and all(t in tensors for _, t in read)

    def _stays(self, before: set[int], after: set[int]) -> set[int]:
        """Tensors made before that an op of `after` is given all of, or that are results; and inputs likewise."""
        graph = self.graph
        stays = set()
        for t in graph.tensors:
            if t.id not in before and t.kind is not Kind.INPUT:
                continue
            needed = any(
                op in after and self._given_all(graph.op_by_id[op], t.id) for op in graph.consumers.get(t.id, ())
            )
            if needed or (t.kind is Kind.OUTPUT and t.id in before):
                stays.add(t.id)
        return stays

    def _groups(self) -> dict[int, int]:
        """Tensors that may share a storage have the same number: aliases, and views under any rule."""
        group = {t.id: t.id for t in self.graph.tensors}
        pairs = [(t.id, t.alias_of) for t in self.graph.tensors if t.alias_of is not None]
        for op in self.graph.ops:
            kind = kind_of(op.type)
            source = self.target.view_source(self.graph, op)
            if source is None and kind is not None and kind.view and op.inputs:
                source = op.inputs[0]
            if source is not None and op.outputs:
                pairs.append((op.outputs[0], source))
        members = {t: [t] for t in group}
        for one, other in pairs:
            a, b = group[one], group[other]
            if a != b:
                for t in members[a]:
                    group[t] = b
                members[b] += members.pop(a)
        return group

    def _overwrites(self, op: Op, *, cut: bool) -> bool:
        """Whether what an op, or a tile of it, makes may be written over what it reads."""
        target = self.target
        if target.in_place_inputs(self.graph, op) or target.overlap_inputs(self.graph, op):
            return True
        if not cut:
            return False
        known = bool(target.rule) or op.overwrites is not None or op.type in target.elementwise_types
        return known or (target.in_place != "never" and kind_of(op.type) is not None)

    # regions

    def _in_region_with(self, at: Where, reader: int) -> set[int]:
        """Axes of a reader along which it can be in the region of an op."""
        start = at[0]
        ahead = {start}
        for own in self.graph.ops[self.graph.index_of[start] + 1 : self.graph.index_of[reader] + 1]:
            if any(self.graph.producer.get(t) in ahead for t in own.inputs):
                ahead.add(own.id)
        between, todo = {reader}, [reader]
        while todo:
            for t in self.graph.op_by_id[todo.pop()].inputs:
                maker = self.graph.producer.get(t)
                if maker is not None and maker in ahead - between - {start}:
                    between.add(maker)
                    todo.append(maker)
        can: dict[int, set[int]] = {start: {at[1]}}
        for own in sorted(between, key=lambda op: self.graph.index_of[op]):
            allowed = set(self._axes(own))
            for t in self.graph.op_by_id[own].inputs:
                maker = self.graph.producer.get(t)
                if maker is not None and maker in can:
                    allowed &= set[int]().union(*(self._read_along((maker, axis), t, own) for axis in can[maker]))
            can[own] = allowed
        return can[reader]

    def _read_along(self, maker: Where, t: int, reader: int) -> set[int]:
        """Axes along which a reader reads in parts, forwards, a tensor that is made in parts."""
        d = self._made_along(maker, t)
        axes: set[int] | None = None
        for i, read in self._operands(self.graph.op_by_id[reader]):
            if read == t:
                index = None if d is None else (self._access(reader).inputs[i] or ())[d]
                here = {index.axis} if index is not None and index.num > 0 else set[int]()
                axes = here if axes is None else axes & here
        return axes or set()
