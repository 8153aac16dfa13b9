"""What public calls are given, checked once against what their signatures say, before anything is done.

A signature's annotations are text, and that text is what is checked: a row of `_ROWS` for each word in it. A word
without a row is an error when the call is first made, so that no parameter is left out by mistake.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import CO_VARKEYWORDS, Parameter, Signature, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lowtide.errors import InputError
from lowtide.names import did_you_mean

Call = TypeVar("Call", bound=Callable[..., Any])
Fits = Callable[[object], bool]
Example = Sequence[Any]
"""What a module is called with, as ``(x, y)``."""
Batch = Example | Mapping[str, Any]  # what a training step is called with: an `Example`, or a dict of names

_TUPLES = {"Batch": "batch", "Example": "inputs"}  # what is given as one tuple, by its annotation
_SHOWN = 40  # letters of a value that are shown; of one with more, its type alone


def _kind(name: str, room: str = "lowtide") -> Fits:
    """Whether a value is of a class of that name, or of one below it; nothing is imported to find out."""
    return lambda value: any(k.__name__ == name and k.__module__.startswith(room) for k in type(value).__mro__)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _truth(value: object) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # numpy's too


def _is_method(value: object) -> bool:
    """Whether a value is one of a user's scheduling methods, or its class, of which more is said where it is made."""
    return not isinstance(value, str) and all(hasattr(value, name) for name in ("name", "supports", "schedule"))


def _anything(_: object) -> bool:
    return True


_ROWS: Mapping[str, tuple[str, str, Fits]] = {
    "None": ("None", "None", lambda value: value is None),
    "str": ("text", "texts", _text),
    "bytes": ("bytes", "bytes", lambda value: isinstance(value, bytes)),
    "int": ("a whole number", "whole numbers", _integer),
    "float": ("a number", "numbers", _number),
    "bool": ("True or False", "truths", _truth),
    "Path": ("a path", "paths", lambda value: isinstance(value, Path)),
    "Size": ('bytes, as 262144 or "256KiB"', "sizes", lambda value: isinstance(value, str | Real)),
    "Callable": ("a function", "functions", callable),
    "Method": ("a method (name, supports, schedule)", "methods (name, supports, schedule)", _is_method),
    **{
        name: (f"a lowtide.{name}", f"lowtide.{name}s", _kind(name))
        for name in (
            "Graph",
            "Tensor",
            "Op",
            "Kind",
            "Quant",
            "ModelFile",
            "Plan",
            "Target",
            "BufferFile",
            "Buffer",
            "Problem",
            "CostFile",
            "Progress",
        )
    },
    **{name: (f"a lowtide.torch.{name}", name, _kind(name)) for name in ("Costs", "Step", "StepOptions", "StepPlan")},
    "Example": (
        "a tuple of what a call takes, as (x, y) or (x,)",
        "tuples",
        lambda value: _is_sequence(value, Iterable),
    ),
    "Batch": (
        "a tuple of what a call takes, as (x, y) or (x,), or a dict",
        "batches",
        lambda value: isinstance(value, Mapping) or _is_sequence(value, Iterable),
    ),
    # What these should be is said where they are read: `lowtide.load`, `lowtide.torch.step_options`.
    "Any": ("anything", "anything", _anything),
    "Model": ("a model", "models", _anything),
    "Exported": ("an ExportedProgram", "ExportedPrograms", _kind("ExportedProgram", "torch.")),
    "Module": ("a torch.nn.Module", "torch.nn.Modules", _kind("Module", "torch.")),
}
"""Words of annotations: what to give in their place, one and several, and whether a value is that."""

_SHORT: Mapping[str, str] = {
    "Dims": "Mapping[str, int | Sequence[int]]",
    "Options": "Mapping[str, str]",
    "Banks": "Sequence[str] | Mapping[str, str | int]",
    "Memories": "Sequence[str] | Mapping[str, str | int]",
    "Places": "Mapping[str, str | Sequence[str]]",
    "NodeReport": "Callable",
    **dict.fromkeys(("Level", "Dialect"), "str"),
    **dict.fromkeys(
        ("Chains", "Constants", "Enums", "InPlace", "Interpreter", "Layout", "Library", "Overlap", "SlicePlacement"),
        "str",
    ),
    "Simd": "str",
}
"""Names of types in signatures, and what they stand for."""


def typed(call: Call) -> Call:
    """The same call, which raises `InputError` where an argument is of a type that its signature does not have: the
    argument's name, what came, and what is expected. ``**options: Unpack[KIND]`` means the keys of a `TypedDict`.

    >>> @typed
    ... def wait(time: float, *, names: Sequence[str] = ()) -> None: ...
    >>> wait("3")
    Traceback (most recent call last):
    lowtide.errors.InputError: time is '3' (str); give a number
    """
    code = call.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    annotations = {name: call.__annotations__[name] for name in names}
    tuples = [_TUPLES[kind] for kind in annotations.values() if kind in _TUPLES]
    takes_more = bool(code.co_flags & CO_VARKEYWORDS)
    unpacked = call.__annotations__[code.co_varnames[len(names)]] if takes_more else ""
    if unpacked.startswith("Unpack["):
        options = call.__globals__[unpacked[len("Unpack[") : -1]].__annotations__
        annotations |= {name: getattr(kind, "__forward_arg__", kind) for name, kind in options.items()}
        takes_more = False

    @wraps(call)
    def checking(*arguments: Any, **more: Any) -> Any:
        if tuples and len(arguments) > code.co_argcount:
            named = ", ".join(f"{name}=" for name in names[code.co_argcount :])
            at = next(k for k, name in enumerate(names) if annotations[name] in _TUPLES)
            is_batch, in_parts = (
                isinstance(each, tuple | list | Mapping) for each in (arguments[at], arguments[code.co_argcount])
            )
            how = (
                f"give the others by name: {named}"
                if is_batch and not in_parts
                else f"give the {tuples[0]} as one tuple: (x, y)"
            )
            raise TypeError(f"{call.__name__}() was given {len(arguments)} arguments by position; {how}")
        for name, value in (*zip(names, arguments, strict=False), *more.items()):
            if name in annotations:
                check(name, value, annotations[name])
            elif not takes_more:
                hint = did_you_mean(name, annotations)
                raise TypeError(f"{call.__name__}() got an unexpected keyword argument {name!r}{hint}")
        return call(*arguments, **more)

    if len(annotations) > len(names):
        checking.__signature__ = _spelt_out(call, annotations)  # type: ignore[attr-defined]
    return checking  # type: ignore[return-value]


def _spelt_out(call: Callable[..., Any], annotations: Mapping[str, str]) -> Signature:
    """The signature of a call with each option of its `Unpack` in the place of all; ``...`` is the default of each."""
    given = signature(call)
    *others, _ = given.parameters.values()
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=..., annotation=kind)
        for name, kind in annotations.items()
        if name not in given.parameters
    ]
    return given.replace(parameters=[*others, *options])


def check(name: str, value: object, annotation: str, place: str = "") -> None:
    """Raise `InputError` unless a value is what an annotation says of the argument of that name."""
    meaning = _meaning(annotation)
    if not meaning.fits(value):
        raise InputError(f"{name} is {_described(value)}; give {meaning.one}", place)


def check_fields(value: Any, place: str = "") -> None:
    """Raise `InputError` unless every field of a dataclass is what its annotation says."""
    for name, field in type(value).__dataclass_fields__.items():
        check(name, getattr(value, name), field.type, place)


def _described(value: object) -> str:
    """A value with its type, and its type alone where it shows too much."""
    shown, kind = repr(value), type(value).__name__
    if value is None:
        return shown
    return f"of type {kind}" if len(shown) > _SHOWN or " at 0x" in shown else f"{shown} ({kind})"


class _Meaning(NamedTuple):
    """What to give for an annotation, one of it and several, and whether a value is that."""

    one: str
    many: str
    fits: Fits


@cache
def _meaning(annotation: str) -> _Meaning:
    options = list(_options(ast.parse(annotation, mode="eval").body))
    one, many = _listed(o.one for o in options), _listed(o.many for o in options)
    return _Meaning(one, many, lambda value: any(option.fits(value) for option in options))


def _listed(words: Iterable[str]) -> str:
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} or {last}" if others else last


def _options(node: ast.expr) -> Iterator[_Meaning]:
    """The types that a value may be of one of."""
    name = ast.unparse(node)
    if isinstance(node, ast.BinOp):
        yield from _options(node.left)
        yield from _options(node.right)
    elif isinstance(node, ast.Subscript):
        yield _of_parts(ast.unparse(node.value), node.slice)
    elif name in _SHORT:
        yield from _options(ast.parse(_SHORT[name], mode="eval").body)
    else:
        yield _Meaning(*_ROWS[name])


def _of_parts(kind: str, inside: ast.expr) -> _Meaning:
    """A collection, and what its elements are; a function, of which nothing else is known."""
    if kind == "Callable":
        return _Meaning(*_ROWS[kind])
    if kind == "Mapping":
        assert isinstance(inside, ast.Tuple)
        keys, values = (_meaning(ast.unparse(of)) for of in inside.elts)
        words = f"a dict of {keys.one} to {values.one}"
        return _Meaning(words, words, lambda value: _is_mapping(value, keys.fits, values.fits))
    if isinstance(inside, ast.Tuple):  # tuple[int, ...]
        inside = inside.elts[0]
    elements = _meaning(ast.unparse(inside))
    words, of = f"a list of {elements.many}", {"list": list, "Sequence": Iterable, "tuple": Iterable}[kind]
    return _Meaning(words, words, lambda value: _is_list(value, of, elements.fits))


def _is_mapping(value: object, key: Fits, held: Fits) -> bool:
    return isinstance(value, Mapping) and all(key(k) and held(v) for k, v in value.items())


def _is_list(value: object, kind: type, fits: Fits) -> bool:
    """Whether a value is such things one after the other; of what can be gone through only once they are not looked
    at."""
    if not _is_sequence(value, kind):
        return False
    elements: Any = value
    try:
        return iter(elements) is elements or fits is _anything or all(map(fits, elements))
    except TypeError:  # a tensor of no dimension
        return False


def _is_sequence(value: object, kind: type) -> bool:
    """Whether a value is a sequence of things, and no text, which is given as one thing."""
    return isinstance(value, kind) and not isinstance(value, str | bytes | Mapping)
