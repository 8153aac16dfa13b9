"""Constants of the model as C arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lowtide.emit.formats import real
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Tensor
from lowtide.read.tflite.model import TfliteFile

_PER_LINE = 24
_MARK = "/* Made by lowtide; make it again when the model changes. */"
_TYPES = {
    name: np.dtype(kind)
    for name, kind in (
        ("int8", "<i1"),
        ("int16", "<i2"),
        ("uint16", "<u2"),
        ("int32", "<i4"),
        ("int64", "<i8"),
        ("float32", "<f4"),
    )
}


def c_type(dtype: str) -> str:
    """Name of a type in C."""
    return {"float32": "float", "bool": "uint8_t"}.get(dtype, f"{dtype}_t")


@dataclass
class Weights:
    """Arrays of a model, each once."""

    graph: Graph  # read from `data`, a .tflite file
    data: bytes
    # Type and numbers of each name, in the order in which they were requested
    arrays: dict[str, tuple[str, tuple[int | str, ...]]] = field(default_factory=dict)
    _names: dict[tuple[str, tuple[int | str, ...]], str] = field(default_factory=dict)

    def numbers(self, tensor: int) -> tuple[int, ...]:
        """What a constant holds. Raises `InputError`: it is none, or of a type that no kernel here takes."""
        t = self.graph.tensor_by_id[tensor]
        kind = _TYPES.get(t.dtype or "")
        if kind is None:
            raise InputError(f"{t.label} is {t.dtype or 'of no type'}, a constant of which C is not written for")
        return tuple(np.frombuffer(self._held(t), kind).tolist())

    def bytes_of(self, tensor: int) -> tuple[int, ...]:
        """Bytes of a constant of any type, as `int8`. Raises as `numbers`."""
        return tuple(np.frombuffer(self._held(self.graph.tensor_by_id[tensor]), "<i1").tolist())

    def _held(self, t: Tensor) -> bytes:
        """A constant's bytes."""
        file = self.graph.file
        assert isinstance(file, TfliteFile), file
        kept = file.model.subgraphs[0].tensors[t.id]
        extent = file.model.buffers[kept.buffer]
        if t.kind is not Kind.CONSTANT or extent is None or extent.size != t.size:
            raise InputError(f"{t.label} is no constant that the file holds; C is not written for that")
        return self.data[extent.at : extent.at + extent.size]

    def array(self, what: str, kind: str, numbers: Sequence[float]) -> str:
        """Name of an array of these numbers (``int8``, ``float32`` ...); the same numbers have one."""
        written = tuple(real(n) if kind == "float32" else int(n) for n in numbers)
        key = (kind, written)
        if key not in self._names:
            self._names[key] = name = f"model_{what}_{len(self.arrays)}"
            self.arrays[name] = key
        return self._names[key]

    @property
    def bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(len(numbers) * _TYPES[kind].itemsize for kind, numbers in self.arrays.values())

    def header(self) -> str:
        """Declarations."""
        lines = [f"extern const {c_type(kind)} {name}[{len(n)}];" for name, (kind, n) in self.arrays.items()]
        head = [_MARK, "#ifndef MODEL_WEIGHTS_H", "#define MODEL_WEIGHTS_H", "", "#include <stdint.h>", ""]
        return "\n".join([*head, *lines, "", "#endif", ""])

    def source(self) -> str:
        """Definitions."""
        lines = [_MARK, '#include "model_weights.h"', ""]
        for name, (kind, numbers) in self.arrays.items():
            lines.append(f"const {c_type(kind)} {name}[{len(numbers)}] = {{")
            texts = ["(-2147483647 - 1)" if n == -(1 << 31) else str(n) for n in numbers]
            lines += [f"    {', '.join(texts[i : i + _PER_LINE])}," for i in range(0, len(texts), _PER_LINE)]
            lines += ["};", ""]
        return "\n".join(lines)
