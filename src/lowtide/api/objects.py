"""What to do with a model that is an object of another library, in a line."""

from __future__ import annotations

_EXPORT = "torch.export.save(torch.export.export(module.eval(), example_inputs), 'model.pt2')"
_MODELS = "give a lowtide.Graph, or the path of a .onnx, .tflite, .pt2 or .graph.json file"


def mend(model: object) -> str:
    """Why an object is no model here, and how it becomes one; nothing is imported to find out.

    >>> mend(3)
    'a int is no model; give a lowtide.Graph, or the path of a .onnx, .tflite, .pt2 or .graph.json file'
    """
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(model).__mro__}
    if "torch.nn.modules.module.Module" in kinds:
        return f"a torch.nn.Module has no order yet: {_EXPORT}, then plan 'model.pt2'"
    if "torch.export.exported_program.ExportedProgram" in kinds:
        return "an ExportedProgram is planned as a file: torch.export.save(program, 'model.pt2'), then plan 'model.pt2'"
    if "onnx.onnx_ml_pb2.ModelProto" in kinds or "onnx.ModelProto" in kinds:
        return "a ModelProto is planned as a file: onnx.save(model, 'model.onnx'), then plan 'model.onnx'"
    return f"a {type(model).__name__} is no model; {_MODELS}"


def mend_of_file(name: str) -> str | None:
    """The same of files that hold such objects; None for others."""
    if not name.lower().endswith((".pt", ".pth")):
        return None
    return f"weights and TorchScript have no order that can be planned; export the module: {_EXPORT}, then plan that"
