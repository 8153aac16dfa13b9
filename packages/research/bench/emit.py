"""Plans as C: whether the code makes what TFLM makes, in what memory, how long it takes and how large it is.

    python bench/emit.py --tflite FOLDER [--inputs 100] [--time 60] -o results/emit

Of each model three plans: whole ops in the best order, row loops, row loops with the input handed over. Each becomes C,
is compiled with every compiler there is, with and without sanitizers, and run on random inputs beside TFLM; guards on
both sides of the arena are looked at after each run, and with rows handed over the model runs both ways. Times are the
least of several rounds in which the code and TFLM's reference kernels (the pip package) take turns. Sizes of code are
those of an object for a Cortex-M4, where arm-none-eabi-gcc is there; where qemu-system-arm is there too, inputs also
run on an emulated one. Of the files in FOLDER a fourth plan has two memories, of which the first takes half of what
whole ops take: two arrays, on fewer inputs under sanitizers and on the emulated board.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lowtide
from lowtide.api.emitting import check_emit, project_of
from lowtide.emit.project import Project
from lowtide.emit.qemu.boards import BOARDS
from lowtide.emit.qemu.vectors import Vectors, run_on
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan
from lowtide.run.tflite_process import quiet, tflm_interpreter
from lowtide_research.bench.pages import about, document, say, script, table, write
from lowtide_research.bench.tflite_net import mobilenet_v2, spread

WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "rows": {"allow": "row-streaming"},
    "handed over": {"allow": "row-streaming", "stream_input": True},
}
TWO = "two memories"
COMPILERS = ("gcc", "clang")
PLAIN = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DMODEL_GUARD=64")
BUILDS = {
    "-O2": ("-O2",),
    "sanitized": ("-O2", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}
ARM = ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-std=c99")
ON_BOARD = 2
"""Inputs that run on the emulated board where all of them would take too long."""
TINYTS = {"mlperf_tiny_vww96_int8": 29_568, "mlperf_tiny_resnet_int8": 14_272, "mlperf_tiny_kws_int8": 9_920}
"""Bytes that TinyTS reports for MLPerf Tiny's models."""
ROUNDS = 5
MOST_EMULATED_MACS, FEW = 2 * 10**9, 10
"""Above so many in all the emulated board runs on fewer inputs; with two memories sanitized builds and the board do."""
HUNDRED = 100  # inputs that a model has to be tried on
LEAST_SECONDS = 1e-3  # runs are timed together until they take this long


def models(folder: Path | None, made: Path) -> Iterator[Path]:
    """Files."""
    yield from [] if folder is None else sorted(folder.glob("*.tflite"))
    for size in (224, 144):
        path = made / f"mobilenet_v2_0.35_{size}_int8.tflite"
        path.write_bytes(spread(mobilenet_v2(0.35, size)).bytes())
        yield path


class Tflm:
    """TFLM's reference kernels, on random inputs."""

    def __init__(self, model: Path) -> None:
        data = model.read_bytes()
        self.results = 0
        self.interpreter, words = quiet(lambda: tflm_interpreter(data, (16 << 20) + 4 * len(data)))
        if self.interpreter is None:
            raise InputError(f"TFLM does not run it: {words[:80]}", str(model))
        file = lowtide.load(model)
        self.inputs = [(t.shape or (), np.dtype(t.dtype)) for t in file.tensors if t.kind == "input"]

    def run(self, feed: Sequence[np.ndarray]) -> bytes:
        """What it makes of one input."""
        for i, value in enumerate(feed):
            self.interpreter.set_input(value, i)
        self.interpreter.invoke()
        return np.array(self.interpreter.get_output(0)).tobytes()

    def seconds(self, feed: Sequence[np.ndarray]) -> float:
        """Of a run, without its input and its result being copied."""
        for i, value in enumerate(feed):
            self.interpreter.set_input(value, i)
        count = 1
        while True:
            began = time.process_time()
            for _ in range(count):
                self.interpreter.invoke()
            taken = time.process_time() - began
            if taken >= LEAST_SECONDS:
                return taken / count
            count *= 2

    def feed(self, data: bytes) -> list[np.ndarray]:
        """The bytes of all inputs as arrays."""
        arrays, begin = [], 0
        for shape, kind in self.inputs:
            size = math.prod(shape) * kind.itemsize
            arrays.append(np.frombuffer(data[begin : begin + size], kind).reshape(shape))
            begin += size
        return arrays

    def vectors(self, count: int, folder: Path) -> None:
        """Random inputs and what it makes of them, one after the other, as files of the folder."""
        rng = np.random.default_rng(0)
        limits = [np.iinfo(str(kind)) for _, kind in self.inputs]
        feeds = [
            [
                rng.integers(m.min, m.max + 1, shape).astype(kind)
                for (shape, kind), m in zip(self.inputs, limits, strict=True)
            ]
            for _ in range(count)
        ]
        wanted = [self.run(feed) for feed in feeds]
        (folder / "in.bin").write_bytes(b"".join(value.tobytes() for feed in feeds for value in feed))
        (folder / "want.bin").write_bytes(b"".join(wanted))
        self.results = len(set(wanted))


def built(folder: Path, compiler: str, flags: Sequence[str], name: str) -> Path:
    """A host program, whose warnings are errors."""
    words = [compiler, *PLAIN, *flags, "model.c", "model_weights.c", "main.c", "-o", name]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[:2000]}")
    return folder / name


def checks(folder: Path, inputs: int, few: int) -> dict[str, str]:
    """What each build makes of the vectors, beside what TFLM made; of the sanitized ones of the first `few`."""
    cut(folder, folder / "few", few, inputs)
    shown = {}
    for compiler in filter(shutil.which, COMPILERS):
        for build, flags in BUILDS.items():
            program = built(folder, compiler, flags, f"host-{compiler}{build}")
            words = [program, "--check", "in.bin", "want.bin"]
            place = folder / "few" if build == "sanitized" else folder
            done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
            shown[f"{compiler} {build}"] = "equal" if done.returncode == 0 else (done.stdout + done.stderr)[:300]
    return shown


def cut(folder: Path, place: Path, few: int, inputs: int) -> None:
    """The first vectors of a folder in another one."""
    place.mkdir(exist_ok=True)
    for name in ("in.bin", "want.bin"):
        data = (folder / name).read_bytes()
        (place / name).write_bytes(data[: len(data) // inputs * few])


def timed(folder: Path, tflm: Tflm, inputs: int) -> dict[str, float]:
    """Least seconds of a run of each build and of TFLM, in turns."""
    least: dict[str, float] = {}

    def note(what: str, seconds: float) -> None:
        least[what] = min(seconds, least.get(what, seconds))

    data = (folder / "in.bin").read_bytes()
    first = data[: len(data) // inputs]
    (folder / "one.bin").write_bytes(first)
    feed = tflm.feed(first)
    programs = {f"{c} -O2": folder / f"host-{c}-O2" for c in filter(shutil.which, COMPILERS)}
    for _ in range(ROUNDS):
        for what, program in programs.items():
            words = [program, "--time", "3", "one.bin"]
            shown = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
            note(what, float(shown) / 1e9)
        for _ in range(3):
            note("tflm", tflm.seconds(feed))
    return least


def code_bytes(folder: Path) -> dict[str, int]:
    """Bytes of code and of tables in an object for a Cortex-M4."""
    if shutil.which(ARM[0]) is None:
        return {}
    result = {}
    subprocess.run([*ARM, "-Os", "-c", "model.c", "-o", "model.o"], cwd=folder, check=True)
    words = ["arm-none-eabi-size", "-A", "model.o"]
    shown = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    sections = {m[1]: int(m[2]) for m in re.finditer(r"^(\.[\w.]+)\s+(\d+)", shown, re.MULTILINE)}
    result["code -Os"] = sum(size for name, size in sections.items() if name.startswith(".text"))
    result["tables"] = sum(size for name, size in sections.items() if name.startswith(".rodata"))
    result["stack"] = stack_bytes(folder)
    return result


def stack_bytes(folder: Path) -> int:
    """Bytes of the deepest chain of calls in `model.c` on a Cortex-M4, as gcc counts those of each function
    (-fstack-usage, here with who calls whom); no call goes round, and none goes through a pointer."""
    subprocess.run([*ARM, "-Os", "-fcallgraph-info=su", "-c", "model.c", "-o", "stack.o"], cwd=folder, check=True)
    graph = (folder / "stack.ci").read_text()
    own = {m[1]: int(m[2]) for m in re.finditer(r'node: { title: "([^"]+)" label: "[^"]*?(\d+) bytes', graph)}
    calls: dict[str, set[str]] = {}
    for m in re.finditer(r'edge: { sourcename: "([^"]+)" targetname: "([^"]+)"', graph):
        calls.setdefault(m[1], set()).add(m[2])

    def deepest(name: str) -> int:
        return own.get(name, 0) + max((deepest(called) for called in calls.get(name, ())), default=0)

    return max(map(deepest, own))


def emulated(project: Project, folder: Path, inputs: int, few: int) -> str:
    """What an emulated board makes of the first `few` vectors."""
    board = BOARDS["m4"]
    try:
        board.check(library=False)
        cut(folder, folder / "board", few, inputs)
        given, wanted = ((folder / "board" / name).read_bytes() for name in ("in.bin", "want.bin"))
        run = run_on(board, project, "model", Vectors(given, wanted, "TFLM", few), folder)
    except InputError:
        return "-"
    except VerificationError as error:
        return str(error)[:200]
    return "equal" if run.wrong == 0 else f"{run.wrong} wrong, {run.first}"


def row_of(
    model: Path,
    way: str,
    vectors: Path,
    tflm: Tflm,
    inputs: int,
    seconds: float,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """A model's row for one way; None if it has no such plan. `vectors`: a folder with random inputs and results."""
    try:
        plan = lowtide.research.plan(model, target="loops", time=seconds, **(settings or WAYS[way]))
    except InputError as error:
        if "--stream-input" in str(error):
            return None
        raise
    if (way == "rows" and not plan.loops) or (way == "handed over" and not _streams(plan)):
        return None
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        project = project_of(plan, model)
        sizes = lowtide.emit_c(plan, model, folder)
        cut(vectors, folder, inputs, inputs)
        few = min(FEW, inputs) if way == TWO else inputs
        on_board = few if sizes.macs * inputs <= MOST_EMULATED_MACS else min(ON_BOARD, inputs)
        return {
            "model": model.stem,
            "way": way,
            "arena": sizes.arena_bytes,
            "planned": plan.arena_bytes,
            "counters": sizes.counter_bytes,
            "weights": sizes.weight_bytes,
            "macs": sizes.macs,
            "moved": sizes.moved_bytes,
            "loops": sizes.loops,
            "inputs": inputs,
            "results": tflm.results,
            "sanitized": few,
            "checks": checks(folder, inputs, few),
            "seconds": timed(folder, tflm, inputs),
            "sizes": code_bytes(folder),
            "memories": [m.size_bytes for m in plan.memories or ()] or None,
            "on_board": on_board,
            "emulated": emulated(project, folder, inputs, on_board),
        }


def _streams(plan: Plan) -> bool:
    return any(loop.streamed for loop in plan.loops or ())


HEAD = (
    "model", "way", "loops", "arena", "counters", "weights", "code -Os", "tables", "stack", "equal",
    "inputs, sanitized", "emulated", "gcc ms", "clang ms", "TFLM ms", "ratios",
)  # fmt: skip


def cells(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row of the table."""
    seconds, sizes = row["seconds"], row["sizes"]
    gcc, clang, tflm = (seconds.get(what, math.nan) for what in ("gcc -O2", "clang -O2", "tflm"))
    good = "yes" if all(shown == "equal" for shown in row["checks"].values()) else "NO"
    good += " (one result)" if row["results"] == 1 else ""
    return (
        row["model"], row["way"], row["loops"], " + ".join(f"{size:,}" for size in row["memories"] or [row["arena"]]),
        row["counters"], row["weights"], sizes.get("code -Os", 0), sizes.get("tables", 0), sizes.get("stack", 0), good,
        f"{row['inputs']}, {row['sanitized']}", f"{row['emulated']}, {row['on_board']}", f"{gcc * 1e3:.2f}",
        f"{clang * 1e3:.2f}", f"{tflm * 1e3:.2f}", f"{gcc / tflm:.2f}, {clang / tflm:.2f}",
    )  # fmt: skip


def text(results: dict[str, Any]) -> list[str]:
    """The page."""
    rows, refused = results["models"], results["refused"]
    equal = all(shown == "equal" for row in rows for shown in row["checks"].values())
    runs = sum(row["sanitized" if "san" in name else "inputs"] for row in rows for name in row["checks"])
    builds = sorted({name for row in rows for name in row["checks"]})
    lines = [
        "# Plans as C",
        "",
        f"{about(results['machine'])}; `bench/emit.py`. Which files become C, and their arenas beside TFLM's: "
        "[emit_files](emit_files.md).",
        "",
        "*Arena*: the static array of the code, which is the plan's; input and output are in it, but for an input that",
        f"is handed over. *Equal*: bit by bit as TFLM's reference kernels on random inputs, in {len(builds)} builds",
        f"({', '.join(builds)}; sanitized: address and undefined), with nothing written in 64 bytes on either side of",
        "the arena; rows handed over run both ways. *Emulated*: the same on qemu's Cortex-M4 (mps2-an386), with how",
        "many inputs. *Two memories*: the first takes half of what whole ops take, an array each. Times: the least of",
        "several rounds in turns, -O2, one thread; ratios to TFLM's `Invoke`. *Code*, *tables*:",
        "`model.c` for a Cortex-M4, -Os; *stack*: its deepest chain of calls there (-fstack-usage). Weights have",
        "multipliers and shifts in them.",
        "",
        f"{runs:,} runs, " + ("all equal." if equal else "NOT all equal (see the JSON)."),
        "",
        *table(HEAD, map(cells, rows)),
    ]
    files = {row["model"] for row in rows}
    on_all = {row["model"] for row in rows if row["inputs"] >= HUNDRED and row.get("on_board", 0) >= HUNDRED}
    lines += [
        "",
        f"{len(files)} models, {len(on_all)} of them with {HUNDRED} inputs or more in every build and on the board.",
    ]
    own = {name: {row["way"]: row["arena"] for row in rows if row["model"] == name} for name in TINYTS}
    beside = [(name, TINYTS[name], *(ways.get(way, "-") for way in WAYS)) for name, ways in own.items() if ways]
    lines += ["", "TinyTS's bytes on MLPerf Tiny, and ours:", "", *table(("model", "TinyTS", *WAYS), beside)]
    if refused:
        lines += ["", "Not written, and what is said:", "", *(f"- {name}: {why}" for name, why in refused)]
    return lines


def main() -> None:
    """Rows as JSON and a page."""
    parser = script(__doc__)
    parser.add_argument("--tflite", type=Path, help="a folder of .tflite files")
    parser.add_argument("--inputs", type=int, default=100, help="random inputs of each model (default 100)")
    parser.add_argument("--time", type=float, default=60.0, help="seconds for each plan")
    parser.add_argument("--only", default="", help="models whose name has one of these, A,B,...")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    refused: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models(options.tflite, Path(folder)):
            if not any(word in model.stem for word in options.only.split(",")):
                continue
            try:
                check_emit(model)
            except InputError as error:
                refused.append([model.stem, str(error).removeprefix(f"{model}: ").partition(", but for")[0]])
                continue
            tflm, vectors = Tflm(model), Path(folder) / model.stem
            vectors.mkdir()
            tflm.vectors(options.inputs, vectors)
            for way in (*WAYS, *([TWO] if model.parent == options.tflite else [])):
                untiled = next((row["arena"] for row in rows if (row["model"], row["way"]) == (model.stem, "whole")), 0)
                two = {"banks": [f"first={max(untiled // 2, 1)}", f"second={2 * untiled}"]} if way == TWO else None
                row = row_of(model, way, vectors, tflm, options.inputs, options.time, two)
                if row is not None:
                    rows.append(row)
                    say(json.dumps(row))
                    results = document(models=rows, refused=refused)
                    write(options.out, results, text(results))


if __name__ == "__main__":
    main()
