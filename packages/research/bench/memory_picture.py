"""Draws the memory of a process over time while onnxruntime opens and runs a model: today, and with a plan.

    python bench/memory_picture.py MODEL.onnx SESSION.py -o picture.svg

`SESSION.py` is the module that `lowtide plan MODEL.onnx -o OUT` writes. Each model has a fresh process, one after the
other, with the same random inputs; memory is read every few milliseconds from /proc (Linux), and the memory before the
model is opened is taken off.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

RUNS = 10
INTERVAL = 0.003
WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 60, 700, 16, 208
MIB = 2**20


@dataclass(frozen=True)
class Curve:
    """Bytes above those before the model was opened at seconds from then on, and the most of them."""

    points: list[tuple[float, int]]
    peak_bytes: int


def record(model: Path, session: Path | None, folder: Path) -> Curve:
    """Open and run a model in a fresh process, and watch its memory."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lowtide.run.fresh_process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seen: list[tuple[float, int]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            status = Path(f"/proc/{process.pid}/status").read_text()
            if "VmRSS:" in status:
                seen.append((time.perf_counter(), 1024 * int(status.partition("VmRSS:")[2].split()[0])))
            time.sleep(INTERVAL)

    watcher = threading.Thread(target=watch)
    watcher.start()
    request = {
        "path": str(model), "session": session and str(session), "dims": {}, "seed": 0,
        "feeds": str(folder / "feeds.npz"), "outputs": str(folder / "outputs.npz"),
    }  # fmt: skip
    answers: list[dict[str, int]] = []
    for line in (json.dumps(request), *[""] * RUNS):
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        answers.append(json.loads(process.stdout.readline()))
    done.set()
    watcher.join()
    process.stdin.close()
    peak = json.loads(process.stdout.readline())["peak_bytes"]
    process.wait()
    base = answers[0]["base_bytes"]
    began = max(k for k, (_, size) in enumerate(seen) if all(s <= base for _, s in seen[: k + 1]))
    start = seen[began][0]
    return Curve([(at - start, max(0, size - base)) for at, size in seen[began:]], peak - base)


def picture(name: str, today: Curve, planned: Curve) -> str:
    """Both curves as SVG."""
    end = max(curve.points[-1][0] for curve in (today, planned))
    top = max(today.peak_bytes, planned.peak_bytes) * 1.1

    def x(seconds: float) -> float:
        return LEFT + (RIGHT - LEFT) * seconds / end

    def y(size: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * size / top

    title = f"Memory of a process that opens and runs {name}: "
    title += f"{today.peak_bytes / MIB:.0f} MiB today, {planned.peak_bytes / MIB:.0f} MiB with lowtide"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'role="img" aria-labelledby="lowtide-title" font-family="system-ui, sans-serif" font-size="11">'
        f'<title id="lowtide-title">{title}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    ]
    step = 50 if top > 100 * MIB else 10
    text = '<text font-size="11" fill="#444" text-anchor="'
    for size in range(0, int(top / MIB) + 1, step):
        at = y(size * MIB)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{RIGHT}" stroke="#ddd"/>')
        parts.append(f'{text}end" x="{LEFT - 5}" y="{at + 4:.1f}">{size} MiB</text>')
    tick = next(seconds for seconds in (0.1, 0.2, 0.5, 1, 2, 5, 10) if end <= 11 * seconds)
    for k in range(int(end / tick) + 1):
        parts.append(f'{text}middle" x="{x(k * tick):.1f}" y="{BOTTOM + 16}">{k * tick:g} s</text>')
    for label, curve, colour in (("today", today, "#777"), ("with lowtide", planned, "#0072b2")):
        line = " ".join(f"{x(at):.1f},{y(size):.1f}" for at, size in _thinned(curve.points, end))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<text x="{x(curve.points[-1][0]):.1f}" y="{y(curve.peak_bytes) - 4:.1f}" text-anchor="end" '
            f'fill="{colour}" font-weight="bold">{label}: {curve.peak_bytes / MIB:.0f} MiB at most</text>'
        )
    return "".join([*parts, "</svg>\n"])


def _thinned(points: list[tuple[float, int]], end: float) -> list[tuple[float, int]]:
    """The largest value of each of the picture's columns."""
    columns: dict[int, tuple[float, int]] = {}
    for at, size in points:
        column = int((RIGHT - LEFT) * at / end / 2)
        if column not in columns or columns[column][1] < size:
            columns[column] = (at, size)
    return list(columns.values())


def main() -> int:
    """Record both and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("session", type=Path)
    parser.add_argument("-o", dest="out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        record(options.model, None, Path(folder))  # draws the inputs
        today = record(options.model, None, Path(folder))
        planned = record(options.model, options.session, Path(folder))
    options.out.write_text(picture(options.model.name, today, planned), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
