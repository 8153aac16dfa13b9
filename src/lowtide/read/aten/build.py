"""Graphs from traced ATen programs: one builder, whatever traced them.

An op's id is the position of its call, a tensor's the place of its name in the order of first appearance: inputs
(weights among them) first. A call that gives several tensors is one op. Views are aliases, as facts of the graph;
writing into memory (``relu_``, ``copy_``) returns an alias and keeps its place between what reads that memory before
and after. Weights and buffers are constants; what reads constants only still runs, every time, as in eager mode.
Numbers that calls make (``aten.sym_size``) are tensors without bytes.

`Op.operands` are the tensors, objects and numbers among the arguments, in the schema's order, those of lists one after
another (None: an optional one of a list that is left out); `Op.inputs` has each once. The attribute ``operand_names``
says of which argument each operand is. All other arguments are attributes; a list of numbers of which some are made by
calls has None for these.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.read.aten.trace import Call, Form, Ref, Trace, bodies_in, refs_in
from lowtide.read.aten.views import aliases_first, keeps_its_turn, operator, writes_into

_LOOPS = ("while_loop", "scan")
"""Higher-order operators that hand what a body makes to its next run; what the others are given lives outside."""


@dataclass
class _Built:
    """A graph in the making.

    `root` says the tensor in whose memory each tensor is, and the byte offset there; `touched` who touched each root
    since it was last written into, and by whom that was.
    """

    trace: Trace
    place: str
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

    def root_of(self, name: str) -> int:
        return self.root[self.ids[name]][0]


def build(
    trace: Trace, constants: Collection[str], place: str, digest: str = "", outside: Collection[str] = ()
) -> Graph:
    """Graph of a traced program. `trace`: the program. `constants`: names of the inputs that are weights, buffers or
    constants. `place`: where it came from: the graph's source, and put before every message. `digest`: hex digest
    that a plan is tied to. `outside`: names of the inputs that live outside, and count there: what a body is given.
    Raises `InputError`: a name given twice, or read before anything gives it; or what `Graph` refuses."""
    built = _Built(trace, place)
    outputs = set(trace.outputs)
    for name in trace.inputs:
        if name in built.ids:
            raise InputError(f"there are two graph inputs {name!r}; export it again", place)
        kind = Kind.CONSTANT if name in constants else Kind.OUTPUT if name in outputs else Kind.INPUT
        form = trace.forms.get(name)
        size = form.extent_bytes if form is not None and name not in outside else 0
        built.add(_tensor(len(built.ids), name, kind, form, size), None)
    turn: int | None = None
    for index, call in enumerate(trace.calls):
        turn = _add_op(built, index, call, outputs, turn)
    for name in outputs - built.ids.keys():
        raise InputError(f"graph output {name!r} is made by no node; export it again", place)
    return Graph(trace.name, tuple(built.tensors), tuple(built.ops), (), place, digest, "aten")


def _add_op(built: _Built, index: int, call: Call, outputs: Collection[str], turn: int | None) -> int | None:
    """Add the op of a call. The op that the next one whose turn must be kept comes after."""
    names = dict.fromkeys(ref.name for _, value in call.arguments for ref in refs_in(value))
    for name in names:
        if name not in built.ids:
            label = call.name or call.target
            raise InputError(
                f"node {label!r} reads {name!r}, which nothing before it makes; export it again", built.place
            )
    reads = tuple([built.ids[name] for name in names])
    written = writes_into(call)
    after: dict[int, None] = {}
    for root in dict.fromkeys(built.root[t][0] for t in reads):
        if root in built.written:
            after[built.written[root]] = None
    for name in written:
        after.update(dict.fromkeys(built.touched.get(built.root_of(name), ())))
    if keeps_its_turn(call):
        if turn is not None:
            after[turn] = None
        turn = index
    results = _outputs(built, call, outputs, reads)
    operands, attributes = _arguments(call, built)
    label = call.name or (built.tensors[results[0]].name if results else "")
    built.ops.append(
        Op(
            index, reads, tuple(results), label, _type(call), after=tuple(after), attributes=attributes,
            operands=operands, bodies=_bodies(built, call, label or call.target),
        )
    )  # fmt: skip
    for root in dict.fromkeys(built.root[t][0] for t in (*reads, *results)):
        built.touched.setdefault(root, []).append(index)
    for name in written:
        built.touched[built.root_of(name)] = [index]
        built.written[built.root_of(name)] = index
    return turn


def _arguments(call: Call, built: _Built) -> tuple[tuple[int | None, ...], dict[str, Any]]:
    """Operands and attributes of a call. See the module."""
    operands: list[int | None] = []
    names: list[str] = []
    attributes: dict[str, Any] = {}
    bodies = 0
    for position, (name, value) in enumerate(call.arguments):
        key = name or str(position)
        given = _operands(value)
        operands += [None if ref is None else built.ids[ref.name] for ref in given]
        names += [key] * len(given)
        inside = len(list(bodies_in(value)))
        if inside:
            attributes[key] = bodies if isinstance(value, Trace) else tuple(range(bodies, bodies + inside))
            bodies += inside
        elif not given:
            attributes[key] = value
        elif isinstance(value, tuple) and any(ref is not None and ref.kind == "number" for ref in given):
            attributes[key] = tuple([None if isinstance(one, Ref) else one for one in value])
    if names:
        attributes["operand_names"] = tuple(names)
    return tuple(operands), attributes


def _operands(value: Any) -> list[Ref | None]:
    """References in a value, and None for what is left out of a list of tensors."""
    if not isinstance(value, tuple):
        return [value] if isinstance(value, Ref) else []
    refs: list[Ref | None] = list(refs_in(value))
    tensors = any(ref is not None and ref.kind == "tensor" for ref in refs)
    flat = all(one is None or isinstance(one, Ref) for one in value)
    return [one for one in value if one is None or isinstance(one, Ref)] if tensors and flat else refs


def _bodies(built: _Built, call: Call, label: str) -> tuple[Graph, ...]:
    """Graphs of a higher-order operator's bodies; what they are given lives outside, but for what a loop carries."""
    carried = 0
    if call.target.rpartition(".")[2] in _LOOPS:
        lists = (value for _, value in call.arguments if isinstance(value, tuple) and any(refs_in(value)))
        carried = len(next(lists, ()))
    traces = [trace for _, value in call.arguments for trace in bodies_in(value)]
    return tuple(
        [build(trace, (), f"{built.place}: body of {label!r}", outside=trace.inputs[carried:]) for trace in traces]
    )


def _outputs(built: _Built, call: Call, outputs: Collection[str], reads: tuple[int, ...]) -> list[int]:
    """Add what a call gives; ids."""
    forms = built.trace.forms
    first = built.tensors[reads[0]] if reads else None
    result = next((forms.get(name) for name in call.outputs), None)
    shares = first is not None and aliases_first(call, forms.get(first.name), result)
    for name in call.outputs:
        if name in built.ids:
            raise InputError(f"tensor {name!r} is made twice; export it again", built.place)
        form, alias, offset = forms.get(name), None, 0
        size = form.extent_bytes if form else 0
        kind = Kind.OUTPUT if name in outputs else Kind.ACTIVATION
        if shares and first is not None and form is not None:
            root, root_size = built.root[first.id][0], built.tensors[built.root[first.id][0]].size
            of_root = forms.get(built.tensors[root].name)
            offset = max(0, form.offset * form.width - (of_root.offset * of_root.width if of_root else 0))
            if offset + size > root_size:
                offset, size = 0, min(size, root_size)
            alias = root, offset
        built.add(_tensor(len(built.ids), name, kind, form, size, alias), alias)
    return [built.ids[name] for name in call.outputs]


def _tensor(
    number: int, name: str, kind: Kind, form: Form | None, size: int, alias: tuple[int, int] | None = None
) -> Tensor:
    shape, dtype = (form.shape, form.dtype) if form else (None, None)
    if alias is None:
        return Tensor(number, size, kind, name, shape, dtype)
    return Tensor(number, size, kind, name, shape, dtype, alias[0], alias[1])


def _type(call: Call) -> str:
    """As the table of op kinds has it: ``aten.add.Tensor``."""
    return call.target.removeprefix("torch.ops.") if operator(call) is not None else call.target
