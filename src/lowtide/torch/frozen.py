"""What Python changes on modules while `forward` runs: torch runs it more than once to trace it, and a step never.

Each run of a trace begins with what was there, and what was there is put back behind it: numbers are what eager's next
call would read, and nothing of the trace, such as its tensors without memory, is left on the module.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.errors import InputError

_SHOWN = 3
"""Names in a line."""
_ABSENT = object()


@dataclass(frozen=True)
class _Held:
    """An attribute of a module: its path, its value, and what lists, dicts and sets held."""

    path: str
    owner: dict[str, Any]
    name: str
    value: Any
    content: Any

    def changed(self) -> bool:
        now = self.owner.get(self.name, _ABSENT)
        if now is not self.value:
            return not (_is_number(now) and type(now) is type(self.value) and now == self.value)
        return self.content is not None and not _same(now, self.content)

    def put_back(self) -> None:
        if self.value is _ABSENT:
            self.owner.pop(self.name, None)
            return
        self.owner[self.name] = self.value
        if self.content is not None and not _same(self.value, self.content):
            self.value.clear()
            (self.value.extend if isinstance(self.value, list) else self.value.update)(self.content)


class PythonState:
    """Attributes of the modules in a module, apart from parameters, buffers and what torch's own modules keep."""

    def __init__(self, torch: Any, whole: Any) -> None:
        self._torch = torch
        self._own = {*vars(torch.nn.Module())}
        inside = [(path, module) for path, module in whole.named_modules() if path]
        self._modules = [(path, module) for path, module in inside if not type(module).__module__.startswith("torch.")]
        self._held = [held for path, module in self._modules for held in self._of(path, module)]
        self._known = {(id(held.owner), held.name) for held in self._held}

    def put_back(self) -> None:
        """Make everything what it was."""
        for held in (*self._held, *self._new()):
            held.put_back()

    def changed(self) -> list[str]:
        """Paths of what is not what it was."""
        return [held.path for held in (*self._held, *self._new()) if held.changed()]

    def _of(self, path: str, module: Any) -> Iterator[_Held]:
        for name, value in vars(module).items():
            content = copy.copy(value) if type(value) in (list, dict, set) else None
            if name not in self._own and not any(isinstance(v, self._torch.Tensor) for v in content or ()):
                yield _Held(f"{path}.{name}".lstrip("."), vars(module), name, value, content)

    def _new(self) -> Iterator[_Held]:
        """Attributes that were not there."""
        for path, module in self._modules:
            for name in [*vars(module)]:
                if name not in self._own and (id(vars(module)), name) not in self._known:
                    yield _Held(f"{path}.{name}".lstrip("."), vars(module), name, _ABSENT, None)


class Assigned:
    """Parameters and buffers of a module, to see which are other tensors behind a run of it."""

    def __init__(self, whole: Any) -> None:
        self._tensors = {
            f"{path}.{name}".lstrip("."): (held, name, tensor)
            for path, module in whole.named_modules()
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


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def _same(value: Any, content: Any) -> bool:
    """Whether a collection holds the very objects that it held."""
    if len(value) != len(content):
        return False
    if isinstance(value, Mapping):
        return all(key in value and value[key] is held for key, held in content.items())
    if isinstance(value, set):
        return bool(value == content)
    return all(a is b for a, b in zip(value, content, strict=True))
