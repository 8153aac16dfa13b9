"""Models that are objects of another library: which they are, and what to do with those that cannot be planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, TypeGuard

from lowtide.graph import Graph

_EXPORT = "torch.export.save(torch.export.export(module.eval(), example_inputs), 'model.pt2')"
_MODELS = "give a lowtide.Graph, or the path of a .onnx, .tflite, .pt2 or .graph.json file"


class Exported(Protocol):
    """A `torch.export.ExportedProgram`."""

    @property
    def graph_signature(self) -> Any:
        """What its inputs and outputs are."""
        ...

    @property
    def state_dict(self) -> dict[str, Any]:
        """Its weights and buffers."""
        ...


Model = Graph | str | Path | Exported  # what calls take for a model: see `lowtide.load`


class Module(Protocol):
    """A `torch.nn.Module`."""

    training: bool

    def named_parameters(self) -> Any:
        """Its weights by name."""
        ...


def is_program(model: object) -> TypeGuard[Exported]:
    """Whether an object is an ExportedProgram; torch is not imported to find out."""
    return "torch.export.exported_program.ExportedProgram" in _kinds(model)


def is_module(model: object) -> TypeGuard[Module]:
    """Whether an object is a module of torch."""
    return "torch.nn.modules.module.Module" in _kinds(model)


def fix(model: object) -> str:
    """Why an object is no model here, and how it becomes one; nothing is imported to find out.

    >>> fix(3)
    'a int is no model; give a lowtide.Graph, or the path of a .onnx, .tflite, .pt2 or .graph.json file'
    """
    if is_module(model):
        return f"a torch.nn.Module has no order yet: lowtide.plan(module, (x,)) exports it; or {_EXPORT}"
    kinds = _kinds(model)
    if "onnx.onnx_ml_pb2.ModelProto" in kinds or "onnx.ModelProto" in kinds:
        return "a ModelProto is planned as a file: onnx.save(model, 'model.onnx'), then plan 'model.onnx'"
    return f"a {type(model).__name__} is no model; {_MODELS}"


def fix_of_file(name: str) -> str | None:
    """The same of files that hold such objects; None for others."""
    if not name.lower().endswith((".pt", ".pth")):
        return None
    return f"weights and TorchScript have no order that can be planned; export the module: {_EXPORT}, then plan that"


def _kinds(model: object) -> set[str]:
    return {f"{kind.__module__}.{kind.__name__}" for kind in type(model).__mro__}
