"""Whether a runtime opens a file: a session at onnxruntime's default level, interpreters of TFLM and LiteRT."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from lowtide.run.forks import CallEndedError, call
from lowtide.run.ort_session import new_session

EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
"""onnxruntime's own name of a setting: where the external data of a model lies that is given as bytes."""
OPENS = "lowtide.run.opening:refusal"


def onnx_refusal(file: Path, external: Path | None = None) -> str:
    """Why onnxruntime does not open an ONNX file at its default level of optimisation; empty: it does. It is opened
    in another process, because onnxruntime's optimiser can crash on a file. `external`: the folder of its external
    data, if that is another one than its own. Raises `ImportError`: onnxruntime is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise ImportError("onnxruntime is not installed")
    folder = None if external is None else str(external.absolute())
    try:
        return call("onnx", OPENS, str(file.absolute()), folder)
    except CallEndedError as error:
        return f"onnxruntime crashes ({error})"


def refusal(path: str, external: str | None) -> str:
    """Why onnxruntime does not open a file in this process, empty if it does. `external`: the folder of its external
    data."""
    try:
        if external is None:
            new_session(path)
        else:
            new_session(Path(path).read_bytes(), entries={EXTERNAL_FOLDER: external})
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        return _gist(error)
    return ""


def _gist(error: Exception) -> str:
    """What is wrong, of onnxruntime's message that prints the full node before it says so."""
    said = (str(error).splitlines() or [type(error).__name__])[0]
    return said.rpartition(" failed:")[2].rpartition(" , Error ")[2][:300]


def tflite_refusals(file: Path) -> dict[str, str]:
    """Why runtimes do not open a .tflite file, by their names; those that do are left out. Raises `ImportError`:
    neither tflite-micro nor ai-edge-litert is installed."""
    from lowtide.run.tflite import RUNTIMES, ask_to_open

    there = [name for name, package in RUNTIMES.items() if importlib.util.find_spec(package) is not None]
    if not there:
        raise ImportError
    return ask_to_open(there, str(file))
