"""CAST between integers: what it is as material of C.

Source: TFLM's `cast.cc`.
"""

from __future__ import annotations

from lowtide.emit.kernel import Find, Kernel, Material, fit
from lowtide.emit.places import element_bytes, initialiser, sizes_of
from lowtide.emit.shapes import moved
from lowtide.errors import InputError
from lowtide.graph import Op

_CASTS = ("int8", "int16", "int32", "uint32")


def cast(material: Material, op: Op, find: Find) -> Kernel:
    """CAST between integers. Raises `InputError`: it is from or to another type."""
    x, y = material.data(op), material.result(op)
    if x.dtype not in _CASTS or y.dtype not in _CASTS:
        raise InputError(f"it is from {x.dtype} to {y.dtype}; C is written for {', '.join(_CASTS)}")
    fit(x.shape == y.shape)
    if element_bytes(x) == element_bytes(y):
        return moved(x, y, find, {d: d for d in range(len(x.shape or ()))})
    return Kernel("cast", initialiser((find(x.id), find(y.id)), (element_bytes(x), element_bytes(y))), sizes_of(y))
