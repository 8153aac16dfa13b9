"""torch.export archives (`.pt2`) as graphs.

An op's id is its position among the graph's nodes, a tensor's the place of its name in the order of first appearance:
inputs (weights among them) first. A node that returns several tensors is one op. Views are aliases, as facts of the
graph; writing into memory (``relu_``, ``copy_``) returns an alias and keeps its place between what reads that memory
before and after. Weights and buffers are constants; what reads constants only still runs, every time, as in eager mode.
Numbers that nodes make (``aten.sym_size``) are tensors without bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.read.pt2.schema import Argument, ExportedGraph, Node, Program, SymbolRef, open_archive, parse_program
from lowtide.read.pt2.sizes import Form, Sizes, symbol_of
from lowtide.read.pt2.views import hands_on, keeps_its_turn, operator, writes_into

_NO_DIMS: Mapping[str, int] = {}
_WORD = re.compile(r"[A-Za-z_]\w*")


def read_pt2(path: str | Path, dims: Mapping[str, int] = _NO_DIMS, *, example: bool = False) -> Graph:
    """Read a torch.export archive; neither torch nor the weights are needed, and nothing in it is executed.

    Parameters
    ----------
    path
        What `torch.export.save` wrote.
    dims
        Sizes of the symbols of a program with dynamic shapes (``s0``), or of an input's axis (``"x:0"``).
    example
        Give symbols that have no size in `dims` the one that they had when the program was exported.

    Raises
    ------
    InputError
        Not such an archive, or one that does not fit together; a symbol without a size; a size for none.
    """
    path = Path(path)
    place = str(path)
    archive = open_archive(path)
    program = parse_program(archive.document, place)
    graph = program.graph_module.graph
    known = _by_symbol(graph, dims, place)
    sizes = Sizes({**_example(graph), **known} if example else known, place)
    built = _build(graph, _constants(program), sizes, place)
    if sizes.free:
        names = ", ".join(f"{s} ({h} in the example)" if h is not None else s for s, h in sorted(sizes.free.items()))
        raise InputError(f"these dimensions are free: {names}; give each a size with --dim NAME=SIZE", place)
    unknown = [d for d in dims if ":" not in d and d not in sizes.used]
    if unknown:
        raise InputError(f"it has no free dimension {unknown[0]!r}; drop it", place)
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", place) from None
    return Graph(path.name.removesuffix(".pt2"), tuple(built.tensors), tuple(built.ops), (), place, digest)


@dataclass
class _Built:
    """A graph in the making.

    `root` says in whose memory each tensor lies and at which byte; `touched` who touched each root since it was last
    written into, and by whom that was.
    """

    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    root: dict[int, tuple[int, int]] = field(default_factory=dict)
    touched: dict[int, list[int]] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)

    def add(self, tensor: Tensor, alias: tuple[int, int] | None) -> None:
        self.tensors.append(tensor)
        self.ids[tensor.name] = tensor.id
        self.root[tensor.id] = (tensor.id, 0) if alias is None else alias


def _build(graph: ExportedGraph, constants: set[str], sizes: Sizes, place: str) -> _Built:
    built = _Built()
    forms = {name: sizes.form(name, meta) for name, meta in graph.tensor_values.items()}
    outputs = {name for argument in graph.outputs for name in names_in(argument)}
    for argument in graph.inputs:
        for name in names_in(argument):
            if name in built.ids:
                raise InputError(f"there are two graph inputs {name!r}; export it again", place)
            kind = Kind.CONSTANT if name in constants else Kind.OUTPUT if name in outputs else Kind.INPUT
            form = forms.get(name)
            built.add(_tensor(len(built.ids), name, kind, form, form.extent_bytes if form else 0), None)
    turn: int | None = None
    for index, node in enumerate(graph.nodes):
        reads = tuple(built.ids[name] for name in _known(node, built, place))
        after: dict[int, None] = {}
        for root in dict.fromkeys(built.root[t][0] for t in reads):
            if root in built.written:
                after[built.written[root]] = None
        for name in writes_into(node):
            root = built.root[built.ids[name]][0]
            after.update(dict.fromkeys(built.touched.get(root, ())))
        if keeps_its_turn(node):
            if turn is not None:
                after[turn] = None
            turn = index
        made = _outputs(node, built, forms, outputs, reads, place)
        built.ops.append(
            Op(
                index, reads, tuple(made), node.name or (built.tensors[made[0]].name if made else ""), _type(node),
                workspace=_inside_bytes(node, built, made, sizes, place), after=tuple(after),
            )
        )  # fmt: skip
        for root in dict.fromkeys(built.root[t][0] for t in (*reads, *made)):
            built.touched.setdefault(root, []).append(index)
        for name in writes_into(node):
            root = built.root[built.ids[name]][0]
            built.touched[root] = [index]
            built.written[root] = index
    for name in outputs - built.ids.keys():
        raise InputError(f"graph output {name!r} is made by no node; export it again", place)
    return built


def _outputs(
    node: Node, built: _Built, forms: Mapping[str, Form], outputs: set[str], reads: tuple[int, ...], place: str
) -> list[int]:
    """Add what a node makes; ids."""
    made = [name for argument in node.outputs for name in names_in(argument)]
    first = built.tensors[reads[0]] if reads else None
    shares = first is not None and hands_on(node, forms.get(first.name), next((forms.get(n) for n in made), None))
    for name in made:
        if name in built.ids:
            raise InputError(f"tensor {name!r} is made twice; export it again", place)
        form, alias, offset = forms.get(name), None, 0
        size = form.extent_bytes if form else 0
        kind = Kind.OUTPUT if name in outputs else Kind.ACTIVATION
        if shares and first is not None and form is not None:
            root, whole = built.root[first.id][0], built.tensors[built.root[first.id][0]].size
            of_root = forms.get(built.tensors[root].name)
            offset = max(0, form.offset * form.width - (of_root.offset * of_root.width if of_root else 0))
            if offset + size > whole:
                offset, size = 0, min(size, whole)
            alias = root, offset
        built.add(_tensor(len(built.ids), name, kind, form, size, alias), alias)
    return [built.ids[name] for name in made]


def _tensor(
    number: int, name: str, kind: Kind, form: Form | None, size: int, alias: tuple[int, int] | None = None
) -> Tensor:
    shape, dtype = (form.shape, form.dtype) if form else (None, None)
    if alias is None:
        return Tensor(number, size, kind, name, shape, dtype)
    return Tensor(number, size, kind, name, shape, dtype, alias[0], alias[1])


def _known(node: Node, built: _Built, place: str) -> Iterator[str]:
    """Names that a node reads, each once, the first tensor first."""
    names = dict.fromkeys(name for a in node.inputs for name in names_in(a.arg))
    for name in names:
        if name not in built.ids:
            label = node.name or node.target
            raise InputError(f"node {label!r} reads {name!r}, which nothing before it makes; export it again", place)
    yield from names


def names_in(argument: Argument) -> Iterator[str]:
    """Names of the tensors, objects and numbers of an argument."""
    a = argument
    for one in (a.as_tensor, a.as_custom_obj):
        if one is not None:
            yield one.name
    yield from (n.name for n in a.as_tensors or ())
    for nested in a.as_nested_tensors or ():
        yield from (n.name for n in nested)
    for optional in (*((a.as_optional_tensor,) if a.as_optional_tensor else ()), *(a.as_optional_tensors or ())):
        yield from names_in(optional)
    single: Iterable[SymbolRef | None] = (a.as_sym_int, a.as_sym_float, a.as_sym_bool)
    several = (*(a.as_sym_ints or ()), *(a.as_sym_floats or ()), *(a.as_sym_bools or ()))
    yield from (s.as_name for s in (*single, *several) if s is not None and s.as_name is not None)
    for inner in (a.as_string_to_argument or {}).values():
        yield from names_in(inner)


def _type(node: Node) -> str:
    """As the table of op kinds has it: ``aten.add.Tensor``."""
    return node.target.removeprefix("torch.ops.") if operator(node) is not None else node.target


def _constants(program: Program) -> set[str]:
    """Names of the inputs that are weights, buffers or constants."""
    found: set[str] = set()
    for spec in program.graph_module.signature.input_specs:
        for kind in (spec.parameter, spec.buffer, spec.tensor_constant):
            if kind is not None and isinstance(kind.arg, dict) and isinstance(kind.arg.get("name"), str):
                found.add(kind.arg["name"])
    return found


def _by_symbol(graph: ExportedGraph, dims: Mapping[str, int], place: str) -> dict[str, int]:
    """Sizes by symbol, those given for an input's axis too."""
    result: dict[str, int] = {}
    for key, size in dims.items():
        name, colon, axis = key.rpartition(":")
        symbol = key
        if colon:
            meta = graph.tensor_values.get(name)
            entry = meta.sizes[int(axis)] if meta and axis.isdigit() and int(axis) < len(meta.sizes) else None
            found = symbol_of(entry.as_expr.expr_str) if entry is not None and entry.as_expr is not None else None
            if found is None:
                raise InputError(f"{key!r} is no free dimension of an input; drop it", place)
            symbol = found
        if result.setdefault(symbol, size) != size:
            raise InputError(f"--dim gives {symbol} two sizes, {result[symbol]} and {size}; give one", place)
    return result


def _example(graph: ExportedGraph) -> dict[str, int]:
    """The example's size of each symbol, or 2 where the archive does not say."""
    found: dict[str, int] = {}
    for meta in graph.tensor_values.values():
        for size in (*meta.sizes, *meta.strides, meta.storage_offset):
            if size.as_expr is not None:
                symbol, hint = symbol_of(size.as_expr.expr_str), size.as_expr.hint
                if symbol is not None and hint is not None and hint.as_int is not None:
                    found[symbol] = hint.as_int
                for word in _WORD.findall(size.as_expr.expr_str):
                    found.setdefault(word, 2)
    return found


def _inside_bytes(node: Node, built: _Built, made: list[int], sizes: Sizes, place: str) -> int:
    """Bytes that a higher-order operator's bodies need beyond its own inputs and outputs: their peak in own order."""
    bodies = [a.arg.as_graph.graph for a in node.inputs if a.arg.as_graph is not None]
    if not bodies:
        return 0
    from lowtide.analyse.liveness import profile
    from lowtide.analyse.storage import memory_model
    from lowtide.target import BUILT_IN

    most = 0
    for body in bodies:
        inner = _build(body, set(), sizes, place)
        graph = Graph("body", tuple(inner.tensors), tuple(inner.ops), (), place)
        most = max(most, profile(memory_model(graph, BUILT_IN["torch"]), range(len(graph.ops))).peak)
    return max(0, most - sum(built.tensors[t].size for t in made if built.root[t][0] == t))
