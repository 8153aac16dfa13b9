"""What Python changes on a model while `forward` runs: torch runs it more than once to trace it, and a step never.

Each run of a trace begins with what was there: attributes, lists and dicts, hooks. When the trace ends, everything is
put back, with the random states of Python, NumPy and torch: numbers are what eager's next call would read, and nothing
of the trace, such as its tensors without memory or hooks that `forward` put in, is left on the model.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from lowtide.errors import InputError

_SHOWN = 3  # names in a line
_ABSENT = object()
_CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict, Counter)
_TENSORS = ("_parameters", "_buffers")
"""Dicts of a module in which torch puts tensors of its own while it traces."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A list, dict or set, or the attributes of an object, and what was in it.

    `path`: of the attribute of a module through which it was found; empty for what torch's own modules keep.
    `traced`: whether torch changes it itself during a trace, so that it is put back at the end alone.
    """

    path: str
    value: Any
    content: Any
    traced: bool

    def put_back(self) -> None:
        if not _same(self.value, self.content):
            self.value.clear()
            (self.value.extend if isinstance(self.value, list | deque) else self.value.update)(self.content)


class PythonState:
    """Everything that the modules in a module hold: attributes, hooks, lists and dicts, the attributes of objects that
    are neither torch's nor Python's own."""

    def __init__(self, torch: Any, step: Any) -> None:
        self._torch = torch
        self._base = {*vars(torch.nn.Module())}
        self._held: list[_Held] = []
        self._of_modules: list[_Held] = []
        """The attributes of the user's own modules."""
        self._seen: set[int] = {id(step)}
        self._swapped = {id(tensor) for tensor in (*step.parameters(), *step.buffers())}
        for path, module in step.named_modules():
            if path:
                self._hold_module(path, module)
        self._random = random.getstate()
        self._numpy = np.random.get_state(legacy=False)
        self._generator = torch.get_rng_state()

    def put_back(self, *, traced: bool = False) -> None:
        """Make everything what it was; `traced`: but for what torch itself changes while it traces."""
        for held in self._held:
            if not traced or not held.traced:
                held.put_back()
        random.setstate(self._random)
        np.random.set_state(self._numpy)
        if not traced:
            self._torch.set_rng_state(self._generator)

    def changed(self) -> list[str]:
        """Paths of what is not what it was; torch's own attributes of modules, such as hooks, are not said."""
        modules = {id(held) for held in self._of_modules}
        inside = {h.path for h in self._held if id(h) not in modules and not h.traced and not _same(h.value, h.content)}
        paths = []
        for held in self._of_modules:
            for name in dict.fromkeys((*held.content, *held.value)):
                path = f"{held.path}.{name}"
                if name not in self._base and (path in inside or _is_another(held.value, held.content, name)):
                    paths.append(path)
        return paths

    def draws(self) -> bool:
        """Whether Python's random numbers, or NumPy's, have moved on."""
        now = np.random.get_state(legacy=False)["state"]
        same = all(np.array_equal(now[name], value) for name, value in self._numpy["state"].items())
        return not same or random.getstate() != self._random

    def _hold_module(self, path: str, module: Any) -> None:
        if id(module) in self._seen:
            return
        self._seen.add(id(module))
        own = not type(module).__module__.startswith("torch.")
        self._hold(path if own else "", vars(module), traced=not own)
        if own:
            self._of_modules.append(self._held[-1])
        for name, value in vars(module).items():
            if name in self._base:
                self._walk("", value, traced=name in _TENSORS)
            else:
                self._walk(f"{path}.{name}" if own else "", value, traced=not own)

    def _hold(self, path: str, value: Any, *, traced: bool) -> None:
        self._held.append(_Held(path, value, copy.copy(value), traced))

    def _walk(self, path: str, value: Any, *, traced: bool) -> None:
        """Hold what can be changed of a value, and of all that it holds; modules hold themselves."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if id(one) in self._seen:
                continue
            if type(one) in _CONTAINERS:
                self._seen.add(id(one))
                within = [*one.values()] if isinstance(one, Mapping) else [*one]
                self._hold(path, one, traced=traced or any(id(inner) in self._swapped for inner in within))
                waiting += within
            elif type(one) is tuple:
                waiting += one
            elif self._is_object(one):
                self._seen.add(id(one))
                self._hold(path, vars(one), traced=traced)
                waiting += vars(one).values()

    def _is_object(self, value: Any) -> bool:
        """Whether a value is of a class of the user's, with attributes."""
        if isinstance(value, type | FunctionType | ModuleType | self._torch.nn.Module | self._torch.Tensor):
            return False
        package = type(value).__module__.partition(".")[0]
        return (
            package not in sys.stdlib_module_names
            and package != "torch"
            and type(getattr(value, "__dict__", None)) is dict
        )


class Assigned:
    """Parameters and buffers of a module, to see which are other tensors after a run of it."""

    def __init__(self, step: Any) -> None:
        self._tensors = {
            f"{path}.{name}".lstrip("."): (held, name, tensor)
            for path, module in step.named_modules()
            for held in (module._parameters, module._buffers)
            for name, tensor in held.items()
        }

    def check(self) -> None:
        """Raise `InputError` if one was assigned to: a trace loses that."""
        for path, (held, name, tensor) in self._tensors.items():
            if held.get(name) is not tensor:
                shown = path.removeprefix("model.")
                raise InputError(
                    f"forward assigns {shown!r}, which a trace loses; write self.{name}.copy_(...) instead"
                )


DRAWS = (
    "forward draws from Python's random or NumPy's, and the step repeats what it drew when it was traced; use torch's"
)
"""What is said of a module whose Python code draws random numbers."""


def words_of(changed: Sequence[str]) -> str:
    """What is said of attributes that Python changes; nothing of none.

    >>> words_of(["calls"])
    "forward changes 'calls' in Python, and the step does not: it holds what was there; use a buffer"
    """
    if not changed:
        return ""
    names = [repr(path) for path in changed]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    listed = f"{', '.join(names[:_SHOWN])}{more}"
    return f"forward changes {listed} in Python, and the step does not: it holds what was there; use a buffer"


def _is_another(now: Mapping[str, Any], before: Mapping[str, Any], name: str) -> bool:
    """Whether an attribute is another one, or is new or gone; equal numbers and texts are the same."""
    value, was = now.get(name, _ABSENT), before.get(name, _ABSENT)
    if value is was:
        return False
    return not (isinstance(value, bool | int | float | str) and type(value) is type(was) and value == was)


def _same(value: Any, content: Any) -> bool:
    """Whether a collection holds the very objects that it held, in the same order."""
    if len(value) != len(content):
        return False
    if isinstance(value, Mapping):
        pairs = zip(value.items(), content.items(), strict=True)
        return all(key == name and one is other for (key, one), (name, other) in pairs)
    if isinstance(value, set):
        return bool(value == content)
    return all(a is b for a, b in zip(value, content, strict=True))
