"""onnxruntime's optimiser in a process of its own: a model on which it crashes, or needs much memory, ends that alone.

``python -m lowtide.run.optimise_process`` reads ``{"model", "out", "dims", "level", "seed"}`` from standard input and
prints ``{}``, or ``{"error"}``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from lowtide.errors import InputError, LowtideError, MissingExtraError, first_line
from lowtide.run import optimise
from lowtide.run.optimise import Level, write_optimized


def optimize(model: Path, out: Path, dims: Mapping[str, int], level: Level, seed: int = 0) -> None:
    """Write a model as onnxruntime's optimiser leaves it, with every shape declared that its ops do not tell.

    Parameters are those of `write_optimized`; `seed` is of the random inputs of the run that shows shapes.

    Raises
    ------
    InputError
        onnxruntime cannot load or run the model, or crashes.
    MissingExtraError
        onnxruntime is not installed.
    """
    if find_spec("onnxruntime") is None:
        raise MissingExtraError("onnxruntime", "run", "a plan for onnxruntime")
    request = {
        "model": str(model), "out": str(out), "dims": dict(dims), "level": level, "seed": seed,
        "inline_bytes": optimise.INLINE_BYTES,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "lowtide.run.optimise_process"], input=json.dumps(request), capture_output=True,
        text=True, check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        code = done.returncode
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        raise InputError(f"onnxruntime crashes on it ({how}); plan it for another runtime", str(model)) from None
    if "error" in answer:
        raise InputError(answer["error"].removeprefix(f"{model}: "), str(model))


def main() -> None:
    """Do what standard input asks for."""
    request = json.loads(sys.stdin.readline())
    out, dims = Path(request["out"]), request["dims"]
    try:
        write_optimized(Path(request["model"]), out, dims, request["level"], request["inline_bytes"])
        if not _readable(out):
            from lowtide.run.ort_shapes import declare_shapes

            declare_shapes(out, dims, request["seed"])
        answer = {}
    except LowtideError as error:
        answer = {"error": str(error)}
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        answer = {"error": f"onnxruntime cannot optimise it: {first_line(error)}"}
    print(json.dumps(answer))


def _readable(file: Path) -> bool:
    """Whether every shape is known without a run."""
    from lowtide.read import read_model

    try:
        read_model(file)
    except InputError:
        return False
    return True


if __name__ == "__main__":
    main()
