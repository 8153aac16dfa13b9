"""Control dependencies in the metadata of a .tflite file: which operators must run before which others."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.errors import InputError

CONTROL_DEPENDENCIES = "model_control_dependencies"
_VERSION = 1


def control_dependencies(data: bytes | None, subgraphs: int, place: str) -> list[list[tuple[int, int]]]:
    """Pairs of operators, for each of so many subgraphs, from the file's metadata; empty if there is none. Format:
    `tensorflow/lite/experimental/remat/metadata_util.cc` (varints, signed ones in zigzag). Raises `InputError`: the
    metadata is cut short, of an unknown version, or for another number of subgraphs."""
    if data is None:
        return []
    at = 0

    def unsigned() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(data) or shift > 28:
                raise InputError(f"its {CONTROL_DEPENDENCIES} are cut short; export it again", place)
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed() -> int:
        value = unsigned()
        return -(value // 2) - 1 if value % 2 else value // 2

    version = unsigned()
    if version != _VERSION:
        raise InputError(f"its {CONTROL_DEPENDENCIES} have version {version}; only 1 is known", place)
    count = unsigned()
    if count != subgraphs:
        raise InputError(f"its {CONTROL_DEPENDENCIES} are for {count} subgraphs, and there are {subgraphs}", place)
    result = []
    for _ in range(count):
        pairs = unsigned()
        if pairs > len(data):
            raise InputError(f"its {CONTROL_DEPENDENCIES} are cut short; export it again", place)
        result.append([(signed(), signed()) for _ in range(pairs)])
    return result


def dependency_bytes(listed: Sequence[Sequence[tuple[int, int]]]) -> bytes:
    """The metadata that `control_dependencies` reads."""
    out = bytearray()

    def unsigned(value: int) -> None:
        while value > 127:
            out.append(value % 128 + 128)
            value //= 128
        out.append(value)

    unsigned(_VERSION)
    unsigned(len(listed))
    for pairs in listed:
        unsigned(len(pairs))
        for pair in pairs:
            for v in pair:
                unsigned(2 * v if v >= 0 else -2 * v - 1)
    return bytes(out)
