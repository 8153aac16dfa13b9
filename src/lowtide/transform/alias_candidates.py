"""Candidate aliases: operands of concats, results of slices and splits, and tensors that share memory underneath
these."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import gcd, prod

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.forms import Concat, Indexed, Split
from lowtide.ops.meaning import Meaning, meaning
from lowtide.ops.raster import memory_dims
from lowtide.target import Target
from lowtide.transform.alias import Alias, How, box_place

MOST_UNITS = 2**20
"""Maximum number of equal units in a strided tensor: the checker visits each."""


class Candidates:
    """Every legal alias of one graph under one target, each by itself."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self._meanings: dict[int, Meaning | None] = {}

    # what there is

    @cached_property
    def all(self) -> tuple[Alias, ...]:
        """Every alias that is legal by itself: by the ops in file order, then those underneath."""
        if self.target.pieces == "copied" or self.target.rule or not self.graph.dialect:
            return ()
        some = [alias for op in self.graph.ops for alias in self._of_op(op)]
        some += self._nested()
        some += self._underneath({alias.tensor for alias in some if self._can_be(alias)})
        return tuple(alias for alias in dict.fromkeys(some) if self._can_be(alias))

    def _of_op(self, op: Op) -> Iterator[Alias]:
        known = self._meaning(op)
        form = None if known is None else known.form
        if isinstance(form, Concat):
            yield from self._concatenated(op, form)
        elif isinstance(form, Split):
            yield from self._divided(op, form)
        elif isinstance(form, Indexed):
            yield from self._taken(op, form)

    def _concatenated(self, op: Op, form: Concat) -> Iterator[Alias]:
        container = self.graph.tensor_by_id[op.outputs[0]]
        seen: set[int] = set()
        for t, box in self.operand_boxes(op, form):
            content = self.graph.tensor_by_id[t]
            if t not in seen and self._alike(content, container) and self._plain(op):
                yield from self._alias(content, container, op, "join", box)
            seen.add(t)

    def operand_boxes(self, op: Op, form: Concat) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Each operand of a concat, and its rows of every dimension of the result."""
        shape = self.graph.tensor_by_id[op.outputs[0]].shape or ()
        at = 0
        for position, t in enumerate(op.operands or op.inputs):
            if t is None or position in form.literal:
                continue
            rows = (self.graph.tensor_by_id[t].shape or ())[form.dim]
            yield t, [(at, at + rows) if d == form.dim else (0, size) for d, size in enumerate(shape)]
            at += rows

    def _divided(self, op: Op, form: Split) -> Iterator[Alias]:
        operands = [t for i, t in enumerate(op.operands or op.inputs) if t is not None and i not in form.literal]
        container = self.graph.tensor_by_id[operands[0]]
        at = 0
        for t in op.outputs:
            content = self.graph.tensor_by_id[t]
            rows = (content.shape or ())[form.dim]
            box = [(at, at + rows) if d == form.dim else (0, size) for d, size in enumerate(container.shape or ())]
            at += rows
            if self._alike(content, container):
                yield from self._alias(content, container, op, "take", box)

    def _taken(self, op: Op, form: Indexed) -> Iterator[Alias]:
        if form.family not in ("piece", "gather") or len(op.outputs) != 1:
            return
        container, content = (self.graph.tensor_by_id[t] for t in (op.inputs[0], op.outputs[0]))
        box: list[tuple[int, int]] = []
        axes: list[int] = []
        for index, size in zip(form.indices, container.shape or (), strict=True):
            if index is None:
                return
            rows = 1 if index.axis < 0 else (content.shape or ())[index.axis]
            low = index.lo // index.den if index.axis >= 0 else index.lo
            stretch = (index.num, index.den) == (1, 1) if index.axis >= 0 else index.lo == index.hi
            if not stretch or index.lo != index.hi or low < 0 or low + rows > size:
                return
            box.append((low, low + rows))
            axes += [index.axis] if index.axis >= 0 else []
        if axes == sorted(axes) and self._alike(content, container):
            yield from self._alias(content, container, op, "take", box)

    def _nested(self) -> Iterator[Alias]:
        """A concat whose operands are consecutive operands of another one is an alias of that one."""
        concats: list[tuple[Op, Concat, tuple[int | None, ...]]] = []
        by_first: dict[int | None, list[int]] = {}
        for op in self.graph.ops:
            known = self._meaning(op)
            if known is not None and isinstance(known.form, Concat) and self._plain(op):
                operands = tuple(op.operands or op.inputs)
                by_first.setdefault(operands[0], []).append(len(concats))
                concats.append((op, known.form, operands))
        for outer, form, operands in concats:
            boxes = list(self.operand_boxes(outer, form))
            if len(boxes) != len(operands):
                continue
            container = self.graph.tensor_by_id[outer.outputs[0]]
            for start, t in enumerate(operands):
                for k in by_first.get(t, ()):
                    inner, other, some = concats[k]
                    end = start + len(some)
                    if inner is outer or len(some) == len(operands) or operands[start:end] != some:
                        continue
                    content = self.graph.tensor_by_id[inner.outputs[0]]
                    box = list(boxes[start][1])
                    box[form.dim] = (box[form.dim][0], boxes[end - 1][1][form.dim][1])
                    if other.dim == form.dim and self._alike(content, container):
                        yield from self._alias(content, container, outer, "nested", box)

    def _underneath(self, inside: set[int]) -> list[Alias]:
        """Aliases of an aliased result: the source of a view, or an operand that the op may overwrite."""
        result: list[Alias] = []
        for op in reversed(self.graph.ops):
            if len(op.outputs) != 1 or op.outputs[0] not in inside:
                continue
            out = self.graph.tensor_by_id[op.outputs[0]]
            source = self.target.view_source(self.graph, op)
            read: list[tuple[int, How]] = [(t, "over") for t in self.target.overwritable_inputs(self.graph, op)]
            if source is not None:
                read = [(source, "same")]
            for t, how in read:
                if t not in inside and self.graph.tensor_by_id[t].size == out.size:
                    result.append(Alias(t, out.id, op.id, how, 0, out.size, out.size))
            inside.update(t for t, _ in read)
        return result

    def _alias(
        self, content: Tensor, container: Tensor, op: Op, how: How, box: list[tuple[int, int]]
    ) -> Iterator[Alias]:
        elements = prod(container.shape or ())
        if not content.size or not elements or container.size % elements:
            return
        order = self._order(container)
        shape = [(container.shape or ())[d] for d in order]
        place = box_place(shape, [box[d] for d in order], container.size // elements)
        if place is not None and content.size % place[1] == 0:
            yield Alias(content.id, container.id, op.id, how, *place)

    def _can_be(self, alias: Alias) -> bool:
        """Whether an alias is legal by itself."""
        content, container = self.graph.tensor_by_id[alias.tensor], self.graph.tensor_by_id[alias.of]
        if content.size > alias.run and (
            self.target.pieces != "strided" or container.size // gcd(alias.first, alias.run, alias.pitch) > MOST_UNITS
        ):
            return False
        if any(t.kind is Kind.CONSTANT or t.alias_of is not None for t in (content, container)):
            return False
        if any(self.target.copies(t) or self.target.offset(t) is not None for t in (content, container)):
            return False
        given = container.id not in self.graph.producer
        if given and (alias.how != "take" or not self.target.count_inputs):
            return False
        return content.id in self.graph.producer and (alias.how != "over" or content.kind is Kind.ACTIVATION)

    def _meaning(self, op: Op) -> Meaning | None:
        if op.id not in self._meanings:
            self._meanings[op.id] = meaning(self.graph, op)
        return self._meanings[op.id]

    def _order(self, tensor: Tensor) -> tuple[int, ...]:
        last = self.target.channels_last and not self.target.aliases_keep_file_layout
        return memory_dims(self.graph, tensor.id, channels_last=last)

    def _alike(self, content: Tensor, container: Tensor) -> bool:
        """Whether the same bytes mean the same in both, and have the same order."""
        if (
            content.dtype != container.dtype
            or content.quant != container.quant
            or None in (content.shape, container.shape)
        ):
            return False
        orders = [self._order(t) for t in (content, container)]
        return orders[0] == orders[1] or all(list(order) == sorted(order) for order in orders)

    def _plain(self, op: Op) -> bool:
        """Whether a concat does nothing else."""
        return not op.attributes.get("fused_activation_function")
