"""Smaller operands for an op that is slow to probe, under the same map.

An axis can be made shorter by k * den rows if every dimension that runs along it gives k * num: windows keep their
phase, strides and edges. What a literal or an attribute says the size of stays.
"""

from __future__ import annotations

from lowtide.ops.access import Access, Shapes
from lowtide.ops.families import access_of, elements, flops_of
from lowtide.ops.forms import Blocks, Concat, Convolution, Form, Generate, Indexed, Pointwise, Reshape

_LEAST = 8


def shrunk(form: Form, reads: Shapes, writes: Shapes, budget: int) -> tuple[Shapes, Shapes]:
    """Shapes of operands and results under which the op has at most `budget` elements and operations, if possible."""
    access = access_of(form, reads, writes)
    frozen = {axis for axis in range(len(access.sizes)) if not _free(form, access, reads, axis)}
    while cost(form, reads, writes) > budget:
        axes = [axis for axis, size in enumerate(access.sizes) if axis not in frozen and size > _LEAST]
        if not axes:
            break
        axis = max(axes, key=lambda axis: access.sizes[axis])
        smaller = _shortened(access, reads, writes, axis)
        if smaller is None:
            frozen.add(axis)
            continue
        reads, writes = smaller
        access = access_of(form, reads, writes)
    return reads, writes


def cost(form: Form, reads: Shapes, writes: Shapes) -> int:
    """Elements touched, or half the operations, whichever is more."""
    return max(flops_of(form, reads, writes) // 2, *(elements(shape) for shape in (*reads, *writes)))


def _free(form: Form, access: Access, reads: Shapes, axis: int) -> bool:
    """Whether nothing but shapes speaks of the axis's size."""
    if isinstance(form, Reshape | Generate) or (isinstance(form, Pointwise) and form.literal):
        return False
    if isinstance(form, Indexed) and form.family == "resample":
        return False
    if isinstance(form, Convolution) and form.groups > 1 and axis == form.channel:
        return False
    if access.grain_of(axis) > 1:
        return False
    for dims, shape in zip(access.inputs, reads, strict=True):
        for index, size in zip(dims or (), shape or (), strict=True):
            if index is None or index.axis != axis:
                continue
            placed = isinstance(form, Indexed | Blocks | Concat) and not (index.same and size == access.sizes[axis])
            if index.num < 1 or placed:
                return False
    return True


def _shortened(access: Access, reads: Shapes, writes: Shapes, axis: int) -> tuple[Shapes, Shapes] | None:
    """Shapes with about half of an axis; None if some dimension does not go along."""
    indices = [index for dims in access.inputs for index in dims or () if index is not None and index.axis == axis]
    den = max((index.den for index in indices), default=1)
    size = access.sizes[axis]
    steps = (size - max(_LEAST, size // 2)) // den
    if steps < 1 or any(den % index.den for index in indices):
        return None
    less = steps * den
    smaller_reads = []
    for dims, shape in zip(access.inputs, reads, strict=True):
        if shape is None or dims is None:
            smaller_reads.append(shape)
            continue
        sizes = tuple(
            s - less * index.num // index.den if index is not None and index.axis == axis else s
            for index, s in zip(dims, shape, strict=True)
        )
        if min(sizes, default=1) < 1:
            return None
        smaller_reads.append(sizes)
    smaller_writes = tuple(
        shape and tuple(s - less if at == axis else s for at, s in zip(dims, shape, strict=True))
        for dims, shape in zip(access.outputs, writes, strict=True)
    )
    return tuple(smaller_reads), smaller_writes
