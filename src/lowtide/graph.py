"""The one graph type: operators, tensors and what they share.

A graph is a DAG of ops. A tensor has at most one producer and any number of consumers. Sizes are bytes.
Ids are integers, need not be dense, and are those of the file that the graph came from. Everything is
frozen and checked once, in the constructor of `Graph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from struct import calcsize, unpack
from typing import Any, Literal

from lowtide.arguments import check, check_fields
from lowtide.errors import InputError
from lowtide.names import brief, shorten

MAX_BYTES = 2**62
"""No graph may hold more bytes than this, so that every sum fits a signed 64-bit integer."""

MAX_COST = 1e300
"""No op costs as much, so that sums are finite."""

MAX_ID = 2**63 - 1
"""Largest id of an op or a tensor; ids are not negative."""

MAX_VALUE_BYTES = 4096
"""Constants up to this size carry their value: axes, pads, shapes, scalars. Weights stay in the file."""

MAX_NESTED = 8
"""Bodies inside bodies deeper than this are refused. (To type what a loop of ONNX makes, its body is read, and for each
of its loops in turn theirs.)"""

ELEMENT_BITS: Mapping[str, int] = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "complex128": 128, "complex64": 64, "complex32": 32,
    "int64": 64, "int32": 32, "int16": 16, "int8": 8, "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "bool": 8,
    "int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8,
    "float8e5m2fnuz": 8, "float8e8m0": 8, "float6e2m3": 6, "float6e3m2": 6, "float4e2m1": 4,
}  # fmt: skip
"""Bits of an element of each type that every reader names alike: numpy's name where numpy has one, else ONNX's in small
letters. Elements below 8 bits are packed without a gap. Beside these, `Tensor.dtype` may be ``string`` (no fixed size)
or, in TFLite, ``resource`` and ``variant``."""

Dialect = Literal["", "onnx", "tflite", "aten", "labels"]
"""Whose names the op types of a graph are: the format's that it was read from; empty for types of nobody, ``labels``
where ops say which rows they need themselves (`lowtide.ops.labels`)."""


_INTEGERS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
             "uint64": "Q"}  # fmt: skip


class Kind(StrEnum):
    """What a tensor is to the graph."""

    INPUT = "input"
    OUTPUT = "output"
    ACTIVATION = "activation"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Quant:
    """How integers of a tensor stand for reals: ``real = scale * (integer - zero_point)``.

    `scales` and `zero_points` hold one entry for all of the tensor, or one for each index along `axis`.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A tensor inside an attribute, or a list too long for one.

    `value` is as `Tensor.value`: None above `MAX_VALUE_BYTES`, where the numbers stay in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    value: bytes | None = None


class ModelFile:
    """What a reader parsed of a model's file, without weights: picklable. Each reader has a subclass of its own."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value: made by at most one op, read by any number.

    `size` is what counts, in bytes. `alias_of` says that this tensor is inside the storage of another one,
    `alias_offset` bytes from that tensor's start; it is a fact of the graph and holds under every target.
    An ``OUTPUT`` may also be consumed; an ``OUTPUT`` without a producer is a graph input passed through.
    `value` holds the bytes of a constant of at most `MAX_VALUE_BYTES`, row by row, little-endian, in `dtype` (below 8
    bits packed, the first element lowest); None where that is not in the file itself. `dtype` is a name of
    `ELEMENT_BITS`. `quant` is what a part of the tensor takes along.
    """

    id: int
    size: int
    kind: Kind = Kind.ACTIVATION
    name: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    alias_of: int | None = None
    alias_offset: int = 0
    piece: bool = False
    """Of an alias, whether it is live by itself: other bytes of that tensor may be live later, and die earlier."""
    value: bytes | None = None
    quant: Quant | None = None

    @property
    def integers(self) -> tuple[int, ...]:
        """What a small constant of integers holds, row by row; nothing for any other tensor."""
        form = _INTEGERS.get(self.dtype or "")
        if self.value is None or form is None or len(self.value) % calcsize(form):
            return ()
        return unpack(f"<{len(self.value) // calcsize(form)}{form}", self.value)

    @property
    def label(self) -> str:
        """Name if there is one, else the id: for messages."""
        return self.name or f"tensor {self.id}"


@dataclass(frozen=True, slots=True)
class Op:
    """An operator. `inputs` and `outputs` are tensor ids; an input may be listed twice.

    `workspace` is bytes needed only while the op runs, what `bodies` need apart. `after` lists op ids that must run
    earlier although no tensor says so.

    `operands` are the op's inputs at the positions that the format numbers, ``None`` for one left out; `inputs` holds
    those that are there, then what `bodies` read from outside. An op of no format has none: there, `inputs` are all.
    `bodies` are the graphs that the op runs (the branches of If, the body of Loop), in the order of the file; a body's
    tensor of size 0 that has a shape lives outside, and counts there. What the bodies need under a target,
    `lowtide.analyse.storage.body_bytes` works out.

    `overwrites` are those inputs that the op's only output, of the same size, may lie over if they die there, whatever
    its type is, under targets without a runtime's own rule; ``None``: the type decides.

    `writes` are those inputs over whose bytes the op writes: who reads the old ones runs earlier, and what it makes
    there is ``alias_of`` them. ``None``: not known of an op that makes an alias (`lowtide.ops.effects`).

    `cost` is how long a run takes, in a unit that all ops of the graph share; ``None``: not known.

    `attributes` holds all that the format says of the op in addition to its operands, under the format's names, as
    plain, picklable values: numbers, texts, bytes, None, tuples of these, and `Array` for tensors. A list of more than
    `MAX_VALUE_BYTES` is an `Array` without value. By dialect:

    ``onnx``
        Only what the file gives: defaults are the operator set's (`Graph.opset`). A text that is no UTF-8 is bytes; a
        graph is its index in `bodies`. Two names are ours: ``random`` (1: makes something else on every run) and
        ``training_mode``, which is also 1 where an older operator set says so in another way.
    ``tflite``
        The builtin options under the schema's names, defaults filled in, enumerations as numbers; subgraphs by index.
    ``labels``
        ``labels`` (`lowtide.ops.labels`), and whatever else its writer adds.
    ``aten``
        Arguments that are no tensors, under the names of the operator's schema; those left out are absent.
    """

    id: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = ""
    type: str = ""
    workspace: int = 0
    flops: int | None = None
    after: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    operands: tuple[int | None, ...] = ()
    bodies: tuple[Graph, ...] = ()
    overwrites: tuple[int, ...] | None = None
    cost: float | None = None
    writes: tuple[int, ...] | None = ()

    @property
    def label(self) -> str:
        """Name, cut if it is long, and type if there are any, and the id: for messages."""
        kind = f" ({self.type})" if self.type else ""
        return f"op {self.id} {shorten(self.name, 60)!r}{kind}" if self.name else f"op {self.id}{kind}"


@dataclass(frozen=True, repr=False)
class Graph:
    """A validated DAG of ops in the model's own order.

    Parameters
    ----------
    name
        Name of the model.
    tensors, ops
        Every tensor and every op; `ops` is in file order, which must be topological.
    folded
        Ops that read constants only: they are computed before the first step and are in no order.
        Their outputs have kind ``CONSTANT``.
    source
        Path the graph was read from, or ``""``.
    sha256
        Hex digest of the file, or of the graph's canonical JSON; what a plan is tied to.
    dialect
        Whose op types these are.
    opset
        Version of the operator set that they are taken from, where the dialect has one (ONNX); 0: the newest.
    file
        What the reader parsed, so that no writer reads `source` a second time; no part of equality.
    file_order
        Ids of all ops, the folded ones too, in file order; empty where that is by their ids.

    Raises
    ------
    InputError
        Negative or overflowing size, duplicate id, dangling reference, two producers, cycle, file order that
        is not topological, alias cycle.
    """

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    folded: tuple[Op, ...] = ()
    source: str = ""
    sha256: str = ""
    dialect: Dialect = ""
    file: ModelFile | None = field(default=None, compare=False, repr=False)
    opset: int = 0
    file_order: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return brief(self, "name ops folded tensors dialect source")

    def __post_init__(self) -> None:
        try:
            for name in ("tensors", "ops", "folded"):
                object.__setattr__(self, name, tuple(getattr(self, name)))
            _check(self)
        except (AttributeError, TypeError):
            _check_types(self)
            raise

    @cached_property
    def tensor_by_id(self) -> Mapping[int, Tensor]:
        """Tensor of each id."""
        return {t.id: t for t in self.tensors}

    @cached_property
    def op_by_id(self) -> Mapping[int, Op]:
        """Op of each id, folded ones included."""
        return {op.id: op for op in (*self.folded, *self.ops)}

    @cached_property
    def index_of(self) -> Mapping[int, int]:
        """Position in file order of each op id (folded ops have none)."""
        return {op.id: i for i, op in enumerate(self.ops)}

    @cached_property
    def producer(self) -> Mapping[int, int]:
        """Id of the op that makes each tensor; graph inputs and constants are absent."""
        return {t: op.id for op in self.ops for t in op.outputs}

    @cached_property
    def consumers(self) -> Mapping[int, tuple[int, ...]]:
        """Ids of the ops that read each tensor, in file order, each once; unread tensors are absent."""
        readers: dict[int, list[int]] = {}
        for op in self.ops:
            for t in dict.fromkeys(op.inputs):
                readers.setdefault(t, []).append(op.id)
        return {t: tuple(ids) for t, ids in readers.items()}

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each position in file order, the positions that must run earlier, ascending."""
        index, producer = self.index_of, self.producer
        result = []
        for op in self.ops:
            before = {index[producer[t]] for t in op.inputs if t in producer}
            before.update(index[o] for o in op.after if o in index)
            result.append(tuple(sorted(before)))
        return tuple(result)

    @cached_property
    def own_order(self) -> tuple[int, ...]:
        """Op ids in the order of the file."""
        return tuple(op.id for op in self.ops)


def alias_roots(tensors: Iterable[Tensor]) -> dict[int, int]:
    """Tensor id to the id of the tensor at the end of its `alias_of`, itself if it is no alias. Cycles end anywhere."""
    above = {t.id: t.alias_of for t in tensors}
    roots: dict[int, int] = {}
    for t in above:
        trail: dict[int, None] = {}
        at = t
        while at not in roots and at not in trail:
            trail[at] = None
            up = above.get(at)
            at = at if up is None else up
        root = roots.get(at, at)
        roots.update(dict.fromkeys(trail, root))
    return roots


def _check(graph: Graph) -> None:
    place = graph.source or graph.name or "graph"
    tensors: dict[int, Tensor] = {}
    total = 0
    for t in graph.tensors:
        if t.id in tensors:
            raise InputError(f"tensor id {t.id} is used twice; give every tensor an id of its own", place)
        _check_id("tensor", t.id, place)
        if t.kind.__class__ is not Kind:
            raise InputError(f"{t.label} has kind {str(t.kind)!r}; give a lowtide.Kind, as Kind.INPUT", place)
        if t.size.__class__ is not int:
            check("size", t.size, "int", f"{place}: {t.label}")
        if t.size < 0:
            raise InputError(f"{t.label} has size {t.size}; sizes are bytes and not negative", place)
        if t.alias_offset < 0:
            raise InputError(f"{t.label} has alias_offset {t.alias_offset}; it must not be negative", place)
        tensors[t.id] = t
        total += t.size + t.alias_offset
    ops: dict[int, Op] = {}
    for op in (*graph.folded, *graph.ops):
        if op.id in ops:
            raise InputError(f"op id {op.id} is used twice; give every op an id of its own", place)
        _check_id("op", op.id, place)
        if op.cost is not None and not 0 <= op.cost < MAX_COST:
            raise InputError(f"{op.label} has cost {op.cost}; it must be from 0 to below 1e300", place)
        if op.workspace < 0:
            raise InputError(f"{op.label} has workspace {op.workspace}; it must not be negative", place)
        ops[op.id] = op
        total += op.workspace
    if total > MAX_BYTES:
        raise InputError(f"the sizes add up to {total} bytes, more than 2^62; check the shapes", place)
    producers: dict[int, Op] = {}
    for op in (*graph.folded, *graph.ops):
        for t in (*op.inputs, *op.outputs):
            if t not in tensors:
                raise InputError(f"{op.label} names tensor {t}, which does not exist; declare it", place)
        for t in op.outputs:
            if t in producers:
                raise InputError(
                    f"{tensors[t].label} is made by {producers[t].label} and by {op.label}; keep one", place
                )
            producers[t] = op
        _check_overwrites(op, tensors, place)
        for o in op.after:
            if o not in ops:
                raise InputError(f"{op.label} must run after op {o}, which does not exist; drop it", place)
    for op in graph.ops:
        for t in op.outputs:
            if tensors[t].kind in (Kind.INPUT, Kind.CONSTANT):
                raise InputError(f"{tensors[t].label} is {tensors[t].kind} but made by {op.label}", place)
    _check_sources(graph, tensors, producers, place)
    _check_aliases(tensors, place)
    _check_constants(graph, tensors, place)
    _check_order(graph, producers, ops, place)


def _check_types(graph: Graph) -> None:
    """Raise `InputError` where a field of the graph, or of what it holds, is of another type than it is to be."""
    place = str(graph.source or graph.name or "graph")
    check_fields(graph, place)
    for t in graph.tensors:
        check_fields(t, f"{place}: {t.label}")
    for op in (*graph.folded, *graph.ops):
        check_fields(op, f"{place}: {op.label}")


def _check_id(what: str, number: int, place: str) -> None:
    if not 0 <= number <= MAX_ID:
        raise InputError(f"{what} id {str(number)[:40]} is not from 0 to 2^63 - 1; number them anew", place)


def _check_overwrites(op: Op, tensors: Mapping[int, Tensor], place: str) -> None:
    """That what an op writes over, or may lie over, can be honoured."""
    for t in op.writes or ():
        if t not in op.inputs:
            raise InputError(f"{op.label} writes over tensor {t}, which it does not read; name an input", place)
        if tensors[t].kind is Kind.CONSTANT:
            raise InputError(f"{op.label} writes over {tensors[t].label}, which is constant; make it an input", place)
        if t in (op.overwrites or ()):
            raise InputError(f"{op.label} has tensor {t} in writes and in overwrites; keep one", place)
    for t in op.overwrites or ():
        if t not in op.inputs:
            raise InputError(f"{op.label} may overwrite tensor {t}, which it does not read; name an input", place)
        if len(op.outputs) != 1:
            raise InputError(f"{op.label} has {len(op.outputs)} outputs, and overwrites is for one; drop it", place)
        size, other = tensors[t].size, tensors[op.outputs[0]].size
        if size != other:
            message = f"{op.label} may overwrite {tensors[t].label} of {size} B with {other} B; sizes have to be equal"
            raise InputError(message, place)


def _check_sources(graph: Graph, tensors: dict[int, Tensor], producers: dict[int, Op], place: str) -> None:
    for op in graph.ops:
        for t in op.inputs:
            if t not in producers and tensors[t].kind is Kind.ACTIVATION:
                raise InputError(
                    f"{op.label} reads {tensors[t].label}, which no op makes; "
                    "make it an input or a constant, or add its producer",
                    place,
                )


def _check_aliases(tensors: dict[int, Tensor], place: str) -> None:
    rooted: set[int] = set()
    for t in tensors.values():
        trail: list[int] = []
        on_trail: set[int] = set()
        at: Tensor = t
        while at.alias_of is not None and at.id not in rooted:
            if at.id in on_trail:
                raise InputError(f"{at.label} is an alias of itself; break the alias cycle", place)
            trail.append(at.id)
            on_trail.add(at.id)
            if at.alias_of not in tensors:
                raise InputError(f"{at.label} is an alias of tensor {at.alias_of}, which does not exist", place)
            at = tensors[at.alias_of]
        rooted.update(trail)


def _check_constants(graph: Graph, tensors: Mapping[int, Tensor], place: str) -> None:
    """No constant shares memory that changes, and no op writes into a constant."""
    if all(t.alias_of is None for t in graph.tensors):
        return
    roots = alias_roots(graph.tensors)
    for t in graph.tensors:
        root = tensors[roots[t.id]]
        if t.kind is Kind.CONSTANT and root.kind is not Kind.CONSTANT:
            raise InputError(
                f"{t.label} is constant, and lies in {root.label}, which is not; make it an {Kind.ACTIVATION} "
                "that an op writes, or give it memory of its own",
                place,
            )
    computed = {t for op in graph.folded for t in op.outputs}
    for op in (*graph.folded, *graph.ops):
        read = {roots[t] for t in op.inputs}
        for t in op.outputs:
            root = tensors[roots[t]]
            if root.kind is Kind.CONSTANT and root.id not in read and root.id not in computed:
                raise InputError(
                    f"{op.label} writes {tensors[t].label} into {root.label}, which is constant; "
                    "make that an input, or drop the alias_of",
                    place,
                )
        for t in op.writes or ():
            if tensors[roots[t]].kind is Kind.CONSTANT:
                raise InputError(f"{op.label} writes over {tensors[t].label}, which lies in a constant", place)


def _check_order(graph: Graph, producers: dict[int, Op], ops: dict[int, Op], place: str) -> None:
    position = {op.id: i for i, op in enumerate(graph.ops)}
    for i, op in enumerate(graph.ops):
        earlier = [producers[t].id for t in op.inputs if t in producers]
        for p in (*earlier, *op.after):
            if position.get(p, -1) >= i:
                cycle = _cycle(graph, producers)
                if cycle:
                    names = " -> ".join(ops[o].label for o in cycle)
                    raise InputError(f"the graph has a cycle: {names}; break it", place)
                raise InputError(
                    f"{op.label} comes before {ops[p].label}, which it needs; sort the ops topologically",
                    place,
                )


def _cycle(graph: Graph, producers: dict[int, Op]) -> list[int]:
    before = {
        op.id: [*(producers[t].id for t in op.inputs if t in producers), *op.after]
        for op in (*graph.folded, *graph.ops)
    }
    done: set[int] = set()
    for start in before:
        path: list[int] = []
        on_path: set[int] = set()
        stack = [(start, iter(before[start]))] if start not in done else []
        if stack:
            path.append(start)
            on_path.add(start)
        while stack:
            node, rest = stack[-1]
            nxt = next(rest, None)
            if nxt is None:
                stack.pop()
                done.add(node)
                on_path.discard(path.pop())
            elif nxt in on_path:
                return [*path[path.index(nxt) :], nxt][::-1]
            elif nxt not in done:
                stack.append((nxt, iter(before[nxt])))
                path.append(nxt)
                on_path.add(nxt)
    return []
