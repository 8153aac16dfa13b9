"""Signatures: what of an op decides how long it takes, and what a cost file knows an op by.

Of an op's shapes those of the results, and those of operands as far as the results do not say them: rows under a window
follow from the rows that it makes, and a part at the edge of an image, which has fewer of them, is no other op. For the
same reason paddings are not among the attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lowtide.cost.file import FOLLOWS, CostEntry
from lowtide.graph import Graph, Op
from lowtide.ops.index import FIXED, Index
from lowtide.ops.meaning import Meaning

_FOLLOW = frozenset({"pads", "auto_pad", "output_padding", "output_shape", "random", "training_mode", "num_outputs"})
"""Attributes that say how large something is, which the shapes say too, or nothing of time."""

Shapes = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True)
class Signature:
    """An op as a cost file knows it: see `lowtide.cost.file.CostEntry`."""

    op: str
    operands: Shapes
    results: Shapes
    dtypes: tuple[str, ...]
    attributes: tuple[tuple[str, Any], ...]

    @property
    def kind(self) -> tuple[Any, ...]:
        """All of it but the shapes' sizes."""
        ranks = tuple(None if s is None else len(s) for s in (*self.operands, *self.results))
        return (self.op, self.dtypes, self.attributes, ranks)

    def entry(self, seconds: float) -> CostEntry:
        """It, with how long it takes."""
        return CostEntry(
            op=self.op,
            operands=[None if s is None else list(s) for s in self.operands],
            results=[list(s or ()) for s in self.results],
            dtypes=list(self.dtypes),
            attributes={name: _listed(value) for name, value in self.attributes},
            seconds=seconds,
        )


def of_entry(entry: CostEntry) -> Signature:
    """The signature of what was measured."""
    return Signature(
        entry.op,
        tuple(None if s is None else tuple(s) for s in entry.operands),
        tuple(tuple(s) for s in entry.results),
        tuple(entry.dtypes),
        tuple(sorted((name, _hashable(value)) for name, value in entry.attributes.items())),
    )


def of_op(
    graph: Graph, op: Op, op_meaning: Meaning | None, shapes: Mapping[int, tuple[int, ...]] | None = None
) -> Signature:
    """The signature of an op, or of a part of it whose tensors have these shapes."""
    given = [None if t is None else graph.tensor_by_id[t] for t in op.operands or op.inputs]
    made = [graph.tensor_by_id[t] for t in op.outputs]
    sizes = {} if shapes is None else shapes
    operands = []
    for i, tensor in enumerate(given):
        if tensor is None:
            operands.append(None)
            continue
        shape = sizes.get(tensor.id, tensor.shape or ())
        dims = (
            None if op_meaning is None else op_meaning.access.inputs[i] if i < len(op_meaning.access.inputs) else None
        )
        operands.append(tuple(_size(size, dims[d] if dims and d < len(dims) else None) for d, size in enumerate(shape)))
    dtypes = tuple("" if t is None else t.dtype or "" for t in given)
    kept = ((n, _hashable(v)) for n, v in op.attributes.items() if n not in _FOLLOW and _plain(v))
    results = tuple(sizes.get(t.id, t.shape or ()) for t in made)
    return Signature(op.type, tuple(operands), results, dtypes, tuple(sorted(kept)))


def _size(size: int, index: Index | None) -> int:
    return size if index is None or index.axis == FIXED or index.same else FOLLOWS


def _plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return isinstance(value, int | float | str)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, tuple | list) else value


def _listed(value: Any) -> Any:
    return list(map(_listed, value)) if isinstance(value, tuple) else value
