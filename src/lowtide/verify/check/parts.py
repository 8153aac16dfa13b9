"""The tiled graph of a plan with cuts, built from what the plan lists, each op and tensor of it checked.

The plan says of every tensor that a cut made which rows of which of the user's tensors it holds, and of every op what
it reads and makes. That the graph computes the same follows step by step. A tile of an op is given at least the rows
that it needs, and makes the rows that it says. Slices, concats and merges keep the rows that tensors hold. What the
rest of the graph reads is materialised. Nothing here knows how the cuts were found or lowered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import Any, get_args

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Access, Exact
from lowtide.ops.forms import Concat
from lowtide.ops.meaning import Meaning, meaning
from lowtide.ops.part import Adapter, Glue, Written, accumulating, adapter, spelling
from lowtide.plan import Plan, PlanOp, PlanTensor
from lowtide.rewrites import ConcatElimination, CutOp, CutRegion, Exactness, PlanPart, Rows, Sections, SplitOp, Sums
from lowtide.verify.check.part_rows import (
    Box,
    Held,
    all_rows,
    both,
    by_the_plan,
    fail,
    needed,
    rows_quantised,
    tile_value,
    windows_differ,
    written,
)


def parted(graph: Graph, plan: Plan) -> Graph:
    """The tiled graph, its ops in the plan's order. Raises `VerificationError`: ``parts``: an op, a tensor or an output
    that does not follow."""
    return _Parts(graph, plan).run()


def has_cuts(plan: Plan) -> bool:
    """Whether the plan's graph is tiled."""
    return bool(_cuts(plan)) or any(isinstance(r, Sections) for r in plan.rewrites or ())


def _cuts(plan: Plan) -> list[CutOp | SplitOp]:
    """Every op that is cut."""
    return [cut for r in plan.rewrites or () if isinstance(r, CutRegion | ConcatElimination) for cut in r.ops]


def exactness(graph: Graph, plan: Plan) -> Exactness:
    """The loosest class among the plan's cuts: ``"bits"``, ``"kernel"`` or ``"sum"``."""
    worst = _rank("sum") if any(isinstance(r, Sums) for r in plan.rewrites or ()) else 0
    worst = max(worst, _rank("kernel") if any(isinstance(r, Sections) for r in plan.rewrites or ()) else 0)
    for cut in _cuts(plan):
        known = meaning(graph, graph.op_by_id[cut.op])
        if known is not None and _rows_of(cut):
            into = isinstance(cut, SplitOp) and cut.into
            worst = max(worst, _rank("sum" if into else known.access.exactness(cut.axis)))
    return _CLASSES[worst]


_CLASSES: tuple[Exactness, ...] = get_args(Exactness)


def _rank(exact: Exact) -> int:
    if exact == "never":
        raise fail("an op is tiled whose tiles do not add up")
    return _CLASSES.index(exact)


def _rows_of(cut: CutOp | SplitOp) -> list[Rows]:
    """The tiles that a cut says, those without a row left out."""
    return [(a, b) for a, b in zip(_begins(cut), cut.ends, strict=False) if a < b]


def _begins(cut: CutOp | SplitOp) -> list[int]:
    """The row with which each part begins."""
    return cut.begins if isinstance(cut, CutOp) and cut.begins is not None else [0, *cut.ends][: len(cut.ends)]


class _Parts:
    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph, self.plan = graph, plan
        self.listed = {t.id: t for t in plan.tensors}
        self.tensors: dict[int, Tensor] = {}
        self.held: dict[int, Held] = {}
        self.numbers: dict[int, tuple[int, ...]] = {}
        self.meanings: dict[int, Meaning] = {}
        self.cuts = _cuts(plan)
        self.cut = {c.op: c for c in self.cuts}
        self.over: dict[int, tuple[int, ...]] = {}
        self.ran: dict[int, set[Rows]] = {}

    def run(self) -> Graph:
        graph, plan = self.graph, self.plan
        if plan.version < 2:
            raise fail("a plan with tiles has version 2")
        ops = {op.id: op for op in plan.ops}
        if len(ops) != len(plan.ops) or len(self.listed) != len(plan.tensors):
            raise fail("an op or a tensor is listed twice")
        if not self.cut.keys() <= graph.index_of.keys():
            raise fail("an op is tiled that the graph does not have")
        if len(self.cut) != len(self.cuts):
            raise fail("an op is tiled twice")
        for r in plan.rewrites or ():
            if isinstance(r, CutRegion) and len({n for c in r.ops for n in (len(c.ends), len(_begins(c)))}) > 1:
                raise fail("ops of one region have different numbers of stripes")
        for t in graph.tensors:
            if t.kind is Kind.CONSTANT or t.id not in graph.producer:
                self.held[t.id] = self._all_of(t.id)
        result = []
        for v in plan.order:
            listed = ops.get(v)
            if listed is None:
                raise fail(f"op {v} is not listed")
            result.append(self._op(listed))
        left = graph.index_of.keys() - self.cut.keys() - {op.id for op in result}
        if left:
            raise fail(f"{graph.op_by_id[min(left)].label} is neither run nor tiled")
        idle = ops.keys() - {*plan.order, *(op.id for op in graph.folded)}
        if idle:
            raise fail(f"op {min(idle)} is listed, and does not run")
        for cut in self.cuts:
            if self.ran.get(cut.op, set()) != set(_rows_of(cut)) and not self._is_eliminated_concat(cut):
                raise fail(f"{graph.op_by_id[cut.op].label} is not run in the tiles that its rewrite says")
        self._check_names()
        for t in graph.tensors:
            if t.kind is Kind.OUTPUT and t.id not in self.held:
                raise fail(f"the output {t.label} is not made")
        for t in plan.tensors:
            if t.id not in self.held and t.id not in self.numbers:
                raise fail(f"tensor {t.id} is not made")
        kept = (t for t in (*graph.tensors, *self.tensors.values()) if t.id in self.listed)
        return replace(graph, tensors=tuple(kept), ops=tuple(result), file_order=())

    def _is_eliminated_concat(self, cut: CutOp | SplitOp) -> bool:
        """Whether a cut is that of a concat which does not run, in tiles each of which is of one operand."""
        known = self._meaning(op := self.graph.op_by_id[cut.op])
        if cut.op in self.ran or not isinstance(known.form, Concat) or len(op.outputs) != 1:
            return False
        dim, edges = known.form.dim, {0, *cut.ends}
        sizes = [(self.graph.tensor_by_id[t].shape or ())[dim] for t in op.inputs]
        rises = [0, *cut.ends] == sorted(edges) and cut.axis == known.access.outputs[0][dim]
        return rises and {*accumulate(sizes)} <= edges <= {*range(sum(sizes) + 1)}

    def _check_names(self) -> None:
        """Every tensor that a cut made has a name of its own, where a file knows tensors by their names."""
        given = {t.name for t in self.graph.tensors}
        for t in self.tensors.values() if self.graph.dialect == "onnx" else ():
            if t.name and t.name in given:
                raise fail(f"two tensors have the name {t.name!r}")
            given.add(t.name)

    def _all_of(self, t: int) -> Held:
        return Held(t, all_rows(self.graph.tensor_by_id[t].shape or ()))

    def _op(self, listed: PlanOp) -> Op:
        own = self.graph.op_by_id.get(listed.id)
        if listed.part is None:
            if own is None or own.id in self.cut or (listed.name, listed.type) != (own.name, own.type):
                raise fail(f"op {listed.id} is no op of the graph that is left, and no part")
            for t in own.inputs:
                if self.held.get(t) != self._all_of(t):
                    raise fail(f"{own.label} reads tensor {t}, which is not materialised")
            for t in own.outputs:
                self.held[t] = self._all_of(t)
            return own
        if own is not None:
            raise fail(f"op {listed.id} is the graph's, and no tile")
        part = listed.part
        for t in part.inputs:
            if t is not None and t not in self.held:
                self._constant(t)
        match part.role:
            case "part":
                kind, attributes = self._part(listed, part)
            case "slice":
                kind, attributes = self._slice(part)
            case "join":
                kind, attributes = self._join(part)
            case "pad":
                kind, attributes = self._pad(part)
            case _:
                kind, attributes = self._merge(part)
        if listed.type != kind:
            raise fail(f"op {listed.id} is a {listed.type}, where a {kind} is needed")
        given = tuple(part.inputs)
        inputs = tuple(t for t in given if t is not None)
        result = Op(listed.id, inputs, tuple(part.outputs), listed.name, kind, attributes=attributes, operands=given)
        return replace(result, overwrites=self.over.get(listed.id))

    def _constant(self, t: int) -> None:
        """Rows of a constant, or numbers in the place of an op's literal operand."""
        listed = self._tensor(t)
        if listed.numbers is not None:
            dtype, width = ("int32", 4) if self.graph.dialect == "tflite" else ("int64", 8)
            if any(not -(2 ** (8 * width - 1)) <= n < 2 ** (8 * width - 1) for n in listed.numbers):
                raise fail(f"tensor {t} holds numbers that are no {dtype}")
            self.numbers[t] = tuple(listed.numbers)
            shape = (len(listed.numbers),)
            value = b"".join(n.to_bytes(width, "little", signed=True) for n in listed.numbers)
            size = width * len(listed.numbers)
            self.tensors[t] = Tensor(t, size, Kind.CONSTANT, listed.name, shape, dtype, value=value)
            self._same_size(listed, self.tensors[t])
            return
        given = listed.piece
        of = None if given is None else self.graph.tensor_by_id.get(given.of)
        if given is None or of is None or of.kind is not Kind.CONSTANT or given.terms is not None:
            raise fail(f"tensor {t} is read before anything makes it")
        self._make(t, Held(given.of, tuple(given.box)), Kind.CONSTANT)
        self.tensors[t] = replace(self.tensors[t], value=tile_value(of, self.held[t].box))

    def _tensor(self, t: int) -> PlanTensor:
        listed = self.listed.get(t)
        if listed is None or t in self.graph.tensor_by_id:
            raise fail(f"tensor {t} is not there")
        return listed

    def _make(self, t: int, held: Held, kind: Kind = Kind.ACTIVATION, *, padded: bool = False) -> None:
        """A tensor that holds this, as the plan lists it; one of the user's tensors only if it holds all its rows."""
        if t in self.held:
            raise fail(f"tensor {t} is made twice")
        of = self.graph.tensor_by_id[held.of]
        shape = of.shape or ()
        if t in self.graph.tensor_by_id:
            if held != self._all_of(t):
                raise fail(f"tensor {t} would hold a part of tensor {held.of}")
            self.held[t] = held
            return
        listed = self._tensor(t)
        if len(held.box) != len(shape):
            raise fail(f"tensor {t} has rows of {len(held.box)} dimensions, tensor {held.of} has {len(shape)}")
        if not padded and any(not 0 <= a < b <= size for (a, b), size in zip(held.box, shape, strict=True)):
            raise fail(f"tensor {t} holds rows that tensor {held.of} does not have")
        given = listed.piece
        if given is None or by_the_plan(given) != replace(held, summed=None):
            raise fail(f"tensor {t} is not what its piece says")
        count = prod(shape)
        size = -(-of.size * prod(b - a for a, b in held.box) // max(1, count))
        quant = rows_quantised(of.quant, held.box)
        made = Tensor(t, size, kind, listed.name, tuple(b - a for a, b in held.box), of.dtype, quant=quant)
        self._same_size(listed, made)
        self.tensors[t] = made
        self.held[t] = held

    def _same_size(self, listed: PlanTensor, tensor: Tensor) -> None:
        if (listed.size, listed.kind) != (tensor.size, tensor.kind.value):
            raise fail(
                f"tensor {tensor.id} has {listed.size} bytes ({listed.kind}), and takes {tensor.size} ({tensor.kind})"
            )

    def _meaning(self, op: Op) -> Meaning:
        if op.id not in self.meanings:
            known = meaning(self.graph, op)
            if known is None or known.opaque is not None:
                raise fail(f"{op.label} is tiled, and its meaning is not known")
            self.meanings[op.id] = known
        return self.meanings[op.id]

    def _part(self, listed: PlanOp, part: PlanPart) -> tuple[str, Mapping[str, Any]]:
        origin = listed.origin or []
        if len(origin) != 1 or origin[0] not in self.cut or part.axis is None or part.rows is None:
            raise fail(f"op {listed.id} is a tile of no op that is tiled")
        op = self.graph.op_by_id[origin[0]]
        known = self._meaning(op)
        access, axis, rows = known.access, part.axis, part.rows
        cut = self.cut[op.id]
        if cut.axis != axis:
            raise fail(f"{op.label} has a tile along axis {axis}, which is not what its rewrite says")
        self.ran.setdefault(op.id, set()).add(rows)
        if isinstance(cut, SplitOp) and cut.into:
            return self._added_into(op, known, listed, part, axis, rows)
        how = spelling(self.graph, op, known, axis) if axis in access.cuttable() else None
        if how is None or not 0 <= rows[0] < rows[1] <= access.sizes[axis]:
            raise fail(f"{op.label} has no tile of rows {rows} along axis {axis}")
        if rows[0] % how.grain or (rows[1] % how.grain and rows[1] != access.sizes[axis]):
            raise fail(f"{op.label} is split within {how.grain} rows that belong together")
        if len(part.outputs) != len(op.outputs):
            raise fail(f"op {listed.id} makes {len(part.outputs)} of {len(op.outputs)}")
        reduced = axis in access.reduce
        for j, t in enumerate(part.outputs):
            held = written(access, j, op, self.graph, axis, rows, reduced)
            around = written(access, j, op, self.graph, axis, how.around(rows), reduced)
            self._make(t, held if held.box == around.box else replace(around, sure=held.box))
        shapes = tuple(tuple(b - a for a, b in self.held[t].box) for t in part.outputs)
        lowered = how.spell(rows, shapes)
        self._operands(op, access, part, part.inputs, lowered, reduced and rows[0] > 0)
        if self.graph.dialect == "tflite":
            self._windows(op, part, lowered.attributes)
        return op.type, lowered.attributes

    def _windows(self, op: Op, part: PlanPart, attributes: Mapping[str, Any]) -> None:
        """Every window of a tile sees what that of the untiled op sees."""
        held = self.held[part.inputs[0] or 0] if part.inputs and part.inputs[0] in self.held else None
        made = self.held[part.outputs[0]]
        why = None if held is None else windows_differ(self.graph, op, attributes, held.box, made.box)
        if why is not None:
            raise fail(f"a part of {op.label} {why}")

    def _added_into(
        self, op: Op, op_meaning: Meaning, listed: PlanOp, part: PlanPart, axis: int, rows: Rows
    ) -> tuple[str, Mapping[str, Any]]:
        """A tile of a sum, added to the tiles before: each once, and what follows the sum after all of them."""
        access, adds = op_meaning.access, accumulating(self.graph, op, op_meaning, axis)
        if adds is None or not 0 <= rows[0] < rows[1] <= access.sizes[axis]:
            raise fail(f"{op.label} cannot be added to as op {listed.id} does")
        if len(part.outputs) != 1 or len(op.outputs) != 1:
            raise fail(f"op {listed.id} makes {len(part.outputs)} of {len(op.outputs)}")
        follows = listed.type == adds.type and len(part.inputs) == adds.operand + 1
        if not follows and len(self.ran[op.id]) > 1:
            raise fail(f"op {listed.id} is not added to the parts before, as its cut says")
        read = list(part.inputs)
        so_far: tuple[Rows, ...] = ()
        if follows:
            total = read.pop()
            held = self.held.get(total) if total is not None else None
            if held is None or (held.of, held.summed) != (op.outputs[0], (op.id, axis)):
                raise fail(f"op {listed.id} adds to tensor {total}, which is no part of its sum")
            so_far, self.over[listed.id] = held.terms or (), (total or 0,)
            while read and read[-1] is None:
                read.pop()
        box = all_rows(self.graph.tensor_by_id[op.outputs[0]].shape or ())
        made = Held(op.outputs[0], box, both(so_far, (rows,)), (op.id, axis)).added_up(access.sizes[axis])
        self._make(part.outputs[0], made)
        self._operands(op, access, part, read, None, rows[0] > 0)
        attributes = {k: v for k, v in op.attributes.items() if made.terms is None or k not in adds.at_the_end}
        return adds.type if follows else op.type, attributes

    def _operands(
        self, op: Op, access: Access, part: PlanPart, read: Sequence[int | None], lowered: Written | None, later: bool
    ) -> None:
        """Each operand holds just the rows that the tile needs, and all of what is not cut."""
        given, is_concat = op.operands or op.inputs, op.type in ("Concat", "CONCATENATION")
        wanted: list[tuple[int, Box] | tuple[int, ...] | None] = []
        axis, rows = part.axis or 0, part.rows or (0, 0)
        for i, t in enumerate(given):
            if t is None or (later and i in access.once):
                wanted.append(None)
            elif lowered is not None and i in lowered.literals:
                wanted.append(tuple(lowered.literals[i]))
            else:
                shape = self.graph.tensor_by_id[t].shape or ()
                box = needed(access, i, shape, axis, rows)
                if i == 0 and lowered is not None and lowered.padding:
                    box = tuple((a - x, b + y) for (a, b), (x, y) in zip(box, lowered.padding, strict=True))
                is_given = all(a < b for a, b in box) or (0 in shape and not is_concat)
                wanted.append((t, box) if is_given else None)
        if is_concat:
            wanted = [w for w in wanted if w is not None]
        while wanted and wanted[-1] is None:
            wanted.pop()
        if len(read) != len(wanted):
            raise fail(f"a part of {op.label} reads {len(read)} operands, and needs {len(wanted)}")
        for t, want in zip(read, wanted, strict=True):
            held = None if t is None else self.held.get(t)
            is_numbers = t is not None and t in self.numbers and self.numbers[t] == want
            is_rows = held is not None and held.rows_alone and (held.of, held.box) in self._same(want)
            if not (is_numbers or is_rows or (t is None and want is None)):
                raise fail(f"a part of {op.label} reads tensor {t}, and needs {want}")

    def _same(self, want: tuple[int, Box] | tuple[int, ...] | None) -> list[tuple[int, Box]]:
        """Rows of a tensor, and the same rows of others: of what a concat makes, rows of an operand."""
        match want:
            case (int(t), tuple(box)):
                result = [(t, box)]
            case _:
                return []
        while True:
            t, box = result[-1]
            within = self._operand_of(t, box)
            if within is None:
                return result
            result.append(within)

    def _operand_of(self, t: int, box: Box) -> tuple[int, Box] | None:
        """The operand of a concat that holds some rows of what it makes, and which rows of it they are."""
        maker = self.graph.producer.get(t)
        op = None if maker is None else self.graph.op_by_id[maker]
        if op is None or op.type != "Concat" or op.bodies:
            return None
        shape = self.graph.tensor_by_id[t].shape or ()
        dim = int(op.attributes.get("axis", 1)) % len(shape)
        first = 0
        for x in op.inputs:
            own = self.graph.tensor_by_id[x].shape or ()
            if len(own) != len(shape):
                return None
            end = first + own[dim]
            if first <= box[dim][0] and box[dim][1] <= end:
                return x, tuple((a - first, b - first) if d == dim else (a, b) for d, (a, b) in enumerate(box))
            first = end
        return None

    def _glue(self, part: PlanPart, glue: Glue, tensors: int) -> tuple[str, Mapping[str, Any]]:
        literals = [self.numbers.get(t) if t is not None else None for t in part.inputs[tensors:]]
        if literals != [tuple(values) for values in glue.literals]:
            raise fail(f"a {part.role} has operands of its own that it does not need")
        return glue.type, glue.attributes

    def _slice(self, part: PlanPart) -> tuple[str, Mapping[str, Any]]:
        held, listed = self._first(part), self._tensor(part.outputs[0])
        box = tuple(listed.piece.box) if listed.piece is not None else ()
        if held.terms is not None or len(box) != len(held.box):
            raise fail(f"tensor {listed.id} is no slice")
        rows = {}
        for d, ((a, b), (first, end)) in enumerate(zip(box, held.box, strict=True)):
            low, high = (first, end) if held.sure is None else held.sure[d]
            if not low <= a < b <= high:
                raise fail(f"tensor {listed.id} would be rows {a} to {b} of {low} to {high}")
            if (a, b) != (first, end):
                rows[d] = (a - first, b - first)
        self._make(listed.id, Held(held.of, box))
        shape = tuple(b - a for a, b in held.box)
        return self._glue(part, self._adapter().slicing(self.graph, rows, shape), 1)

    def _pad(self, part: PlanPart) -> tuple[str, Mapping[str, Any]]:
        """Padding is around a tensor, and never in it."""
        held, listed = self._first(part), self._tensor(part.outputs[0])
        box = tuple(listed.piece.box) if listed.piece is not None else ()
        shape = self.graph.tensor_by_id[held.of].shape or ()
        if not held.rows_alone or len(box) != len(held.box):
            raise fail(f"tensor {listed.id} is no padding")
        rows = []
        for (a, b), (first, end), size in zip(box, held.box, shape, strict=True):
            if a > first or b < end or (a < first and first > 0) or (b > end and end < size):
                raise fail(f"tensor {listed.id} would have padding where tensor {held.of} has rows")
            rows.append((first - a, b - end))
        self._make(listed.id, Held(held.of, box), padded=True)
        if self.graph.dialect != "tflite":
            raise fail(f"no op of this format puts padding beside tensor {held.of}")
        return self._glue(part, self._adapter().padding(tuple(rows)), 1)

    def _adapter(self) -> Adapter:
        spell = adapter(self.graph)
        if spell is None:
            raise fail("models of this format cannot be tiled")
        return spell

    def _first(self, part: PlanPart) -> Held:
        t = part.inputs[0] if part.inputs else None
        held = None if t is None else self.held.get(t)
        if held is None or len(part.outputs) != 1:
            raise fail(f"a {part.role} reads tensor {t}")
        return held

    def _join(self, part: PlanPart) -> tuple[str, Mapping[str, Any]]:
        operands = [self.held[t] for t in part.inputs if t in self.held]
        first = self._first(part)
        if not first.box or any(h.of != first.of for h in operands):
            raise fail(f"a join has other operands than slices of tensor {first.of}")
        dims = {d for h in operands for d, rows in enumerate(h.box) if rows != first.box[d]}
        dim = min(dims, default=0)
        at = first.box[dim][0]
        for held in operands:
            if not held.rows_alone or held.box[dim][0] != at:
                raise fail(f"slices of tensor {first.of} are not adjacent")
            if any(rows != first.box[d] for d, rows in enumerate(held.box) if d != dim):
                raise fail(f"slices of tensor {first.of} differ along two dimensions")
            at = held.box[dim][1]
        most = self._adapter().MOST_OPERANDS
        if most and len(operands) > most:
            raise fail(f"{len(operands)} slices of tensor {first.of} are concatenated, and at most {most} can be")
        box = tuple((first.box[d][0], at) if d == dim else rows for d, rows in enumerate(first.box))
        self._make(part.outputs[0], Held(first.of, box))
        return self._glue(part, self._adapter().joining(dim), len(operands))

    def _merge(self, part: PlanPart) -> tuple[str, Mapping[str, Any]]:
        one = self._first(part)
        second = part.inputs[1] if len(part.inputs) == 2 else None
        other = None if second is None else self.held.get(second)
        if other is None or one.terms is None or other.terms is None or one.summed is None:
            raise fail("a merge is of two parts of a sum")
        if (one.of, one.box, one.summed) != (other.of, other.box, other.summed):
            raise fail(f"parts of the sum {one.of} are of another one")
        access = self.meanings[one.summed[0]].access
        held = replace(one, terms=both(one.terms, other.terms)).added_up(access.sizes[one.summed[1]])
        self._make(part.outputs[0], held)
        return self._glue(part, self._adapter().merging(access.merge), 2)
