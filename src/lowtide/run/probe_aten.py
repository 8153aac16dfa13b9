"""Runs single ATen ops in torch, on one thread of the CPU; the schema says which argument is a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from lowtide.errors import first_line, install_command
from lowtide.graph import Graph, Op
from lowtide.run.probe import Arrays, Kernel, Operand, RefusedError, Runner

_DRAWN = frozenset({"float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"})
_SEED = 7
_TENSOR = ("Tensor", "Optional[Tensor]")
_TENSORS = ("List[Tensor]", "List[Optional[Tensor]]")


class AtenRunner(Runner):
    """Single ops in torch. Random ones draw the same numbers on every run."""

    drawn = _DRAWN

    def __init__(self) -> None:
        if find_spec("torch") is None:
            raise RefusedError(f"needs torch: {install_command('torch')}")
        self._torch: Any = import_module("torch")
        self._torch.set_num_threads(1)

    def open(self, graph: Graph, op: Op, operands: Sequence[Operand | None]) -> Kernel:
        """A function from operands to results, as `lowtide.run.probe.Runner` has it."""
        torch, function = self._torch, self._function(op.type)
        schema = function._schema

        def kernel(given: Arrays) -> list[np.ndarray]:
            fixed = [
                array if operand is None or operand.value is None else operand.value
                for array, operand in zip(given, operands, strict=True)
            ]
            tensors = [None if array is None else torch.from_numpy(array.copy()) for array in fixed]
            torch.manual_seed(_SEED)
            try:
                with torch.no_grad():
                    results = function(**arguments_of(schema, tensors, op))
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
                raise RefusedError(first_line(error)) from None
            return _arrays(results, len(op.outputs))

        return kernel

    def _function(self, op_type: str) -> Any:
        words = op_type.split(".")
        packet = getattr(self._torch.ops.aten, words[1], None) if words[0] == "aten" and len(words) > 1 else None
        if packet is None:
            raise RefusedError(f"torch has no {op_type}")
        overload = words[2] if len(words) > 2 else "default"
        if overload not in packet.overloads():
            raise RefusedError(f"torch has no {op_type}")
        return getattr(packet, overload)


def arguments_of(schema: Any, tensors: Sequence[Any], op: Op) -> dict[str, Any]:
    """Arguments by name: tensors one after the other, where a list of them takes all that are left over. Raises
    `RefusedError`: an argument without a default is not among the op's attributes."""
    kinds = [str(argument.type) for argument in schema.arguments]
    single = sum(kind in _TENSOR for kind in kinds)
    waiting = list(tensors)
    arguments: dict[str, Any] = {}
    for argument, kind in zip(schema.arguments, kinds, strict=True):
        if kind in _TENSOR:
            arguments[argument.name] = waiting.pop(0) if waiting else None
        elif kind in _TENSORS:
            arguments[argument.name] = [waiting.pop(0) for _ in range(len(tensors) - single)]
        elif argument.name in op.attributes:
            value = op.attributes[argument.name]
            arguments[argument.name] = list(value) if isinstance(value, tuple) else value
        elif not argument.has_default_value():
            raise RefusedError(f"its argument {argument.name} is not known")
    return arguments


def _arrays(results: Any, count: int) -> list[np.ndarray]:
    """Results as arrays; those that were not requested are left out, where the graph lists the others alone."""
    flat = list(results) if isinstance(results, tuple | list) else [results]
    if len(flat) != count:
        flat = [result for result in flat if result is not None]
    if len(flat) != count:
        raise RefusedError(f"it has {len(flat)} results, and the graph says {count}")
    return [np.zeros(()) if result is None else result.contiguous().numpy() for result in flat]
