"""One onnxruntime session in a process of its own: ``python -m lowtide.run.ort_process``, a line in and a line out.

The first line holds ``{"path", "keep_order", "reuse", "arena_bytes", "seed", "dims"}``; the answer is ``{"ready"}``.
Then each empty line is a run, answered by its ``{"seconds"}``; the end of input is answered by ``{"peak_bytes"}``, the
most memory that the process ever had.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Serve the runs that are asked for on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        session, feed = _open(request)
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        _say({"error": " ".join(str(error).split())[:200]})
        return
    _say({"ready": True})
    while sys.stdin.readline():
        began = time.perf_counter()
        session.run(None, feed)
        _say({"seconds": time.perf_counter() - began})
    _say({"peak_bytes": peak_bytes()})


def peak_bytes() -> int:
    """Most memory that this process had at once; where it cannot be read, what its parent had when it began counts."""
    status = Path("/proc/self/status")
    if status.exists():
        marks = [line.split() for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        if marks:
            return 1024 * int(marks[0][1])
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _open(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from lowtide.run.onnx import draw
    from lowtide.run.ort_session import SessionSettings, open_session

    keep, reuse, arena = request["keep_order"], request["reuse"], request["arena_bytes"]
    path = Path(request["path"])
    session = open_session(path, SessionSettings(keep, reuse, arena, profiled=False), "", "")
    feeds, _ = draw(session, path, request["seed"], 1, request["dims"])
    return session, feeds[0]


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
