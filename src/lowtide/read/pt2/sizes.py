"""Sizes of exported tensors: numbers, or expressions over symbols.

torch writes them as sympy does, spelt out (``Mul(Integer(2), Symbol('s0', integer=True))``) or as formulas (``2*s0``).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from math import ceil, prod

from lowtide.errors import InputError
from lowtide.graph import MAX_BYTES
from lowtide.read.aten.trace import Form
from lowtide.read.pt2.schema import ELEMENT_BYTES, Size, TensorMeta

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b if 0 <= b <= 64 else 0,
}
_FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "Integer": lambda a: a,
    "Add": lambda *a: sum(a),
    "Mul": lambda *a: prod(a),
    "Pow": lambda a, b: a**b if 0 <= b <= 64 else 0,
    "Max": max,
    "Min": min,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: -(-a // b),
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "floor": lambda a: a,
    "ceiling": ceil,
}


class FreeSymbol(Exception):
    """A symbol has no size."""


def symbol_of(text: str) -> str | None:
    """The symbol that an expression is, if it is one and nothing else.

    >>> symbol_of("s0"), symbol_of("Symbol('s0', integer=True)"), symbol_of("2*s0")
    ('s0', 's0', None)
    """
    try:
        return _symbol(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _symbol(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
            return name
        case _:
            return None


class Sizes:
    """Evaluates sizes with the dimensions given, and remembers which symbols have none."""

    def __init__(self, dims: Mapping[str, int], place: str) -> None:
        self._dims = dims
        self._place = place
        self.free: dict[str, int | None] = {}
        self.used: set[str] = set()

    def form(self, name: str, meta: TensorMeta) -> Form:
        """Shape and strides of a tensor. Raises `InputError`: an unknown element type or expression, or a size that is
        negative or too large."""
        if meta.dtype not in ELEMENT_BYTES:
            raise InputError(
                f"tensor {name!r} has an element type of number {meta.dtype}, which is not known", self._place
            )
        dtype, width = ELEMENT_BYTES[meta.dtype]
        shape = tuple(self._value(s, name) for s in meta.sizes)
        strides = tuple(self._value(s, name) for s in meta.strides)
        if len(shape) != len(strides):
            raise InputError(f"tensor {name!r} has {len(shape)} sizes and {len(strides)} strides", self._place)
        offset = self._value(meta.storage_offset, name)
        return Form(shape, strides, offset, dtype, width, (meta.device.type, meta.device.index))

    def _value(self, size: Size, name: str) -> int:
        if size.as_int is not None:
            value = size.as_int
        elif size.as_expr is not None:
            text = size.as_expr.expr_str
            try:
                value = self._evaluate(ast.parse(text, mode="eval").body)
            except FreeSymbol as symbol:
                hint = size.as_expr.hint.as_int if size.as_expr.hint is not None else None
                known = symbol_of(text) == str(symbol)
                if known or str(symbol) not in self.free:
                    self.free[str(symbol)] = hint if known else None
                return 0
            except (SyntaxError, ValueError, TypeError, ZeroDivisionError, RecursionError, OverflowError, MemoryError):
                raise InputError(
                    f"tensor {name!r} has a size that is not understood: {text[:80]!r}", self._place
                ) from None
        else:
            raise InputError(f"tensor {name!r} has a size that is neither a number nor an expression", self._place)
        if not 0 <= value <= MAX_BYTES:
            raise InputError(f"tensor {name!r} has a size of {value}, which is negative or above 2^62", self._place)
        return value

    def _evaluate(self, node: ast.expr) -> int:
        symbol = _symbol(node)
        if symbol is not None:
            if symbol not in self._dims:
                raise FreeSymbol(symbol)
            self.used.add(symbol)
            return self._dims[symbol]
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._evaluate(operand)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                value = _OPERATORS[type(operator)](self._evaluate(left), self._evaluate(right))
            case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]) if function in _FUNCTIONS:
                value = _FUNCTIONS[function](*(self._evaluate(a) for a in arguments))
            case _:
                raise ValueError("unknown form")
        if abs(value) > MAX_BYTES:
            raise OverflowError
        return value
