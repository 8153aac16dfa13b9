"""A program in the JSON of an archive as a trace: nodes as calls, arguments as plain values and references, sizes as
numbers. torch writes a size as a number, as sympy does, spelt out (``Mul(Integer(2), Symbol('s0', integer=True))``), or
as a formula (``2*s0``).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from math import ceil, prod
from typing import Any

from lowtide.errors import InputError
from lowtide.graph import MAX_BYTES, MAX_NESTED, MAX_VALUE_BYTES, Array
from lowtide.read.aten.trace import Call, Form, Ref, Trace, refs_in
from lowtide.read.pt2.schema import ELEMENT_BYTES, Argument, Device, ExportedGraph, Size, SymbolRef, TensorMeta

_MOST_NUMBERS = MAX_VALUE_BYTES // 8
_PLAIN = (
    "as_bool", "as_int", "as_float", "as_string", "as_ints", "as_floats", "as_bools", "as_strings", "as_int_lists",
    "as_memory_format", "as_layout", "as_operator", "as_complex",
)  # fmt: skip
_DTYPES = {float: "float64", int: "int64", bool: "bool"}
_NUMBERS = ("as_sym_int", "as_sym_ints", "as_sym_float", "as_sym_floats", "as_sym_bool", "as_sym_bools")


def trace_of(graph: ExportedGraph, name: str, sizes: Sizes, place: str, depth: int = 0) -> Trace:
    """A graph of an archive as a trace. `graph`: the program's, or a body's. `name`: name of the trace. `sizes`: works
    out shapes, and remembers the symbols that have no size. `place`: put before every message. `depth`: how many bodies
    lie around it. Raises `InputError`: a tensor's size or type is not understood, or bodies are nested too deep."""
    if depth > MAX_NESTED:
        raise InputError(f"its bodies are nested more than {MAX_NESTED} deep; export it without some of them", place)
    forms = {key: sizes.form(key, meta) for key, meta in graph.tensor_values.items()}

    def value(argument: Argument) -> Any:
        if argument.as_graph is not None:
            return trace_of(argument.as_graph.graph, argument.as_graph.name, sizes, place, depth + 1)
        if argument.as_string_to_argument is not None:
            return tuple([(key, value(inner)) for key, inner in argument.as_string_to_argument.items()])
        return value_of(argument)

    try:
        calls = [
            Call(
                node.target,
                tuple([(a.name, value(a.arg)) for a in node.inputs]),
                tuple([name for argument in node.outputs for name in names_in(argument)]),
                node.name or "",
            )
            for node in graph.nodes
        ]
        inputs = tuple([name for argument in graph.inputs for name in names_in(argument)])
        outputs = tuple([name for argument in graph.outputs for name in names_in(argument)])
    except RecursionError:
        raise InputError("its arguments are nested too deep; save it again", place) from None
    return Trace(name, inputs, outputs, tuple(calls), forms)


def names_in(argument: Argument) -> Iterator[str]:
    """Names of the tensors, objects and numbers of an argument."""
    if argument.as_string_to_argument is not None:
        for inner in argument.as_string_to_argument.values():
            yield from names_in(inner)
    else:
        yield from (ref.name for ref in refs_in(value_of(argument)))


def value_of(argument: Argument) -> Any:
    """Plain value of an argument, with references for what the program makes; None for one of no known kind."""
    a = argument
    if a.as_tensor is not None:
        return Ref(a.as_tensor.name)
    if a.as_custom_obj is not None:
        return Ref(a.as_custom_obj.name, "object")
    if a.as_tensors is not None:
        return tuple([Ref(n.name) for n in a.as_tensors])
    if a.as_nested_tensors is not None:
        return tuple([tuple([Ref(n.name) for n in inner]) for inner in a.as_nested_tensors])
    if a.as_optional_tensor is not None:
        return value_of(a.as_optional_tensor)
    if a.as_optional_tensors is not None:
        return tuple([value_of(inner) for inner in a.as_optional_tensors])
    if a.as_scalar_type is not None:
        return ELEMENT_BYTES.get(a.as_scalar_type, (a.as_scalar_type,))[0]
    if a.as_device is not None:
        return _device(a.as_device)
    for key in _NUMBERS:
        numbers = getattr(a, key)
        if numbers is not None:
            return tuple(map(_number, numbers)) if isinstance(numbers, list) else _number(numbers)
    return next((_literal(getattr(a, key)) for key in _PLAIN if getattr(a, key) is not None), None)


def _number(number: SymbolRef) -> Any:
    if number.as_name is not None:
        return Ref(number.as_name, "number")
    return next((n for n in (number.as_int, number.as_float, number.as_bool) if n is not None), None)


def _device(device: Device) -> str:
    return device.type if device.index is None else f"{device.type}:{device.index}"


def _literal(value: Any) -> Any:
    """A JSON value without lists and objects: tuples instead, and for a long list its type and length."""
    if isinstance(value, list):
        if len(value) > _MOST_NUMBERS:
            return Array(_DTYPES.get(type(value[0]), "string"), (len(value),))
        return tuple([_literal(one) for one in value])
    if isinstance(value, dict):
        return tuple([(key, _literal(inner)) for key, inner in value.items()])
    return Array("string", (1,)) if isinstance(value, str) and len(value) > MAX_VALUE_BYTES else value


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
