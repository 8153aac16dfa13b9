"""Every model that is written is opened in its runtime before it gets its name."""

from __future__ import annotations

import warnings
from pathlib import Path

from lowtide.errors import VerificationError
from lowtide.files import open_bytes
from lowtide.outputs import Outputs
from lowtide.run.opening import onnx_refusal, tflite_refusals


def open_written(outputs: Outputs, source: Path | None = None) -> None:
    """Open the models among the files that are being written, and warn of those that cannot be.

    `outputs`: not yet committed: an error leaves none of the files. `source`: the file that the models are made of,
    next to which their external data is; None if there is none. Raises `VerificationError`: ``open``: a runtime opens
    `source`, and not what was made of it.
    """
    for final, written in outputs.pending.items():
        if final.suffix.lower() in (".onnx", ".tflite"):
            why = not_opened(written, final, source)
            if why:
                warnings.warn(f"{final.name} not opened: {why}", stacklevel=3)


def not_opened(written: Path, final: Path, source: Path | None = None) -> str:
    """Open a file that will be `final` in its runtime: why it could not be tried, or why that says nothing of it; empty
    if it opens. Raises as `open_written`."""
    onnx = final.suffix.lower() == ".onnx"
    home = written.parent if source is None else source.parent
    try:
        if onnx:
            missing = [at for at in _external(written) if not (home / at).is_file()]
            if missing:
                return f"its weights are in {missing[0]!r}, which is not there"
        refused = _refusals(written, home, onnx)
        if not refused:
            return ""
        before = {} if source is None else _refusals(source, home, onnx)
    except ImportError:
        return "onnxruntime is not installed" if onnx else "neither tflite-micro nor ai-edge-litert is installed"
    new = {name: why for name, why in refused.items() if name not in before}
    if new:
        says = "; ".join(f"{name} does not open it: {why}" for name, why in new.items())
        raise VerificationError("open", f"nothing was written, for {final.name} would be of no use: {says}")
    return "; ".join(f"{name} does not open the model itself: {why}" for name, why in before.items())


def _refusals(file: Path, home: Path, onnx: bool) -> dict[str, str]:
    """Which runtimes do not open a file, whose external data is in `home`, and why."""
    if not onnx:
        return tflite_refusals(file)
    elsewhere = home.resolve() != file.parent.resolve() and bool(_external(file))
    why = onnx_refusal(file, home if elsewhere else None)
    return {"onnxruntime": why} if why else {}


def _external(file: Path) -> list[str]:
    """Where an ONNX file says that its weights are."""
    from lowtide.read.onnx.wire import parse_model
    from lowtide.write.onnx import external_files

    with open_bytes(file) as data:
        return external_files(parse_model(data, str(file)))
