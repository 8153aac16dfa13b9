"""Scheduled HLO as a graph: an op for each instruction that does something, in the order in which XLA runs them.

- Parameters are the caller's and count nothing; constants are part of the program; what the root holds stays to the
  end. What is written to the memory of a donated parameter is the caller's too, and made after all who read that.
- `tuple`, `get-tuple-element`, `bitcast` and their like are names for what is there already: no ops.
- `while` goes on in the memory of what it is given, the second half of an asynchronous pair in that of the first.
- What bodies of `while`, `conditional` and `call` make inside counts while they run, in the order that the text has;
  what they are given and give back is outside.
- An instruction may write over an operand where XLA allows that (`sharing.py`), if the target does.
- Instructions that only touch constants run and count: XLA has folded what it folds.

What a fusion or a library's kernel takes inside while it runs is not counted: the text does not say it.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.graph import MAX_NESTED, Graph, Kind, Op, Tensor
from lowtide.read.hlo.sharing import Sharing
from lowtide.read.hlo.text import Array, Instruction, Module, Shape, module

NAMES = {"bitcast", "domain", "opt-barrier", "optimization-barrier", "add-dependency"}
"""Instructions whose value is that of their first operand."""

WITH_BODIES = {"while", "conditional", "call", "async-start"}
"""Instructions whose computations make tensors of their own."""

Value = int | tuple["Value", ...]  # a tensor's id, or a tuple of values


def read_hlo(path: str | Path) -> Graph:
    """Read scheduled HLO text, as ``jax.jit(f).lower(x).compile().as_text()`` or XLA's dump has it. Raises
    `InputError`: unreadable file, no scheduled HLO text, an instruction that is malformed or names what is not
    there."""
    return parse_hlo(read_all(path, "HLO text"), str(path))


def parse_hlo(data: bytes, source: str = "") -> Graph:
    """Graph of the bytes of a text. Raises as `read_hlo`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not HLO text: {error}", source) from None
    parsed = module(text, source)
    bodies = _Bodies(parsed)
    program = _Program(source, bodies)
    for instruction in parsed.instructions(parsed.entry):
        program.add(instruction)
    program.donate(parsed)
    return program.graph(parsed.name, hashlib.sha256(data).hexdigest())


class _Bodies:
    """The computations that instructions run, each read once."""

    def __init__(self, parsed: Module) -> None:
        self.parsed = parsed
        self.sharing = Sharing(parsed)
        self.graphs: dict[str, Graph] = {}
        self.open: list[str] = []

    def graph(self, name: str, place: str) -> Graph:
        """Of a computation: what it is given and gives back takes nothing in it."""
        if name in self.open:
            raise InputError(f"computation {name[:80]} runs itself", place)
        if len(self.open) >= MAX_NESTED:
            raise InputError(f"computations run others more than {MAX_NESTED} deep", place)
        if name not in self.graphs:
            self.open.append(name)
            program = _Program(self.parsed.source, self)
            for instruction in self.parsed.instructions(name):
                program.add(instruction)
            program.outside(program.ends())
            self.graphs[name] = program.graph(name, "")
            self.open.pop()
        return self.graphs[name]


class _Program:
    """Tensors and ops so far, and what each instruction's name refers to."""

    def __init__(self, source: str, bodies: _Bodies) -> None:
        self.source = source
        self.bodies = bodies
        self.tensors: list[Tensor] = []
        self.bytes_of: list[int] = []
        self.ops: list[Op] = []
        self.values: dict[str, Value] = {}
        self.written: dict[str, str] = {}
        self.op_of: dict[str, int] = {}
        self.made: set[int] = set()
        self.parameters: dict[int, Value] = {}
        self.goes_on: list[tuple[int, int, int]] = []
        """Of each that lies where another was: its op, that one, itself."""
        self.root: Value | None = None

    def add(self, one: Instruction) -> None:
        """The next instruction."""
        if one.name in self.values:
            raise InputError(f"two instructions are named {one.name}; give each a name of its own", one.place)
        operands = [self.value(name, one) for name in one.operands]
        value = self.named(one, operands)
        self.values[one.name] = self.run(one, operands) if value is None else value
        self.written[one.name] = one.written
        if one.root:
            self.root = self.values[one.name]

    def value(self, name: str, one: Instruction) -> Value:
        """What an operand's name refers to."""
        if name not in self.values:
            raise InputError(
                f"{one.name} reads {name[:80]}, which does not come before it; is a line missing?", one.place
            )
        return self.values[name]

    def named(self, one: Instruction, operands: list[Value]) -> Value | None:
        """The value of what runs nothing; None of what does."""
        if one.opcode == "parameter":
            value = self.tensor(one, one.shape, Kind.INPUT)
            if one.number is not None:
                self.parameters[one.number] = value
            return value
        if one.opcode == "constant":
            return self.tensor(one, one.shape, Kind.CONSTANT)
        if one.opcode == "tuple":
            return tuple(operands)
        if one.opcode == "get-tuple-element":
            return self.element(one, operands)
        return operands[0] if one.opcode in NAMES and operands else None

    def element(self, one: Instruction, operands: list[Value]) -> Value:
        """Of a tuple."""
        parts, index = operands[0] if operands else None, one.number
        if not isinstance(parts, tuple) or index is None or index >= len(parts):
            raise InputError(f"{one.name} takes an element that its tuple does not have; check its index", one.place)
        return parts[index]

    def run(self, one: Instruction, operands: list[Value]) -> Value:
        """An op, and the tensors that it makes."""
        read = list(dict.fromkeys(t for value in operands for t in _flat(value)))
        bodies: tuple[Graph, ...] = ()
        if one.opcode in WITH_BODIES:
            bodies = tuple(self.bodies.graph(name, one.place) for name in one.calls)
        number = len(self.ops)
        value = self.result(one, operands, number)
        for name in one.after:
            if name not in self.values:
                raise InputError(
                    f"{one.name} runs after {name[:80]}, which does not come before it; is a line missing?", one.place
                )
        after = tuple(self.op_of[name] for name in one.after if name in self.op_of)
        begun = {*_flat(value)} - set(read)
        outputs = tuple(t for t in dict.fromkeys(_flat(value)) if t in begun)
        self.op_of[one.name] = number
        over = self.overwritten(one, operands) if len(outputs) == 1 else ()
        self.ops.append(
            Op(number, tuple(read), outputs, one.name, one.opcode, after=after, bodies=bodies, overwrites=over)
        )
        self.made.update(outputs)
        return value

    def overwritten(self, one: Instruction, operands: list[Value]) -> tuple[int, ...]:
        """Operands that XLA may let the result overwrite: complete arrays of the same shape and layout."""
        alike = [
            k
            for k, name in enumerate(one.operands)
            if isinstance(operands[k], int) and self.written[name] == one.written
        ]
        places = self.bodies.sharing.operands(one, alike) if alike else ()
        return tuple(dict.fromkeys(t for k in places for t in _flat(operands[k])))

    def result(self, one: Instruction, operands: list[Value], number: int) -> Value:
        """What an op makes: new tensors, some of them where others were."""
        first = operands[0] if operands else None
        if one.opcode == "while" and first is not None:
            return self.tensor(one, one.shape, Kind.ACTIVATION, first, number)
        if one.opcode.endswith("-done") and first is not None:
            return self.tensor(one, one.shape, Kind.ACTIVATION, _done(one, first), number)
        if one.opcode.endswith("-start") and isinstance(one.shape, tuple) and first is not None:
            held = STARTS.get(one.opcode, 0)
            if held is not None and len(one.shape) > held and _alike(one.shape[held], first):
                return tuple(
                    first if k == held else self.tensor(one, part, Kind.ACTIVATION) for k, part in enumerate(one.shape)
                )
        return self.tensor(one, one.shape, Kind.ACTIVATION)

    def tensor(
        self, one: Instruction, shape: Shape, kind: Kind, goes_on: Value | None = None, op: int | None = None
    ) -> Value:
        """New tensors of a shape; each is in the tensor of `goes_on` at its position, if that is large enough."""
        if isinstance(shape, Array):
            home = goes_on if isinstance(goes_on, int) else None
            size = 0 if kind is Kind.INPUT else shape.size_bytes
            number = len(self.tensors)
            self.bytes_of.append(shape.size_bytes)
            name = one.name if isinstance(one.shape, Array) else f"{one.name}.{number}"
            if home is not None and op is not None and home not in self.made:
                size = 0  # what a loop only reads, and is the caller's or a constant
            elif home is not None and op is not None and self.tensors[home].size >= size:
                self.goes_on.append((op, home, number))
            self.tensors.append(Tensor(number, size, kind, name, shape.shape, shape.dtype))
            return number
        parts = goes_on if isinstance(goes_on, tuple) and len(goes_on) == len(shape) else (None,) * len(shape)
        return tuple(self.tensor(one, part, kind, at, op) for part, at in zip(shape, parts, strict=True))

    def ends(self) -> list[int]:
        """The tensors that the root holds and something here makes."""
        if self.root is None:
            raise InputError("no instruction of the computation is its ROOT; is a line lost?", self.source)
        return [t for t in dict.fromkeys(_flat(self.root)) if t in self.made]

    def donate(self, parsed: Module) -> None:
        """A donated parameter counts until it is read no more; what is written to its memory waits for that."""
        self.ends()
        for path, number, inner in parsed.donated:
            to, given = _at(self.root, path), _at(self.parameters.get(number), inner)
            if isinstance(to, int) and isinstance(given, int) and to in self.made and self.waits(to, given):
                self.tensors[given] = replace(self.tensors[given], size=self.bytes_of[given])

    def waits(self, output: int, given: int) -> bool:
        """Whether the op that makes a tensor comes after all that read another; from now on it does in any order."""
        producer = next(k for k, op in enumerate(self.ops) if output in op.outputs)
        readers = [k for k, op in enumerate(self.ops) if given in op.inputs and k != producer]
        if any(k > producer for k in readers):
            return False
        op = self.ops[producer]
        self.ops[producer] = replace(op, after=tuple(dict.fromkeys((*op.after, *readers))))
        return True

    def outside(self, tensors: list[int]) -> None:
        """These lie in memory of the caller's, with all that they go on from."""
        before = {to: home for _, home, to in self.goes_on}
        for t in tensors:
            at: int | None = t
            while at is not None:
                self.tensors[at] = replace(self.tensors[at], size=0)
                at = before.get(at)

    def graph(self, name: str, digest: str) -> Graph:
        """All of it; what the root holds are outputs."""
        ends = set(self.ends())
        for op, home, to in self.goes_on:
            one = self.ops[op]
            later = any(home in other.inputs for other in self.ops[op + 1 :])
            if later and one.type == "while":
                continue
            readers = [k for k in range(op) if home in self.ops[k].inputs]
            self.ops[op] = replace(one, after=tuple(dict.fromkeys((*one.after, *readers))))
            self.tensors[to] = replace(self.tensors[to], alias_of=home)
        tensors = tuple(replace(t, kind=Kind.OUTPUT) if t.id in ends else t for t in self.tensors)
        ops = tuple(replace(op, overwrites=self.fitting(op)) for op in self.ops)
        return Graph(name, tensors, ops, (), self.source, digest)

    def fitting(self, op: Op) -> tuple[int, ...]:
        """Of what an op may lie over, what has memory of its own, as much as the result."""
        size = self.tensors[op.outputs[0]].size if op.outputs else 0
        return tuple(t for t in op.overwrites or () if size and self.tensors[t].size == size)


STARTS = {"copy-start": 1, "all-reduce-start": None}
"""Which element of what the first half of an asynchronous pair gives is its operand again; the first, of others."""


def _done(one: Instruction, first: Value) -> Value:
    """What an asynchronous pair gives: of (operands, result, ...) the result, of one value itself."""
    if not isinstance(first, tuple) or _alike(one.shape, first):
        return first
    return first[0 if one.opcode == "copy-done" else min(1, len(first) - 1)]


def _alike(shape: Shape, value: Value) -> bool:
    """Whether a value is built as a shape is."""
    if isinstance(shape, Array):
        return isinstance(value, int)
    return isinstance(value, tuple) and len(value) == len(shape) and all(map(_alike, shape, value))


def _at(value: Value | None, path: tuple[int, ...]) -> Value | None:
    for index in path:
        value = value[index] if isinstance(value, tuple) and index < len(value) else None
    return value


def _flat(value: Value) -> list[int]:
    """The tensors of a value, in order."""
    if isinstance(value, int):
        return [value]
    return [t for part in value for t in _flat(part)]
