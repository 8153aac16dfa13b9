"""One ONNX model in a process of its own, as its user runs it: ``python -m lowtide.run.fresh_process``.

The first line of standard input holds ``{"path", "session", "dims", "seed", "feeds", "outputs"}``: the model, or the
Python module that opens it by `open_session`; free sizes; and files for the inputs, which are drawn if the file is not
there yet, and for the outputs. The answer is ``{"base_bytes", "seconds"}``: memory of the process before it opened the
model, and the time of a first run. Then each line is a run, answered by its ``{"seconds"}``: an empty one on the same
input, ``next`` on the other. The end of input is answered by ``{"peak_bytes"}``: most memory of the process. The
outputs are written after that, of each input that was run.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REST_SECONDS, IDLE = 0.02, 0.05
"""A process rests if in this many seconds it uses the processor for no more than this part of them."""
MOST_RESTS = 25
INPUTS = 2
"""Different random inputs: two show whether the outputs depend on them."""


def main() -> None:
    """Serve the runs that are requested on standard input."""
    request = json.loads(sys.stdin.readline())
    feed: dict[str, Any] = {}
    try:
        session, feeds, base, first = _open(request)
        feed.update(feeds(0))
        outputs, seconds = first or _timed(session, feed)
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        _say({"error": " ".join(str(error).split())[:300]})
        return
    _say({"base_bytes": base, "seconds": seconds})
    ran = 1
    while line := sys.stdin.readline():
        del outputs  # those of one run at a time, as its user has them
        if line.strip() == "next":
            feed.clear()
            feed.update(feeds(ran))
            ran += 1
        outputs, seconds = _timed(session, feed)
        _say({"seconds": seconds})
    _say({"peak_bytes": peak_bytes()})
    _save(session, [*(session.run(None, feeds(k)) for k in range(ran - 1)), outputs], request["outputs"])
    _say({"saved": True})


Run = tuple[Any, float]
"""Outputs, and seconds."""


def _timed(session: Any, feed: dict[str, Any]) -> Run:
    began = time.perf_counter()
    outputs = session.run(None, feed)
    seconds = time.perf_counter() - began
    rest()
    return outputs, seconds


def rest() -> None:
    """Wait until this process no longer uses the processor: after a run its threads wait for the next one in a loop for
    about 50 ms, in which a run of another process is slow."""
    for _ in range(MOST_RESTS):
        began, used = time.perf_counter(), time.process_time()
        time.sleep(REST_SECONDS)
        if time.process_time() - used <= IDLE * (time.perf_counter() - began):
            return


def peak_bytes() -> int:
    """Most memory that this process had at once; where it cannot be read, what its parent had when it began counts."""
    return _status_bytes("VmHWM")


def resident_bytes() -> int:
    """Memory that this process has now; where it cannot be read, the most that it had."""
    return _status_bytes("VmRSS")


def give_back_free_heap() -> None:
    """Return to the system what imports left free in the heap, which is by chance: a session would take it first, and
    so seem to take less. Where the C library cannot, it stays."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _status_bytes(field: str) -> int:
    status = Path("/proc/self/status")
    if status.exists():
        marks = [line.split() for line in status.read_text().splitlines() if line.startswith(f"{field}:")]
        if marks:
            return 1024 * int(marks[0][1])
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


Feeds = Callable[[int], dict[str, Any]]
"""Reads one of the inputs."""


def _open(request: dict[str, Any]) -> tuple[Any, Feeds, int, Run | None]:
    """The session, its inputs, the memory before, and the run of the first input with which it was drawn, if it was."""
    import runpy
    import zipfile  # noqa: F401  # which numpy reads inputs with

    import numpy as np
    import onnxruntime  # noqa: F401  # before memory is looked at

    from lowtide.run.ort_session import new_session

    path, file = Path(request["path"]), Path(request["feeds"])
    draws = not file.exists()
    if draws:  # before memory is looked at; else these imports, which take longer than all the others, are left out
        import lowtide.run.onnx  # noqa: F401
    give_back_free_heap()
    base = resident_bytes()
    if request["session"]:
        session = runpy.run_path(request["session"])["open_session"]()
    else:
        session = new_session(str(path), threads=0)  # else as by default
    names = [wanted.name for wanted in session.get_inputs()]
    first: Run | None = None
    if draws:
        from lowtide.run.onnx import draw

        def run(drawn: Sequence[dict[str, Any]]) -> Run:
            return _timed(session, drawn[0])

        drawn, first = draw(session, path, request["seed"], INPUTS, request["dims"], run)
        with file.open("wb") as written:
            np.savez(written, **{f"{k}/{n}": feed[n] for k, feed in enumerate(drawn) for n in names})  # type: ignore[arg-type]

    def feeds(k: int) -> dict[str, Any]:
        with np.load(file) as kept:
            return {n: kept[f"{k}/{n}"] for n in names}

    return session, feeds, base, first


def _save(session: Any, outputs: Sequence[Sequence[Any]], file: str) -> None:
    """Write the outputs of each input that are arrays."""
    import numpy as np

    names = [output.name for output in session.get_outputs()]
    values = {
        f"{k}/{name}": value
        for k, of_input in enumerate(outputs)
        for name, value in zip(names, of_input, strict=True)
        if isinstance(value, np.ndarray) and value.dtype != object
    }
    with Path(file).open("wb") as written:
        np.savez(written, **values)  # type: ignore[arg-type]


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
