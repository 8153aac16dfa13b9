"""What we read of a torch.export archive: one JSON document in a zip. Nothing is unpickled, and torch is not needed.

An argument of a node is an object with one key that says what it is: ``{"as_tensor": {"name": "x"}}``. Sizes are
numbers or expressions over named symbols, with the value that the example had as a hint.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lowtide.errors import InputError
from lowtide.files import open_regular

_MOST_BYTES = 2**30
_NAMES = ("models/model.json", "serialized_exported_program.json")

ELEMENT_BYTES = {
    1: ("uint8", 1), 2: ("int8", 1), 3: ("int16", 2), 4: ("int32", 4), 5: ("int64", 8), 6: ("float16", 2),
    7: ("float32", 4), 8: ("float64", 8), 9: ("complex32", 4), 10: ("complex64", 8), 11: ("complex128", 16),
    12: ("bool", 1), 13: ("bfloat16", 2), 28: ("uint16", 2), 29: ("float8e4m3fn", 1), 30: ("float8e5m2", 1),
    31: ("float8e4m3fnuz", 1), 32: ("float8e5m2fnuz", 1), 33: ("float8e8m0", 1), 34: ("uint32", 4),
    35: ("uint64", 8),
}  # fmt: skip
"""Name and bytes of an element, by the number that the archive has for its type."""


class Named(msgspec.Struct):
    """A tensor or object by name."""

    name: str


class SymbolRef(msgspec.Struct):
    """A number: one that a node makes, by name, or a plain one."""

    as_name: str | None = None
    as_int: int | None = None
    as_float: Any = None
    as_bool: bool | None = None


class Hint(msgspec.Struct):
    """What a symbol was in the example."""

    as_int: int | None = None


class Expression(msgspec.Struct):
    """A size over symbols."""

    expr_str: str
    hint: Hint | None = None


class Size(msgspec.Struct):
    """A dimension, a stride or an offset, in elements."""

    as_int: int | None = None
    as_expr: Expression | None = None


class Device(msgspec.Struct):
    """Where a tensor is stored."""

    type: str = "cpu"
    index: int | None = None


class TensorMeta(msgspec.Struct):
    """Type, shape and strides of a tensor."""

    dtype: int
    sizes: list[Size]
    strides: list[Size]
    storage_offset: Size
    device: Device = msgspec.field(default_factory=Device)


class Argument(msgspec.Struct):
    """One of these is set."""

    as_tensor: Named | None = None
    as_tensors: list[Named] | None = None
    as_optional_tensor: Argument | None = None
    as_optional_tensors: list[Argument] | None = None
    as_nested_tensors: list[list[Named]] | None = None
    as_custom_obj: Named | None = None
    as_sym_int: SymbolRef | None = None
    as_sym_ints: list[SymbolRef] | None = None
    as_sym_float: SymbolRef | None = None
    as_sym_floats: list[SymbolRef] | None = None
    as_sym_bool: SymbolRef | None = None
    as_sym_bools: list[SymbolRef] | None = None
    as_string_to_argument: dict[str, Argument] | None = None
    as_graph: NamedGraph | None = None
    as_bool: bool | None = None
    as_int: int | None = None
    as_float: Any = None
    as_string: str | None = None
    as_scalar_type: int | None = None
    as_device: Device | None = None
    as_ints: Any = None
    as_floats: Any = None
    as_bools: Any = None
    as_strings: Any = None
    as_int_lists: Any = None
    as_memory_format: Any = None
    as_layout: Any = None
    as_operator: Any = None
    as_complex: Any = None


class NamedArgument(msgspec.Struct):
    """An argument with its name in the operator's schema."""

    arg: Argument
    name: str = ""


class Node(msgspec.Struct):
    """A call of an operator."""

    target: str
    inputs: list[NamedArgument]
    outputs: list[Argument]
    name: str | None = None


class ExportedGraph(msgspec.Struct):
    """Nodes in their order, and what is known of each tensor."""

    inputs: list[Argument]
    outputs: list[Argument]
    nodes: list[Node]
    tensor_values: dict[str, TensorMeta]


class NamedGraph(msgspec.Struct):
    """A body of a higher-order operator."""

    name: str
    graph: ExportedGraph


class SpecArgument(msgspec.Struct):
    """Whose input a specification speaks of."""

    arg: Any = None


class InputSpec(msgspec.Struct):
    """What a graph input is; one of these is set, or it is the user's."""

    parameter: SpecArgument | None = None
    buffer: SpecArgument | None = None
    tensor_constant: SpecArgument | None = None


class Signature(msgspec.Struct):
    """What each input is."""

    input_specs: list[InputSpec]


class GraphModule(msgspec.Struct):
    """The graph and its signature."""

    graph: ExportedGraph
    signature: Signature


class Program(msgspec.Struct):
    """The document."""

    graph_module: GraphModule


@dataclass(frozen=True)
class Archive:
    """The graph's document in its archive: the member's name, and its bytes."""

    member: zipfile.ZipInfo
    document: bytes


def open_archive(path: Path) -> Archive:
    """Find the one graph of an archive. Raises `InputError`: not a zip file, damaged, no graph or several, or a graph
    of more than 1 GiB."""
    place = str(path)
    try:
        with open_regular(path) as (file, _), zipfile.ZipFile(file) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(_NAMES)]
            if len(members) != 1:
                known = "no graph" if not members else f"{len(members)} graphs"
                raise InputError(f"the archive holds {known}; save one program with torch.export.save", place)
            if members[0].file_size > _MOST_BYTES:
                raise InputError(f"its graph has {members[0].file_size:,} bytes, more than 1 GiB", place)
            return Archive(members[0], archive.read(members[0]))
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise InputError(f"not a torch.export archive, or cut short ({error}); save it again", place) from None


def parse_program(document: bytes, place: str) -> Program:
    """Read the document. Raises `InputError` with the place in it if it has another form."""
    try:
        document.decode()  # msgspec does not look into strings that nothing asks for
        return msgspec.json.decode(document, type=Program)
    except msgspec.ValidationError as error:
        raise InputError(
            f"its graph has a form that is not known: {error}; save it with torch 2.6 or later", place
        ) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"its graph is no JSON: {error}; save it again", place) from None
