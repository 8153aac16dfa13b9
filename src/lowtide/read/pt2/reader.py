"""torch.export archives (`.pt2`) as graphs: see `lowtide.read.aten.build` for ids, views and order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lowtide.errors import ForeignDimensionError, InputError
from lowtide.graph import Graph, ModelFile
from lowtide.read.aten.build import build
from lowtide.read.pt2.arguments import Sizes, symbol_of, trace_of
from lowtide.read.pt2.schema import ExportedGraph, Program, open_archive, parse_program
from lowtide.sizes import NO_DIMS, Dims, split_dims

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Pt2File(ModelFile):
    """What a plan may ask of the file in addition to its graph: the sizes that its symbols were given."""

    dims: tuple[tuple[str, int], ...]


def read_pt2(path: str | Path, dims: Dims = NO_DIMS, *, example: bool = False, place: str = "") -> Graph:
    """Read a torch.export archive; neither torch nor the weights are needed, and nothing in it is executed.

    `path`: what `torch.export.save` wrote. `dims`: sizes of the symbols of a program with dynamic shapes (``s0``), or
    of an input's axis (``"x:0"``). `example`: give symbols that have no size in `dims` the one that they had when the
    program was exported. `place`: what the graph and every message call the file; empty: its path. Raises `InputError`:
    not such an archive, or one that does not fit together; a symbol without a size; a size for none.
    """
    path = Path(path)
    place = place or str(path)
    archive = open_archive(path)
    program = parse_program(archive.document, place)
    graph = program.graph_module.graph
    sizes_of_symbols = _by_symbol(graph, dims, place)
    sizes = Sizes({**_example(graph), **sizes_of_symbols} if example else sizes_of_symbols, place)
    trace = trace_of(graph, path.name.removesuffix(".pt2"), sizes, place)
    if sizes.free:
        names = ", ".join(f"{s} ({h} in the example)" if h is not None else s for s, h in sorted(sizes.free.items()))
        raise InputError(f"these dimensions are free: {names}; give each a size with --dim NAME=SIZE", place)
    unknown = [d for d in split_dims(dims)[0] if ":" not in d and d not in sizes.used]
    if unknown:
        raise ForeignDimensionError(f"it has no free dimension {unknown[0]!r}; drop it", place, tuple(unknown))
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", place) from None
    built = build(trace, _constants(program), place, digest)
    return replace(
        built, file=Pt2File(tuple((s, sizes_of_symbols[s]) for s in sorted(sizes.used) if s in sizes_of_symbols))
    )


def _constants(program: Program) -> set[str]:
    """Names of the inputs that are weights, buffers or constants."""
    names: set[str] = set()
    for spec in program.graph_module.signature.input_specs:
        for kind in (spec.parameter, spec.buffer, spec.tensor_constant):
            if kind is not None and isinstance(kind.arg, dict) and isinstance(kind.arg.get("name"), str):
                names.add(kind.arg["name"])
    return names


def _by_symbol(graph: ExportedGraph, dims: Dims, place: str) -> dict[str, int]:
    """Sizes by symbol, those given for an input's axis too."""
    sizes, shapes = split_dims(dims)
    result: dict[str, int] = {}
    for key, size in (*sizes.items(), *_of_shapes(graph, shapes, place)):
        name, colon, axis = key.rpartition(":")
        symbol = key
        if colon:
            meta = graph.tensor_values.get(name)
            entry = meta.sizes[int(axis)] if meta and axis.isdigit() and int(axis) < len(meta.sizes) else None
            named = symbol_of(entry.as_expr.expr_str) if entry is not None and entry.as_expr is not None else None
            if named is None:
                raise ForeignDimensionError(f"{key!r} is no free dimension of an input; drop it", place, (key,))
            symbol = named
        if result.setdefault(symbol, size) != size:
            raise InputError(f"--dim gives {symbol} two sizes, {result[symbol]} and {size}; give one", place)
    return result


def _of_shapes(graph: ExportedGraph, shapes: Mapping[str, tuple[int, ...]], place: str) -> Iterator[tuple[str, int]]:
    """Sizes of the free axes of inputs whose shapes are given, as ``"INPUT:AXIS"``."""
    for name, shape in shapes.items():
        meta = graph.tensor_values.get(name)
        if meta is None:
            raise ForeignDimensionError(f"there is no tensor {name!r} to give a shape", place, (name,))
        if len(meta.sizes) != len(shape):
            raise InputError(f"{name!r} has {len(meta.sizes)} dimensions, and {len(shape)} sizes are given", place)
        for axis, (entry, size) in enumerate(zip(meta.sizes, shape, strict=True)):
            if entry.as_expr is not None:
                yield f"{name}:{axis}", size
            elif entry.as_int != size:
                raise InputError(f"the program fixes axis {axis} of {name!r} at {entry.as_int}, not {size}", place)


def _example(graph: ExportedGraph) -> dict[str, int]:
    """The example's size of each symbol, or 2 where the archive does not say."""
    sizes: dict[str, int] = {}
    for meta in graph.tensor_values.values():
        for size in (*meta.sizes, *meta.strides, meta.storage_offset):
            if size.as_expr is not None:
                symbol, hint = symbol_of(size.as_expr.expr_str), size.as_expr.hint
                if symbol is not None and hint is not None and hint.as_int is not None:
                    sizes[symbol] = hint.as_int
                for word in _WORD.findall(size.as_expr.expr_str):
                    sizes.setdefault(word, 2)
    return sizes
