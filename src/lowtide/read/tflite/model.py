"""The structure of a .tflite file: every subgraph, without the weights. Graphs are made of it, and writing needs it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lowtide.errors import InputError
from lowtide.graph import MAX_VALUE_BYTES, ModelFile, Quant
from lowtide.read.tflite.dependencies import CONTROL_DEPENDENCIES, control_dependencies
from lowtide.read.tflite.options import SUBGRAPHS, options_of
from lowtide.read.tflite.schema import CUSTOM, IDENTIFIER, OPERATORS, PLACEHOLDER, TYPES
from lowtide.read.tflite.wire import Flatbuffer, Table, WireError

if TYPE_CHECKING:
    from lowtide.files import Buffer

OFFLINE_PLAN = "OfflineMemoryAllocation"
KERNELS = "lowtide_kernels"
"""Metadata of lowtide's own: for whose kernels the offline plan holds."""
_VERSION = 3
_MOST_NAME = 32


@dataclass(frozen=True, slots=True)
class TfliteTensor:
    """A tensor. `bits` of one element (0: no fixed size); `buffer_bytes`: what its buffer holds in the file.

    `dynamic`: the file leaves a dimension open, and `shape` holds what it takes for it. `shape_at`: byte of the first
    dimension in the file. `value`: what a small constant holds (axes, paddings and the like), else None. `handle`: it
    names a variable, and VAR_HANDLE, which makes it, keeps it outside the arena in both runtimes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bits: int
    buffer: int
    buffer_bytes: int
    variable: bool
    sparse: bool
    dynamic: bool
    quant: Quant | None
    shape_at: int | None = None
    value: bytes | None = None
    handle: bool = False

    @property
    def channels(self) -> int:
        """Number of scales that it is quantised with."""
        return len(self.quant.scales) if self.quant is not None else 0

    @property
    def elements(self) -> int:
        """Number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def size(self) -> int:
        """Bytes it takes in memory; elements under a byte are packed."""
        return 0 if self.handle else -(-self.elements * self.bits // 8)


@dataclass(frozen=True, slots=True)
class TfliteOp:
    """An operator: type name, tensor indices (-1: an optional one left out), and its options by the schema's names."""

    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: dict[str, Any]

    @property
    def callees(self) -> tuple[int, ...]:
        """Subgraphs that the operator runs, in its own order."""
        branches = self.options.get("branch_subgraph_indices", ())
        several = branches if isinstance(branches, tuple) else ()
        return (*(self.options[key] for key in SUBGRAPHS if key in self.options), *several)


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A subgraph. `operators_at`: byte of the first entry of its vector of operators, or None if it has none."""

    name: str
    tensors: tuple[TfliteTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ops: tuple[TfliteOp, ...]
    operators_at: int | None


@dataclass(frozen=True, slots=True)
class Extent:
    """A stretch of bytes in the file."""

    at: int
    size: int


@dataclass(frozen=True)
class TfliteModel:
    """A file. `buffers` are the places of their data; `metadata` is name and buffer index, in the file's order."""

    subgraphs: tuple[Subgraph, ...]
    buffers: tuple[Extent | None, ...]
    metadata: tuple[tuple[str, int], ...]
    place: str = field(default="", compare=False)

    @property
    def tensor_count(self) -> int:
        """Number of tensors of all subgraphs."""
        return sum(len(graph.tensors) for graph in self.subgraphs)

    def metadata_extent(self, name: str) -> Extent | None:
        """Where the first metadata of a name is; None if there is none or it is empty."""
        for key, buffer in self.metadata:
            if key == name and 0 <= buffer < len(self.buffers):
                return self.buffers[buffer]
        return None


@dataclass(frozen=True)
class TfliteFile(ModelFile):
    """A file, without weights: all that planning asks of it, so that it need not be there any more.

    `size_bytes`: of the file. `dependencies`: per subgraph, pairs of operators, the first to run before the second.
    `offline_words`: the 32-bit words of TFLM's offline plan, as many as it can need; None if the file holds no plan.
    `kernels`: whose kernels lowtide wrote that plan for; empty if the file does not say.
    """

    model: TfliteModel
    size_bytes: int
    dependencies: tuple[tuple[tuple[int, int], ...], ...] = ()
    offline_words: tuple[int, ...] | None = None
    kernels: str = ""

    def offline_plan(self) -> list[int] | None:
        """Offset or -1 of TFLM's offline plan for each tensor of all subgraphs; None if there is no plan. Raises
        `InputError`: a plan that TFLM refuses: empty, or for another number of tensors."""
        words = self.offline_words
        if words is None:
            return None
        tensors = self.model.tensor_count
        if len(words) < 3 or words[2] != tensors or len(words) < 3 + tensors:
            claim = f"{words[2]} tensors" if len(words) >= 3 else "nothing"
            raise InputError(
                f"its offline plan is for {claim}, and there are {tensors} tensors: TFLM refuses the file; "
                "plan it again",
                self.model.place,
            )
        return list(words[3 : 3 + tensors])


def parse_file(data: Buffer, place: str) -> TfliteFile:
    """Read all of a .tflite file that plans hang on. Raises `InputError`: as `parse_tflite` and
    `lowtide.read.tflite.dependencies.control_dependencies`."""
    model = parse_tflite(data, place)
    extent = model.metadata_extent(CONTROL_DEPENDENCIES)
    listed = bytes(data[extent.at : extent.at + extent.size]) if extent is not None else None
    dependencies = control_dependencies(listed, len(model.subgraphs), place)
    return TfliteFile(
        model, len(data), tuple(map(tuple, dependencies)), _offline_words(model, data), _kernels(model, data)
    )


def _kernels(model: TfliteModel, data: Buffer) -> str:
    extent = model.metadata_extent(KERNELS)
    held = bytes(data[extent.at : extent.at + extent.size]) if extent is not None else b""
    return held.rstrip(b"\0").decode("ascii", "replace")[:_MOST_NAME]


def _offline_words(model: TfliteModel, data: Buffer) -> tuple[int, ...] | None:
    held = [buffer for name, buffer in model.metadata if name == OFFLINE_PLAN]
    if not held:
        return None
    extent = model.buffers[held[-1]] if 0 <= held[-1] < len(model.buffers) else None
    words = min(extent.size // 4, 3 + model.tensor_count) if extent is not None else 0
    return struct.unpack_from(f"<{words}i", data, extent.at) if extent is not None else ()


def parse_tflite(data: Buffer, place: str) -> TfliteModel:
    """Read the structure of a .tflite file. Raises `InputError`: no TFLite model, cut short, an offset that leads out
    of the file, an index that names nothing."""
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise InputError("not a TFLite model: its bytes 4 to 7 are not TFL3; give a .tflite file", place)
    try:
        return _model(Flatbuffer(data), place)
    except WireError as error:
        raise InputError(f"not a TFLite model, or cut short: {error}; export it again", place) from None


def _model(file: Flatbuffer, place: str) -> TfliteModel:
    root = file.root()
    version = root.number(0, "I")
    if version != _VERSION:
        raise InputError(f"it has schema version {version}; only version {_VERSION} is known", place)
    buffers = tuple(_buffer(table, file.size) for table in root.tables(4))
    values = _values(file, buffers)
    codes = [_code(table) for table in root.tables(1)]
    subgraphs = []
    for index, table in enumerate(root.tables(2)):
        where = place if index == 0 else f"{place}: subgraph {index}"
        subgraphs.append(_subgraph(table, codes, buffers, values, where))
    if not subgraphs:
        raise InputError("it has no subgraph; export it again", place)
    for index, graph in enumerate(subgraphs):
        for i, op in enumerate(graph.ops):
            for callee in op.callees:
                if not 0 <= callee < len(subgraphs):
                    raise InputError(
                        f"operator {i} ({op.type}) of subgraph {index} runs subgraph {callee}, which does not exist",
                        place,
                    )
    metadata = tuple((table.text(0), table.number(1, "I")) for table in root.tables(6))
    return TfliteModel(tuple(subgraphs), buffers, metadata, place)


def _buffer(table: Table, file_bytes: int) -> Extent | None:
    """Where a buffer's data is: in the flatbuffer, or after it (how files of over 2 GiB hold their weights)."""
    inside = table.vector(0, 1)
    if inside is not None and inside[1]:
        return Extent(*inside)
    at, size = table.number(1, "Q"), table.number(2, "Q")
    if at > 1 and size:
        if at + size > file_bytes:
            raise WireError(f"a buffer is at bytes {at} to {at + size}, and the file ends at {file_bytes}")
        return Extent(at, size)
    return None


def _code(table: Table) -> str:
    old, new = table.number(0, "b"), table.number(3, "i")
    code = max(old, new) if old < PLACEHOLDER else new
    if code == CUSTOM:
        return f"CUSTOM:{table.text(1)}"
    return OPERATORS[code] if 0 <= code < len(OPERATORS) else f"BUILTIN:{code}"


def _values(file: Flatbuffer, buffers: tuple[Extent | None, ...]) -> list[bytes | None]:
    """What each small buffer holds."""
    values: list[bytes | None] = []
    for extent in buffers:
        small = extent is not None and extent.size <= MAX_VALUE_BYTES
        values.append(file.bytes_at(extent.at, extent.size) if small and extent is not None else None)
    return values


def _subgraph(
    table: Table, codes: list[str], buffers: tuple[Extent | None, ...], values: list[bytes | None], place: str
) -> Subgraph:
    tensors = tuple(_tensor(t, i, buffers, values, place) for i, t in enumerate(table.tables(0)))
    ops = tuple(_op(t, i, codes, len(tensors), place) for i, t in enumerate(table.tables(3)))
    inputs, outputs = table.integers(1) or (), table.integers(2) or ()
    for what, listed in (("input", inputs), ("output", outputs)):
        for t in listed:
            if not 0 <= t < len(tensors):
                raise InputError(f"its {what} is tensor {t}, and there are {len(tensors)}; export it again", place)
    handles = {t for op in ops if op.type == "VAR_HANDLE" for t in op.outputs}
    if handles:
        tensors = tuple(replace(t, handle=i in handles) for i, t in enumerate(tensors))
    vector = table.vector(3, 4)
    return Subgraph(table.text(4), tensors, inputs, outputs, ops, vector[0] if vector else None)


def _tensor(
    table: Table, index: int, buffers: tuple[Extent | None, ...], values: list[bytes | None], place: str
) -> TfliteTensor:
    shape = table.integers(0) or ()
    signature = table.integers(7) or ()
    name = table.text(3)
    if any(d < 0 for d in shape):
        raise InputError(
            f"tensor {index} {name!r} has the dynamic shape {list(shape)}; export with fixed shapes", place
        )
    kind = table.number(1, "b")
    if kind not in TYPES:
        raise InputError(f"tensor {index} {name!r} has element type {kind}, which is not known", place)
    buffer = table.number(2, "I")
    if buffer and buffer >= len(buffers):
        raise InputError(f"tensor {index} {name!r} is in buffer {buffer}, and there are {len(buffers)}", place)
    extent = buffers[buffer] if buffers else None
    dtype, bits = TYPES[kind]
    tensor = TfliteTensor(
        name,
        shape,
        dtype,
        bits,
        buffer,
        extent.size if extent else 0,
        bool(table.number(5, "B")),
        table.place(6) is not None,
        any(d < 0 for d in signature),
        _quant(table.table(4)),
        table.vector_at(0),
    )
    constant = extent is not None and extent.size == tensor.size and not tensor.variable and not tensor.sparse
    return replace(tensor, value=values[buffer]) if constant else tensor


def _quant(table: Table | None) -> Quant | None:
    """How a tensor is quantised; None if it is not, or by blocks, whose scales are a tensor of their own."""
    scales = table.vector(2, 4) if table is not None else None
    if table is None or scales is None or not scales[1]:
        return None
    points = table.vector(3, 8)
    zeros = table.file.integers("q", *points) if points is not None else ()
    count = scales[1]
    zeros = zeros * count if len(zeros) == 1 else (*zeros[:count], *(0,) * (count - len(zeros)))
    return Quant(table.file.integers("f", *scales), zeros, table.number(6, "i") if count > 1 else None)


def _op(table: Table, index: int, codes: list[str], tensors: int, place: str) -> TfliteOp:
    code = table.number(0, "I")
    if code >= len(codes):
        raise InputError(f"operator {index} has operator code {code}, and there are {len(codes)}", place)
    inputs, outputs = table.integers(1) or (), table.integers(2) or ()
    intermediates = table.integers(8) or ()
    for what, listed, least in (("reads", inputs, -1), ("makes", outputs, 0), ("keeps", intermediates, -1)):
        for t in listed:
            if not least <= t < tensors:
                raise InputError(
                    f"operator {index} ({codes[code]}) {what} tensor {t}, and there are {tensors}; export it again",
                    place,
                )
    return TfliteOp(codes[code], inputs, outputs, intermediates, options_of(table))
