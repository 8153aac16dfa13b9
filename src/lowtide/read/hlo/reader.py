"""Scheduled HLO as a graph: an op for each instruction that does something, in the order in which XLA runs them.

- Parameters are the caller's and count nothing; constants are part of the program; what the root holds stays to the
  end.
- `tuple`, `get-tuple-element`, `bitcast` and their like are names for what is there already: no ops.
- `while`, and the second half of an asynchronous pair, go on in the memory of what they are given.
- Instructions that only touch constants run and count: XLA has folded what it folds.

What bodies of `while` and `conditional`, calls and fusions take inside while they run is not counted, nor that XLA may
write into an operand; its own figure (`compile().memory_analysis()`) has both, and is of its own placement.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from lowtide.errors import InputError
from lowtide.files import read_whole
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.read.hlo.text import Array, Instruction, Shape, entry

NAMES = {"bitcast", "copy-done", "domain", "opt-barrier", "optimization-barrier", "add-dependency"}
"""Instructions whose value is that of their first operand."""

Value = int | tuple["Value", ...]
"""A tensor's id, or a tuple of values."""


def read_hlo(path: str | Path) -> Graph:
    """Read scheduled HLO text, as ``jax.jit(f).lower(x).compile().as_text()`` or XLA's dump has it.

    Raises
    ------
    InputError
        Unreadable file, no scheduled HLO text, an instruction that is malformed or names what is not there.
    """
    return parse_hlo(read_whole(path, "HLO text"), str(path))


def parse_hlo(data: bytes, source: str = "") -> Graph:
    """Graph of the bytes of a text. Raises as `read_hlo`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not HLO text: {error}", source) from None
    name, instructions = entry(text, source)
    program = _Program(source)
    for instruction in instructions:
        program.add(instruction)
    return program.graph(name, hashlib.sha256(data).hexdigest())


class _Program:
    """Tensors and ops so far, and what each instruction's name stands for."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.values: dict[str, Value] = {}
        self.op_of: dict[str, int] = {}
        self.made: set[int] = set()
        self.root: Value | None = None

    def add(self, one: Instruction) -> None:
        """The next instruction."""
        if one.name in self.values:
            raise InputError(f"two instructions are named {one.name}", self.source)
        operands = [self.value(name, one) for name in one.operands]
        value = self.named(one, operands)
        self.values[one.name] = self.run(one, operands) if value is None else value
        if one.root:
            self.root = self.values[one.name]

    def value(self, name: str, one: Instruction) -> Value:
        """What an operand's name stands for."""
        if name not in self.values:
            raise InputError(f"{one.name} reads {name[:80]}, which does not stand before it", self.source)
        return self.values[name]

    def named(self, one: Instruction, operands: list[Value]) -> Value | None:
        """The value of what runs nothing; None of what does."""
        if one.opcode in ("parameter", "constant"):
            kind = Kind.INPUT if one.opcode == "parameter" else Kind.CONSTANT
            return self.tensor(one, one.shape, kind)
        if one.opcode == "tuple":
            return tuple(operands)
        if one.opcode == "get-tuple-element":
            return self.element(one, operands)
        if (one.opcode in NAMES or one.opcode.endswith("-done")) and operands:
            return _last(operands[0]) if one.opcode.endswith("-done") else operands[0]
        return None

    def element(self, one: Instruction, operands: list[Value]) -> Value:
        """Of a tuple."""
        whole, index = operands[0] if operands else None, one.index
        if not isinstance(whole, tuple) or index is None or index >= len(whole):
            raise InputError(f"{one.name} takes an element that its tuple does not have", self.source)
        return whole[index]

    def run(self, one: Instruction, operands: list[Value]) -> Value:
        """An op, and the tensors that it makes."""
        read = list(dict.fromkeys(t for value in operands for t in _flat(value)))
        goes_on = operands[0] if one.opcode == "while" and operands else None
        value = self.tensor(one, one.shape, Kind.ACTIVATION, goes_on)
        for name in one.after:
            if name not in self.values:
                raise InputError(f"{one.name} runs after {name[:80]}, which does not stand before it", self.source)
        after = tuple(self.op_of[name] for name in one.after if name in self.op_of)
        outputs = tuple(dict.fromkeys(_flat(value)))
        self.op_of[one.name] = len(self.ops)
        self.ops.append(Op(len(self.ops), tuple(read), outputs, one.name, one.opcode, after=after))
        self.made.update(outputs)
        return value

    def tensor(self, one: Instruction, shape: Shape, kind: Kind, goes_on: Value | None = None) -> Value:
        """New tensors of a shape; each lies in that of `goes_on` that stands at its place, if that is large enough."""
        if isinstance(shape, Array):
            home = goes_on if isinstance(goes_on, int) else None
            size = 0 if kind is Kind.INPUT else shape.size_bytes
            shared = home is not None and home in self.made and self.tensors[home].size >= size
            number = len(self.tensors)
            name = one.name if isinstance(one.shape, Array) else f"{one.name}.{number}"
            alias = home if shared else None
            self.tensors.append(Tensor(number, size, kind, name, shape.shape, shape.dtype, alias))
            return number
        parts = goes_on if isinstance(goes_on, tuple) and len(goes_on) == len(shape) else (None,) * len(shape)
        return tuple(self.tensor(one, part, kind, at) for part, at in zip(shape, parts, strict=True))

    def graph(self, name: str, digest: str) -> Graph:
        """All of it; what the root holds are outputs."""
        if self.root is None:
            raise InputError("no instruction of the ENTRY computation is its ROOT", self.source)
        ends = {t for t in _flat(self.root) if t in self.made}
        tensors = [Tensor(t.id, t.size, Kind.OUTPUT, t.name, t.shape, t.dtype, t.alias_of) if t.id in ends else t
                   for t in self.tensors]  # fmt: skip
        return Graph(name, tuple(tensors), tuple(self.ops), (), self.source, digest)


def _flat(value: Value) -> list[int]:
    """The tensors of a value, in order."""
    if isinstance(value, int):
        return [value]
    return [t for part in value for t in _flat(part)]


def _last(value: Value) -> Value:
    """What an asynchronous pair gives: of (operands, result, ...) the result, of one value itself."""
    return value[1] if isinstance(value, tuple) and len(value) > 1 else value
