"""A model as onnxruntime's own optimiser leaves it, written to a file that can be planned like any other.

Fused nodes, folded constants and fixed dimensions are then in the file, and nothing is left that onnxruntime would do
at load time, where it would also change the order. What level "extended" fuses runs on any CPU; level "all" also
rewrites convolutions for the CPU at hand, which is onnxruntime's default and often needs less memory.

An optimised ONNX file in one form: onnxruntime names and orders what it adds by addresses, anew in every process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, Literal

from lowtide.errors import InputError, MissingExtraError, first_line
from lowtide.read.onnx.shapes import with_small_constants
from lowtide.read.onnx.wire import read_metadata
from lowtide.run import blocks, ort_session
from lowtide.run.opening import EXTERNAL_FOLDER
from lowtide.run.packed_weights import split_packed
from lowtide.run.stay_blocked import stay_blocked

Level = Literal["extended", "all"]

INLINE_BYTES = 3 * 2**29
"""Weights up to this size are written into the file itself."""

_LEVEL = "lowtide.runtime_level"
"""Key of the metadata."""
_DATA_FILE = "session.optimized_model_external_initializers_file_name"
_DATA_LEAST = "session.optimized_model_external_initializers_min_size_in_bytes"
"""onnxruntime's own names of settings: where the optimised model's external data goes, and from how many bytes on a
tensor goes there."""


def write_optimized(
    model: Path, out: Path, dims: Mapping[str, int], level: Level = "extended", inline_bytes: int = INLINE_BYTES
) -> None:
    """Let onnxruntime optimise a model offline. The same onnxruntime writes the same bytes.

    `model`, `out`: the model, and the file to write. Weights are inside, or, if the model has more than `inline_bytes`
    of them outside, in a file of that name and ``.data`` next to it: protobuf holds 2 GiB at most. `dims`: sizes of
    free dimensions by their names, of unnamed ones as ``"INPUT:AXIS"``; they are fixed in the file. `level`:
    ``"extended"``, or ``"all"`` for a file that is to run on CPUs like this one only. Raises `InputError`: onnxruntime
    cannot load the model: weights are missing, for one; or it was optimised for other processors. Raises
    `MissingExtraError`: onnxruntime is not installed.
    """
    if find_spec("onnxruntime") is None:
        raise MissingExtraError("onnxruntime", "run", "a plan for onnxruntime")
    if not model.is_file():
        raise InputError("cannot read the file: No such file or directory", str(model))
    blocks.check_block(blocks.declared_block(model), str(model))
    named, entries = {name: size for name, size in dims.items() if ":" not in name}, dict[str, str]()
    source, outside = _with_shapes(model, {name: size for name, size in dims.items() if ":" in name})
    if isinstance(source, bytes):
        entries[EXTERNAL_FOLDER] = str(model.parent.absolute())
    if outside > inline_bytes:
        entries |= {_DATA_FILE: f"{out.name}.data", _DATA_LEAST: "1024"}
    kernels: ort_session.Level = "ENABLE_ALL" if level == "all" else "ENABLE_EXTENDED"
    try:
        ort_session.new_session(source, kernels, entries=entries, dims=named, optimized_model_filepath=str(out))
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        tried = ", ".join(f"{name}={size}" for name, size in dims.items())
        at = f" at {tried} (a size may have to be a multiple of 32, say)" if dims else ""
        message = f"onnxruntime cannot load it{at}, so it cannot optimise it: {_why_not(model, error)}"
        raise InputError(message, str(model)) from None
    if 0 < outside <= inline_bytes:
        _take_in(out, model.parent)
    if level == "all":
        stay_blocked(out, blocks.block_size())
    split_packed(out)
    make_canonical(out)
    _mark(out, level)


def level_of(model: Path) -> str:
    """The level at which `write_optimized` made a file, which its copies in another order keep; empty: it made none."""
    return read_metadata(model).get(_LEVEL, "")


def _mark(file: Path, level: Level) -> None:
    """Say in a file's metadata, a record at its end, at which level it was made, and for which processors."""
    import onnx

    said = {_LEVEL: level}
    if blocks.has_blocks(onnx.load(str(file), load_external_data=False).graph):
        said[blocks.KEY] = str(blocks.block_size())
    entries = [onnx.StringStringEntryProto(key=key, value=value) for key, value in said.items()]
    with file.open("ab") as end:
        end.write(onnx.ModelProto(metadata_props=entries).SerializeToString())


def _why_not(model: Path, error: Exception) -> str:
    """Which file of weights is missing, if one is: what onnxruntime says of that is hard to read."""
    from lowtide.run.random_weights import missing_weights

    try:
        missing = missing_weights(model)
    except InputError:
        missing = []
    if missing:
        return f"its weights are in {missing[0]!r}, which does not exist; put it into the model's folder"
    return first_line(error)


def _take_in(file: Path, folder: Path) -> None:
    """Put the weights that a file leaves in `folder`, where the model's were, into it."""
    import onnx

    proto = onnx.load(str(file), load_external_data=False)
    onnx.load_external_data_for_model(proto, str(folder))
    file.write_bytes(proto.SerializeToString())


def _with_shapes(model: Path, placed: Mapping[str, int]) -> tuple[str | bytes, int]:
    """The model with sizes for the axes ``"INPUT:AXIS"`` and every tensor's shape declared: fused ops of onnxruntime's
    own keep what is declared before. And the bytes of its external data, which is not read."""
    import onnx
    from google.protobuf.message import DecodeError, EncodeError

    try:
        bare = onnx.load(str(model), load_external_data=False)
        outside = sum(_external_bytes(t) for t in bare.graph.initializer)
        for value in bare.graph.input:
            for axis, dim in enumerate(value.type.tensor_type.shape.dim if placed else ()):
                if f"{value.name}:{axis}" in placed:
                    dim.dim_value = placed[f"{value.name}:{axis}"]
        declared = {v.name for v in (*bare.graph.value_info, *bare.graph.output)}
        if placed:
            del bare.graph.value_info[:]  # declared for free sizes
        elif declared.issuperset(name for node in bare.graph.node for name in node.output if name):
            return str(model), outside
        inferred = onnx.shape_inference.infer_shapes(with_small_constants(bare, model.parent), data_prop=True)
        return inferred.SerializeToString(), outside
    except (DecodeError, EncodeError, OSError, ValueError, RuntimeError):
        return str(model), 0


def _external_bytes(tensor: Any) -> int:
    """Bytes of an initializer that lie in another file."""
    if tensor.data_location != tensor.EXTERNAL:
        return 0
    import onnx

    return onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * prod(tensor.dims)


_TOKEN = re.compile(r"_token_\d+$")
"""How names end that onnxruntime draws."""
_ADDED = ("ReorderInput", "ReorderOutput")
"""Ops that change the layout."""


def make_canonical(file: Path) -> None:
    """Number the nodes and tensors that onnxruntime added, and order all nodes, depth first from the graph's outputs;
    what the file computes stays as it is."""
    import onnx

    proto = onnx.load(str(file), load_external_data=False)
    graph = proto.graph
    ordered = _depth_first(graph)
    drawn = [name for node in ordered for name in (*node.input, *node.output) if _TOKEN.search(name)]
    new = {name: f"{_TOKEN.sub('', name)}_added_{k}" for k, name in enumerate(dict.fromkeys(drawn))}
    for node in ordered:
        if node.op_type in _ADDED or _TOKEN.search(node.name):
            node.name = f"{node.op_type} for {new.get(node.output[0], node.output[0])}"
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    for value in (*graph.value_info, *graph.initializer):
        value.name = new.get(value.name, value.name)
    values = sorted(graph.value_info, key=lambda value: value.name)
    nodes = [type(node).FromString(node.SerializeToString()) for node in ordered]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.value_info.extend(values)
    file.write_bytes(proto.SerializeToString(deterministic=True))


def _depth_first(graph: Any) -> list[Any]:
    """The nodes, each after those that it reads from: from the outputs on, and those that no output needs last."""
    maker = {name: node for node in graph.node for name in node.output if name}
    done: set[int] = set()
    order: list[Any] = []
    for root in [maker[o.name] for o in graph.output if o.name in maker] + list(graph.node):
        stack = [(root, iter(_read(root)))] if id(root) not in done else []
        done.add(id(root))
        while stack:
            node, names = stack[-1]
            name = next(names, None)
            if name is None:
                order.append(node)
                stack.pop()
            elif name in maker and id(maker[name]) not in done:
                done.add(id(maker[name]))
                stack.append((maker[name], iter(_read(maker[name]))))
    return order


def _read(node: Any) -> list[str]:
    """Names that a node reads, those that its bodies capture among them."""
    names = list(node.input)
    for attribute in node.attribute:
        for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            names += [name for inner in body.node for name in _read(inner)]
    return names
