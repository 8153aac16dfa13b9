"""Whether a runtime opens a file: a session at onnxruntime's default level, interpreters of TFLM and LiteRT."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
"""onnxruntime's own name of a setting: where the external data of a model lies that is given as bytes."""


def onnx_refusal(file: Path, external: Path | None = None) -> str:
    """Why onnxruntime does not open an ONNX file at its default level of optimisation; empty: it does. It is opened
    in another process, because onnxruntime's optimiser can crash on a file. `external`: the folder of its external
    data, if that is another one than its own. Raises `ImportError`: onnxruntime is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise ImportError("onnxruntime is not installed")
    server = _server()
    assert server.stdin is not None, server
    assert server.stdout is not None, server
    folder = None if external is None else str(external.absolute())
    print(json.dumps([str(file.absolute()), folder]), file=server.stdin, flush=True)
    answer = server.stdout.readline()
    if not answer:
        _server.cache_clear()
        return "the process that was to open it ended"
    return json.loads(answer)


@cache
def _server() -> subprocess.Popen[str]:
    """The process that opens ONNX files. It ends when its standard input does."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    server = subprocess.Popen(
        [sys.executable, "-m", "lowtide.run.opening"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        start_new_session=True,  # Ctrl-C ends lowtide, which ends it
    )  # fmt: skip
    atexit.register(server.communicate)
    return server


def main() -> None:
    """Open the ONNX files that standard input names, ``[path, folder of its external data | null]`` a line, each in a
    fork; print why onnxruntime does not open it as JSON, empty if it does."""
    import onnxruntime  # noqa: F401  # once, for all forks

    for line in sys.stdin:
        path, external = json.loads(line)
        child = os.fork()
        if not child:
            print(json.dumps(_refusal(path, external)), flush=True)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            print(
                json.dumps(f"onnxruntime crashes ({signal.Signals(-status).name if status < 0 else status})"),
                flush=True,
            )


def _refusal(path: str, external: str | None) -> str:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    source: str | bytes = path
    if external is not None:
        source = Path(path).read_bytes()
        options.add_session_config_entry(EXTERNAL_FOLDER, external)
    try:
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
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


if __name__ == "__main__":
    main()
