"""An ONNX model with its nodes in another order, and every other byte as it was.

The NodeProto records are permuted in the wire format. The records that stand between nodes, and everything
outside the graph, stay where they are relative to the node slots, so that the inverse permutation gives the
identical file::

    graph  | node 0 | doc_string | node 1 | node 2 | initializer | ...
    order 2 0 1:
           | node 2 | doc_string | node 0 | node 1 | initializer | ...
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from lowtide.errors import InputError
from lowtide.files import Buffer, open_bytes
from lowtide.outputs import Outputs
from lowtide.read.onnx.structure import read_structure
from lowtide.read.onnx.wire import GRAPH_FIELD, LENGTH_DELIMITED, NODE_FIELD, Record, WireError, parse_model, records
from lowtide.write.slots import fill_slots

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

_CHUNK_BYTES = 16 * 1024**2
_EXTERNAL = 1


def write_onnx(
    source: str | Path,
    order: Sequence[int],
    target: str | Path,
    copy_external: bool | None = False,
    outputs: Outputs | None = None,
) -> None:
    """Write an ONNX model with its nodes in another order.

    `source`: the model; never changed. `order`: op ids (indices of nodes in `source`) of the ops that run, each once.
    Folded nodes keep their slot in the file; one whose consumer now comes earlier moves to just before it, since ONNX
    wants a topological order. Folded ones that are listed stand where the list has them. `target`: the file to write;
    replaced if it exists. `copy_external`: copy external data too, to the same place relative to `target`; None: the
    caller will (`lowtide.write.lean.move_weights`). `outputs`:
    write into these, to be committed by the caller together with others; else `target` is there on return. Raises
    `InputError`: `source` cannot be read; `order` is no topological order of it; `target` is the input or cannot be
    written; `target` is in another directory, `source` has external data and `copy_external` is not set; external data
    to copy is missing or outside the model's directory; the file holds its graph in several messages.
    """
    with Outputs() if outputs is None else nullcontext(outputs) as outputs:
        source, target = Path(source), Path(target)
        place = str(source)
        outputs.protect(source)
        with open_bytes(source) as data:
            model = parse_model(data, place)
            structure = read_structure(model, place)
            ops = sorted((*structure.ops, *structure.folded), key=lambda op: op.id)
            folded = {op.id for op in structure.folded} - set(order)
            sequence = fill_slots(ops, folded, order, place)
            external = external_to_copy(model, source, target, copy_external, outputs)
            with outputs.create(target) as file:
                for begin, end in permuted(data, sequence, place):
                    copy_range(data, begin, end, file)
        copy_external_data(external, source, target, outputs)


def permuted(data: Buffer, sequence: Iterable[int], place: str) -> Iterator[tuple[int, int]]:
    """Byte ranges of `data` that, one after another, are the file with its nodes in `sequence`. `data`: a
    ModelProto. `sequence`: index of the node for each slot, in slot order. `place`: put before every message. Raises
    `InputError`: the file has no graph, or holds it in several messages (protobuf would merge them)."""
    _, inside = graph_records(data, place)
    nodes = [(begin, end) for field, _, begin, _, end in inside if field == NODE_FIELD]
    at = 0
    for slot, node in zip(nodes, sequence, strict=True):
        yield at, slot[0]
        yield nodes[node]
        at = slot[1]
    yield at, len(data)


def graph_records(data: Buffer, place: str) -> tuple[Record, list[Record]]:
    """The record of a ModelProto's graph, and those inside it that are messages or texts. Raises `InputError`: as
    `permuted`."""
    try:
        graphs = [r for r in records(data, 0, len(data)) if r[0] == GRAPH_FIELD and r[1] == LENGTH_DELIMITED]
        if len(graphs) != 1:
            raise InputError(f"the file has {len(graphs)} records of its graph; save it anew with onnx.save", place)
        _, _, _, body, stop = graphs[0]
        return graphs[0], [r for r in records(data, body, stop) if r[1] == LENGTH_DELIMITED]
    except WireError as error:
        raise InputError(f"not an ONNX model, or cut short ({error}); export it again", place) from None


def copy_range(data: Buffer, begin: int, end: int, file: BinaryIO) -> None:
    """Write ``data[begin:end]``, of a mapped file in chunks."""
    for at in range(begin, end, _CHUNK_BYTES):
        file.write(data[at : min(at + _CHUNK_BYTES, end)])


def external_files(model: ModelProto) -> list[str]:
    """Locations of a model's external data as the file gives them, each once."""
    files: dict[str, None] = {}
    for tensor in _tensors(model):
        if tensor.data_location == _EXTERNAL:
            for entry in tensor.external_data:
                if entry.key == "location":
                    files[entry.value] = None
    return list(files)


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from _graph_tensors(model.graph)
    for training in model.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from _graph_tensors(attribute.g)
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for graph in attribute.graphs:
                yield from _graph_tensors(graph)


def external_to_copy(
    model: ModelProto, source: Path, target: Path, copy_external: bool | None, outputs: Outputs
) -> list[str]:
    """Locations of the external data that a model needs in the folder of its new path, none if that is the old one.
    Raises `InputError`: there are some, and `copy_external` is not set, or one is not there."""
    external = external_files(model)
    for location in external:
        outputs.protect(source.parent / location)
    return to_copy(external, source, target, copy_external)


def to_copy(external: list[str], source: Path, target: Path, copy_external: bool | None) -> list[str]:
    """What of `external` is to be copied for a model at `target`. Raises as `external_to_copy`."""
    if not external or copy_external is None or os.path.realpath(source.parent) == os.path.realpath(target.parent):
        return []
    inside = (at for at in external if ".." not in PurePosixPath(at).parts and not PurePosixPath(at).is_absolute())
    missing = next((location for location in inside if not (source.parent / location).exists()), None)
    if missing is not None:
        raise InputError(
            f"its weights should be in {missing!r} in its folder, which does not exist; write the output into "
            "the same directory",
            str(source),
        )
    if not copy_external:
        raise InputError(
            f"its weights are in {external[0]!r} in its folder; write the output into the same directory, or "
            "copy them too with --copy-external",
            str(source),
        )
    return external


def copy_external_data(locations: Iterable[str], source: Path, target: Path, outputs: Outputs) -> None:
    """Copy external data to the same places relative to `target`. Raises `InputError`: one is missing, is outside
    the model's directory, or cannot be written."""
    home = Path(os.path.realpath(source.parent))
    away = Path(os.path.realpath(target.parent))
    for location in locations:
        relative = PurePosixPath(location)
        origin = Path(os.path.realpath(home / relative))
        goal = Path(os.path.realpath(away / relative))
        outside = relative.is_absolute() or ".." in relative.parts or not location
        if outside or not origin.is_relative_to(home) or not goal.is_relative_to(away):
            raise InputError(
                f"external data {location!r} lies outside the model's directory; it is not copied", str(source)
            )
        try:
            goal.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write here: {error.strerror}", str(goal.parent)) from None
        with open_bytes(origin) as data, outputs.create(goal) as file:
            copy_range(data, 0, len(data), file)
