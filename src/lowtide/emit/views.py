"""Views of an operand along the dimensions of a result: broadcast, transposed, without dimensions of size 1.

An operand's view has steps along its own rows, columns and channels. A kernel counts along those of the result, so that
the steps are moved there: along a dimension that the operand has not, or has with size 1, they are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowtide.emit.kernel import Find, Material, fit
from lowtide.emit.places import View, complete, dims_of, element_bytes, sizes_of
from lowtide.graph import Kind, Tensor

NOWHERE = View(0)
"""Of an operand that is a constant, or not there."""


def aligned(view: View, of: Tensor, result: Tensor, dims: Mapping[int, int]) -> View:
    """The view with its steps along the dimensions of the result; `dims`: dimension of `of` by that of `result`."""
    own, theirs = dims_of(of.shape or ()), dims_of(result.shape or ())
    position, inside = [0, 0, 0], [0, 0, 0]
    for there, here in dims.items():
        if (of.shape or ())[here] > 1:
            fit(there in theirs and here in own)
            position[theirs[there]] = view.position[own[here]]
            inside[theirs[there]] = view.inside[own[here]]
    return replace(view, position=(position[0], position[1], position[2]), inside=(inside[0], inside[1], inside[2]))


def broadcast_dims(of: Tensor, result: Tensor) -> dict[int, int]:
    """Dimensions of an operand by those of the result, as NumPy broadcasts."""
    shape, wanted = of.shape or (), result.shape or ()
    behind = len(wanted) - len(shape)
    fit(behind >= 0 and all(size in (1, wanted[behind + d]) for d, size in enumerate(shape)))
    return {behind + d: d for d in range(len(shape))}


def same_order_dims(of: Tensor, result: Tensor) -> dict[int, int] | None:
    """Dimensions by those of a result that differs in dimensions of size 1 alone; None if it differs in others."""
    here = [d for d, size in enumerate(of.shape or ()) if size > 1]
    there = [d for d, size in enumerate(result.shape or ()) if size > 1]
    same = [(of.shape or ())[d] for d in here] == [(result.shape or ())[d] for d in there]
    return dict(zip(there, here, strict=True)) if same else None


def broadcast(material: Material, of: Tensor, result: Tensor, find: Find) -> str:
    """`operand_t` of the code: a tensor or a constant, repeated as the result's shape asks."""
    view, values = find(of.id) if of.kind is not Kind.CONSTANT else NOWHERE, "NULL"
    if of.kind is Kind.CONSTANT:
        view = complete(0, sizes_of(of), element_bytes(of))
        values = material.weights.array("weights", "int8", material.weights.bytes_of(of.id))
    return f"{{{aligned(view, of, result, broadcast_dims(of, result)).text}, {values}}}"
