"""Models back into their own format, with the ops in another order and everything else as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lowtide.errors import InputError
from lowtide.files import HLO_ENDINGS
from lowtide.outputs import Outputs


def write_model(
    source: str | Path,
    order: Sequence[int],
    target: str | Path,
    copy_external: bool | None = False,
    outputs: Outputs | None = None,
    offsets: Mapping[int, int] | None = None,
    kernels: str = "",
) -> None:
    """Write a model file with its ops in another order; the format is known by the ending of `source`.

    `source`, `order`, `target`, `copy_external`, `outputs`: as `lowtide.write.onnx.write_onnx`; only ONNX models have
    external data. `offsets`: tensor id to offset in the arena, for a format that holds them (`lowtide.write.tflite`);
    else left out. `kernels`: for whose kernels these hold; the file says so then. Raises `InputError`: unknown ending,
    `target` of another ending, or what the format's writer raises.
    """
    ending = ending_of(source, target)
    if ending == ".pt2":
        from lowtide.write.pt2 import write_pt2

        write_pt2(source, order, target, outputs)
    elif ending == ".onnx":
        from lowtide.write.onnx import write_onnx

        write_onnx(source, order, target, copy_external, outputs)
    elif ending == ".tflite":
        from lowtide.write.tflite import write_tflite

        write_tflite(source, order, target, outputs, offsets, kernels)
    else:
        from lowtide.write.graph_json import write_graph_json

        write_graph_json(source, order, target, outputs)


def ending_of(source: str | Path, target: str | Path) -> str:
    """The ending by which a model's format is known. Raises `InputError`: no format that is written, or `target` has
    the ending of another one."""
    name = str(source).lower()
    ending = next((e for e in (".onnx", ".tflite", ".pt2", ".json") if name.endswith(e)), None)
    if ending is None and name.endswith(HLO_ENDINGS):
        raise InputError("XLA takes no order from outside, so nothing writes HLO back; take --plan P.json", str(source))
    if ending is None:
        raise InputError("unknown kind of model; the name must end in .onnx, .tflite, .pt2 or .graph.json", str(source))
    other = next((e for e in (".onnx", ".json", ".tflite", ".pt2") if str(target).lower().endswith(e)), ending)
    if other != ending:
        raise InputError(f"the output has the model's own format; its name must end in {ending}", str(target))
    return ending
