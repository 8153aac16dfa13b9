"""The numbers in a flexbuffer: how custom operators of a .tflite file carry their options.

A flexbuffer is read from its end: the width of its root, the root's type, the root. A map is a vector of values, in
front of which its length, the width of its keys and the offset back to a vector of those stand; types follow it::

    keys ... | back to the keys | width of keys | length | value 0 | value 1 ... | type 0 | type 1 ... | root
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

_INT, _UINT, _MAP, _BOOL = 1, 2, 9, 26
_MOST_ENTRIES = 256
_FORMS = {1: "<b", 2: "<h", 4: "<i", 8: "<q"}


def custom_numbers(options: Mapping[str, Any]) -> dict[str, int]:
    """Integers and truth values by name in the options of a custom operator; nothing if they are no such map."""
    held = options.get("custom_options")
    if not isinstance(held, bytes) or len(held) < 3:
        return {}
    try:
        return map_numbers(held)
    except (IndexError, KeyError, ValueError, struct.error):
        return {}


def map_numbers(data: bytes) -> dict[str, int]:
    """Integers and truth values of the map that a flexbuffer is. Raises `ValueError`, `IndexError`, `KeyError`,
    `struct.error`: the bytes are no flexbuffer, or cut short."""
    width, kind = data[-1], data[-2] >> 2
    if kind != _MAP:
        return {}
    at = len(data) - 2 - width
    at -= _number(data, at, width, signed=False)
    width = 1 << (data[-2] & 3)
    count = _number(data, at - width, width, signed=False)
    if count > _MOST_ENTRIES:
        return {}
    keys_at = at - 3 * width
    keys_at -= _number(data, keys_at, width, signed=False)
    keys_width = _number(data, at - 2 * width, width, signed=False)
    numbers: dict[str, int] = {}
    for i in range(count):
        entry = keys_at + i * keys_width
        start = entry - _number(data, entry, keys_width, signed=False)
        if not 0 <= start < len(data):
            raise ValueError("a key lies outside")
        name = data[start : data.index(0, start)].decode("utf-8")
        kind = data[at + count * width + i] >> 2
        if kind in (_INT, _UINT, _BOOL):
            numbers[name] = _number(data, at + i * width, width, signed=kind == _INT)
    return numbers


def _number(data: bytes, at: int, width: int, *, signed: bool) -> int:
    if at < 0:
        raise ValueError("an offset leads out of the flexbuffer")
    form = _FORMS[width]
    return struct.unpack_from(form if signed else form.upper(), data, at)[0]
