"""What a loss function closes over: modules (a teacher, the other half of a GAN), tensors, gradient scalers.

::

    loss_fn = lambda output, x: distance(output, teacher(x)) * weights

The modules' parameters and buffers, and the tensors, are given to the step as the model's own are. A tensor is read at
every call from the variable that holds it.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from lowtide.errors import InputError

_MOST = 1000  # elements of a list or dict in which tensors are looked for


@dataclass(frozen=True)
class Slot:
    """A variable that holds a tensor: a cell of a closure, or an entry of a dict or a list."""

    name: str
    holder: Any
    key: Any = None

    def read(self) -> Any:
        """What it holds."""
        return self.holder.cell_contents if isinstance(self.holder, CellType) else self.holder[self.key]

    def read_like(self, before: Any) -> Any:
        """The tensor that it holds now. Raises `InputError`: it has another shape, type or device than the tensor
        before."""
        tensor = self.read()
        of_now, of_before = ((t.shape, t.dtype, t.device, t.stride()) for t in (tensor, before))
        if of_now != of_before:
            message = f"the loss reads {self.name!r}, which is now {str(tensor.dtype)[6:]}{list(tensor.shape)}, and was"
            raise InputError(f"{message} {str(before.dtype)[6:]}{list(before.shape)}; compile the step again")
        return tensor.detach()

    def write(self, value: Any) -> None:
        """Let it hold something else."""
        if isinstance(self.holder, CellType):
            self.holder.cell_contents = value
        else:
            self.holder[self.key] = value


@dataclass
class Closed:
    """Modules by name, variables that hold tensors, and gradient scalers."""

    modules: dict[str, Any] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    scalers: list[Any] = field(default_factory=list)

    @contextmanager
    def holding(self, tensors: list[Any]) -> Iterator[None]:
        """Let the variables hold other tensors for a while."""
        before = [slot.read() for slot in self.slots]
        try:
            for slot, tensor in zip(self.slots, tensors, strict=True):
                slot.write(tensor)
            yield
        finally:
            for slot, tensor in zip(self.slots, before, strict=True):
                slot.write(tensor)


def closed_over(torch: Any, model: Any, loss_fn: Callable[..., Any] | None, batch: Any = ()) -> Closed:
    """What a loss function closes over and the model does not hold. Raises `InputError`: it reads a tensor that
    needs a gradient and is no parameter."""
    found, leaves = Closed(), torch.utils._pytree.tree_leaves(batch)
    device = next((x.device for x in leaves if isinstance(x, torch.Tensor) and not x.is_meta), "cpu")
    if loss_fn is not None and not isinstance(loss_fn, torch.nn.Module):
        _Walk(torch, model, found, device).visit(loss_fn, "loss")
    return found


class _Walk:
    """Goes through functions, their variables, and what these hold."""

    def __init__(self, torch: Any, model: Any, closed: Closed, device: Any) -> None:
        self.torch, self.model, self.closed, self.device = torch, model, closed, device
        self.seen = {id(module) for module in model.modules()}

    def visit(self, value: Any, name: str, slot: Slot | None = None) -> None:
        """Look at a value, which a variable may hold."""
        torch = self.torch
        if isinstance(value, torch.Tensor):
            self._tensor(value, slot)
        elif id(value) not in self.seen:
            self.seen.add(id(value))
            if isinstance(value, torch.nn.Module):
                self._module(value, name)
            elif isinstance(value, torch.amp.GradScaler):
                if value.is_enabled() and value._scale is None:
                    value._lazy_init_scale_growth_tracker(self.device)  # as its first scale() does
                self.closed.scalers.append(value)
                self._entries(vars(value), ["_scale"])
            else:
                self._inside(value, name)

    def _tensor(self, value: Any, slot: Slot | None) -> None:
        if slot is None:
            return
        if value.requires_grad and not isinstance(value, self.torch.nn.Parameter):
            message = f"the loss reads {slot.name!r}, which needs a gradient and is no parameter"
            raise InputError(f"{message}; make it a torch.nn.Parameter of the module, or detach it")
        self.closed.slots.append(slot)

    def _module(self, value: Any, name: str) -> None:
        if any(inner is self.model for inner in value.modules()):  # what trains the model, with the model in it
            self._entries(value._modules, list(value._modules))
            return
        self.seen |= {id(inner) for inner in value.modules()}
        self.closed.modules[self._free(name)] = value

    def _free(self, name: str) -> str:
        name = name.replace(".", "_") or "module"
        while name in self.closed.modules:
            name += "_"
        return name

    def _inside(self, value: Any, name: str) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self.visit(value.__self__, name)
            self.visit(value.__func__, name)
        elif isinstance(value, partial):
            self.visit(value.func, name)
            self.visit(value.keywords, name)
        elif isinstance(value, dict | list) and len(value) <= _MOST:
            self._entries(value, list(value) if isinstance(value, dict) else range(len(value)))
        elif isinstance(value, tuple) and len(value) <= _MOST:
            for inner in value:
                self.visit(inner, name)
        elif self._is_of_user(value):
            self._entries(vars(value), list(vars(value)))
            self.visit(vars(type(value)).get("__call__"), name)

    def _function(self, function: FunctionType) -> None:
        if function.__module__ is not None and function.__module__.partition(".")[0] == "torch":
            return
        found: list[tuple[Any, Slot]] = []
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # a variable that is not set yet
                found.append((cell.cell_contents, Slot(name, cell)))
        for value, slot in found:
            self.visit(value, slot.name, slot)
        names = [name for name in _globals_of(function.__code__) if name in function.__globals__]
        self._entries(function.__globals__, names)
        if function.__kwdefaults__:
            self._entries(function.__kwdefaults__, list(function.__kwdefaults__))
        for value in function.__defaults__ or ():
            self.visit(value, function.__name__)

    def _entries(self, holder: Any, keys: Any) -> None:
        for key in keys:
            self.visit(holder[key], str(key), Slot(str(key), holder, key))

    def _is_of_user(self, value: Any) -> bool:
        """Whether a value is of a class of the user's, with attributes."""
        if isinstance(value, type | ModuleType | BuiltinFunctionType | self.torch.optim.Optimizer | Mapping):
            return False
        package = type(value).__module__.partition(".")[0]
        known = package in sys.stdlib_module_names or package == "torch"
        return not known and type(getattr(value, "__dict__", None)) is dict


def _globals_of(code: CodeType) -> list[str]:
    """Names of the global variables that code reads, that of functions in it included."""
    own = [i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"]
    inner = [name for const in code.co_consts if isinstance(const, CodeType) for name in _globals_of(const)]
    return list(dict.fromkeys([*own, *inner]))
