"""Which operand the result of an instruction may lie over: where XLA lets them share a buffer.

Both are arrays of the same shape and layout, and the instruction reads each element of the operand no later than it
writes that of the result: elementwise instructions, fusions in which all that follows from the operand is elementwise,
and those that change an array in place (`dynamic-update-slice`, `scatter`, `sort`).

Source: what XLA's `HloDataflowAnalysis::CanShareOperandBufferWithUser` allows, of openxla/xla; checked against the
offsets in its dumps of buffer assignments.
"""

from __future__ import annotations

from lowtide.read.hlo.text import Instruction, Module

ELEMENTWISE = frozenset((
    "abs", "add", "and", "atan2", "bitcast-convert", "cbrt", "ceil", "clamp", "clz", "compare", "complex", "convert",
    "copy", "cosine", "divide", "erf", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log",
    "log-plus-one", "logistic", "map", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power",
    "real", "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select",
    "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "subtract", "tan", "tanh",
    "xor",
))  # fmt: skip
"""Opcodes that read of each operand what lies where they write; an operand of another shape is not requested."""

IN_PLACE = {"dynamic-update-slice": 0, "scatter": 0, "triangular-solve": 1, "sort": 0}
"""Opcodes that change an operand, and which."""


class Sharing:
    """What may share, of a module; fused computations are read once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.fused: dict[str, tuple[int, ...]] = {}

    def operands(self, one: Instruction, alike: list[int]) -> tuple[int, ...]:
        """Those of the operands at positions `alike` (of the result's shape and layout) that it may lie over. Raises
        `InputError`: a fused computation that is not there, or that holds a line that is no instruction."""
        if one.opcode in ELEMENTWISE:
            return tuple(k for k in alike if one.operands.count(one.operands[k]) == 1 or one.opcode != "map")
        if one.opcode in IN_PLACE:
            return tuple(k for k in alike if k == IN_PLACE[one.opcode])
        if one.opcode != "fusion" or len(one.calls) != 1:
            return ()
        name = one.calls[0]
        if name not in self.fused:
            self.fused[name] = _kept(self.module.instructions(name), loop=one.kind in ("kLoop", "kInput"))
        return tuple(k for k in alike if k in self.fused[name])


def _kept(instructions: list[Instruction], loop: bool) -> tuple[int, ...]:
    """Numbers of the parameters that a fusion may write its result over."""
    users: dict[str, list[tuple[Instruction, int]]] = {}
    root = instructions[-1] if instructions else None
    by_name: dict[str, Instruction] = {}
    for one in instructions:
        by_name[one.name] = one
        root = one if one.root else root
        for k, name in enumerate(one.operands):
            users.setdefault(name, []).append((one, k))
    kept = [_updated(root, by_name)] if root is not None else []
    for one in instructions if loop else ():
        if one.opcode == "parameter" and one.number is not None and _elementwise(one.name, users):
            kept.append(one.number)
    return tuple(k for k in kept if k is not None)


def _elementwise(name: str, users: dict[str, list[tuple[Instruction, int]]]) -> bool:
    """Whether all that follows from a value reads of it only the bytes that it writes."""
    seen, rest = {name}, [name]
    while rest:
        for user, k in users.get(rest.pop(), ()):
            if user.opcode not in ELEMENTWISE and user.opcode != "tuple" and not (
                user.opcode == "dynamic-update-slice" and k == 0
            ):  # fmt: skip
                return False
            if user.name not in seen:
                seen.add(user.name)
                rest.append(user.name)
    return True


def _updated(root: Instruction, by_name: dict[str, Instruction]) -> int | None:
    """The parameter that a fusion changes in part, if that is what it ends with and all that it does to it."""
    at = root
    while at.opcode in ("bitcast", "copy") and len(at.operands) == 1 and at.operands[0] in by_name:
        at = by_name[at.operands[0]]
    if at.opcode not in ("dynamic-update-slice", "scatter") or not at.operands:
        return None
    given = by_name.get(at.operands[0])
    while given is not None and given.opcode == "bitcast" and given.operands:
        given = by_name.get(given.operands[0])
    if given is None or given.opcode != "parameter":
        return None
    others = sum(given.name in one.operands for one in by_name.values())
    return given.number if others == 1 else None
