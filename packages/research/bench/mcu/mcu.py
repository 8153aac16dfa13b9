"""Models on microcontrollers that qemu emulates: arena, stack, flash and instructions of TFLM and of lowtide's C.

    python bench/mcu/libraries.py SOURCES BUILD
    python bench/mcu/mcu.py SOURCES BUILD --tflite FOLDER -o results/mcu

Of each model on a Cortex-M4 and on a Cortex-M55: TFLM with its reference kernels, TFLM with CMSIS-NN, lowtide with
CMSIS-NN in the least arena, the same with a budget of twice that arena, and lowtide's own kernels. All are compiled by
one compiler with -O2, run on the same random inputs, and are compared byte by byte with TFLM's pip package.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from libraries import BOARDS, CXX, FLAGS, HERE, LIBRARY, includes
from published import compared

import lowtide
from lowtide.emit.project import Project
from lowtide.emit.qemu.boards import Bench
from lowtide.emit.qemu.library import library_words
from lowtide.emit.qemu.vectors import Vectors, included, project_sources
from lowtide.read.tflite.model import TfliteFile
from lowtide.run.tflite import tflm_vectors
from lowtide_research.bench.pages import about, document, say, script, table, write
from lowtide_research.bench.tflite_net import mcunet, mobilenet_v2, spread
from lowtide_research.zoo.mcunet import IMAGENET, WAKE_WORDS

TFLM_REFERENCE, TFLM_LIBRARY = "TFLM, reference", "TFLM + CMSIS-NN"
OURS, LARGER, OWN = "lowtide + CMSIS-NN", "the same, twice the arena", "lowtide's own C"
WAYS = (TFLM_REFERENCE, TFLM_LIBRARY, OURS, LARGER, OWN)
ARENA, SHARE, MOST, TWICE = 0.40, 1.10, 1.30, 1.00
"""To be reached, of TFLM with CMSIS-NN: arena, instructions on average, at most, and with twice the arena."""
RESOLVERS = {
    "ADD": "AddAdd", "AVERAGE_POOL_2D": "AddAveragePool2D", "CONCATENATION": "AddConcatenation", "CONV_2D": "AddConv2D",
    "DEPTHWISE_CONV_2D": "AddDepthwiseConv2D", "FULLY_CONNECTED": "AddFullyConnected", "MAX_POOL_2D": "AddMaxPool2D",
    "MEAN": "AddMean", "PAD": "AddPad", "QUANTIZE": "AddQuantize", "RESHAPE": "AddReshape", "SOFTMAX": "AddSoftmax",
    "ASSIGN_VARIABLE": "AddAssignVariable", "CALL_ONCE": "AddCallOnce", "LOGISTIC": "AddLogistic",
    "READ_VARIABLE": "AddReadVariable", "SPLIT_V": "AddSplitV", "STRIDED_SLICE": "AddStridedSlice",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "AddUnidirectionalSequenceLSTM", "VAR_HANDLE": "AddVarHandle",
}  # fmt: skip
RUNTIME = ("-Wl,-u,printf", "-Wl,--start-group", "-lstdc++", "-lc", "-lrdimon", "-lm", "-lgcc", "-Wl,--end-group")
"""What TFLM's programs are linked with; what prints in a C library is not counted as TFLM's flash."""


@dataclass(frozen=True)
class Sources:
    """Where sources and libraries are.

    Attributes
    ----------
    root
        Of TFLM's sources.
    build
        What `libraries.py` made.
    """

    root: Path
    build: Path

    def archives(self, bench: Bench, *names: str) -> list[Path]:
        """Libraries of a board."""
        return [self.build / bench.board.name / f"lib{name}.a" for name in names]


def vectors(model: Path, count: int) -> Vectors:
    """Random inputs, and what TFLM's pip package makes of them."""
    found = tflm_vectors(model, 0, count)
    if isinstance(found, str):
        raise SystemExit(f"{model}: {found}")
    return Vectors(*found, "TFLM", count)


def tflm(sources: Sources, bench: Bench, kernels: str, model: Path, data: Path) -> Path:
    """The program with TFLM."""
    graph = lowtide.load(model)
    assert isinstance(graph.file, TfliteFile)
    types = sorted({op.type for op in graph.ops})
    variables = len({str(op.attributes) for op in graph.ops if op.type == "VAR_HANDLE"})
    words = [*includes(sources.root), *FLAGS, f"-DOPERATORS={len(types)}", f"-DARENA={1 << 20}"]
    words += [f"-DVARIABLES={variables}"]
    words += ["-DRESOLVE=" + "".join(f"resolver.{RESOLVERS[kind]}();" for kind in types)]
    words += LIBRARY if kernels == "cmsis_nn" else ()
    (bench.folder / "model_file.bin").write_bytes(model.read_bytes())
    file = bench.folder / "model_file.c"
    file.write_text(included("model_file", "model_file.bin"))
    names = [f"tflm-{kernels}", *(["cmsis_nn"] if kernels == "cmsis_nn" else [])]
    main = bench.compiled(HERE / "tflm.cc", [*words, *CXX])
    return bench.program(f"tflm-{kernels}", [data, file], [], [main, *sources.archives(bench, *names), *RUNTIME])


def emitted(sources: Sources, bench: Bench, project: Project, data: Path, name: str, *, library: bool) -> Path:
    """The program with emitted C."""
    made, words = project_sources(project, "model", bench.folder / name)
    words += library_words(sources.root / "third/cmsis_nn") if library else []
    return bench.program(name, [*made, data], words, sources.archives(bench, "cmsis_nn") if library else [])


def rows_of(
    sources: Sources, bench: Bench, model: Path, data: Path, seconds: float, kept: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """All ways of a model on a board; `kept`: rows of TFLM, which lowtide does not change."""
    from lowtide.api.emitting import library_project_of, project_of

    nothing = bench.program("nothing", [bench.folder / "nothing.c", data])
    printing = bench.program("printing", [bench.folder / "nothing.c", data], [], RUNTIME)
    simd = bench.board.simd
    least, _ = library_project_of(model, simd=simd)
    larger, _ = library_project_of(model, simd=simd, budget=2 * least.sizes.arena_bytes)
    own = project_of(lowtide.research.plan(model, target="loops", allow="row-streaming", time=seconds), model)
    programs: dict[str, Callable[[], Path]] = {
        TFLM_REFERENCE: lambda: tflm(sources, bench, "reference", model, data),
        TFLM_LIBRARY: lambda: tflm(sources, bench, "cmsis_nn", model, data),
        OURS: lambda: emitted(sources, bench, least, data, "ours", library=True),
        LARGER: lambda: emitted(sources, bench, larger, data, "larger", library=True),
        OWN: lambda: emitted(sources, bench, own, data, "own", library=False),
    }
    result = list(kept)
    for way in WAYS:
        if any(row["way"] == way for row in kept):
            continue
        run = bench.run(programs[way](), printing if way in (TFLM_REFERENCE, TFLM_LIBRARY) else nothing)
        row = {
            "model": model.stem, "board": run.board, "way": way, "arena": run.arena_bytes, "stack": run.stack_bytes,
            "instructions": run.instructions, "wrong": run.wrong, "flash": run.flash_bytes,
        }  # fmt: skip
        say(json.dumps(row))
        result.append(row)
    return result


def models(folder: Path | None, made: Path, only: str) -> list[Path]:
    """Files: those of the folder, MobileNetV2 0.35 at 96, 144 and 160 pixels, and MCUNet's two networks."""
    found = [] if folder is None else [p for p in sorted(folder.glob("*.tflite")) if p.stem in NAMES]
    nets = {f"mobilenet_v2_0.35_{size}_int8": partial(mobilenet_v2, 0.35, size) for size in (96, 144, 160)}
    nets |= {"mcunet_v2_vww_80_int8": partial(mcunet, WAKE_WORDS, 80, 2)}
    nets |= {"mcunet_320kb_176_int8": partial(mcunet, IMAGENET, 176, 1000)}
    for name, make in nets.items():
        if any(word in name for word in only.split(",")):
            path = made / f"{name}.tflite"
            path.write_bytes(spread(make()).bytes())
            found.append(path)
    return [p for p in found if any(word in p.stem for word in only.split(","))]


NAMES = (
    "mlperf_tiny_ad01_int8", "mlperf_tiny_kws_int8", "mlperf_tiny_resnet_int8", "mlperf_tiny_vww96_int8",
    "tflm_person_detect_int8", "dtln_noise_suppression", "okay_nabu",
)  # fmt: skip
"""Files of the folder that are measured."""


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def text(results: dict[str, Any]) -> list[str]:
    """The page."""
    rows = results["rows"]
    lines = [
        "# Microcontrollers: lowtide and TFLM with the same kernels",
        "",
        f"{about(results['machine'])}; `bench/mcu/mcu.py`. {results['compiler']}, -O2; instructions counted in",
        f"qemu (`-icount shift=0`), so not cycles. {results['inputs']} random inputs a model, compared byte by byte",
        "with TFLM's pip package; the last one is counted.",
        "",
        "*Arena*: of TFLM `arena_used_bytes()` of the same build, of lowtide's C arena, counters and state; input and",
        "output are in it. *Stack*: the most that a run used. *Flash*: code and constants, less those of the same",
        "program without a model; TFLM with the model's own operators alone. *Instructions*: from an input in the",
        "caller's memory, which is copied into the arena, to the result; lowtide's C copies that out, too.",
        "",
    ]
    for board, title in (("m4", "Cortex-M4 (DSP)"), ("m55", "Cortex-M55 (MVE)")):
        of_board = sorted(
            (row for row in rows if row["board"] == board), key=lambda row: (row["model"], WAYS.index(row["way"]))
        )
        if of_board:
            lines += [f"## {title}", "", *_table(of_board), "", *_summary(of_board), ""]
    return [*lines, *compared(rows)]


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    base = {row["model"]: row for row in rows if row["way"] == TFLM_LIBRARY}
    cells = [
        (
            row["model"], row["way"], f"{row['arena']:,}", f"{row['arena'] / base[row['model']]['arena']:.2f}",
            f"{row['stack']:,}", f"{row['flash']:,}", f"{row['instructions']:,}",
            f"{row['instructions'] / base[row['model']]['instructions']:.3f}", "yes" if row["wrong"] == 0 else "NO",
        )
        for row in rows
    ]  # fmt: skip
    head = ("model", "what runs", "arena", "ratio", "stack", "flash", "instructions", "ratio", "equal")
    return table(head, cells)


def _summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    base = {row["model"]: row for row in rows if row["way"] == TFLM_LIBRARY}

    def ratios(way: str, key: str) -> list[float]:
        return [row[key] / base[row["model"]][key] for row in rows if row["way"] == way]

    lines = []
    for way in (OURS, LARGER, OWN):
        arena, counts = ratios(way, "arena"), ratios(way, "instructions")
        if counts:
            lines.append(
                f"- {way}: arena {mean(arena):.3f} of TFLM + CMSIS-NN's, instructions {mean(counts):.4f} (geometric "
                f"means), at most {max(counts):.3f}."
            )
    for way in (OURS, OWN):
        counts, larger = ratios(way, "instructions"), ratios(LARGER, "instructions") if way == OURS else []
        if not counts:
            continue
        goals = [
            (mean(ratios(way, "arena")) <= ARENA, f"arena at most {ARENA:.2f}"),
            (mean(counts) <= SHARE, f"instructions at most {SHARE:.2f}"),
            (max(counts) <= MOST, f"none above {MOST:.1f}"),
        ]
        if larger:
            goals.append((mean(larger) <= TWICE, f"with twice the arena instructions at most {TWICE:.2f}"))
        reached = "; ".join(f"{what}: {'reached' if good else 'MISSED'}" for good, what in goals)
        lines.append(f"- Goals, {way}: {reached}.")
    return lines


def rows_before(out: Path) -> list[dict[str, Any]]:
    """Rows of a run before at this commit: those of TFLM, other models and other boards are kept."""
    path = out.with_suffix(".json")
    if not path.exists():
        return []
    results = json.loads(path.read_text(encoding="utf-8"))
    here = document()["machine"]["commit"]
    return results["rows"] if results["machine"]["commit"].rstrip("+") == here.rstrip("+") else []


def main() -> None:
    """Rows as JSON and a page."""
    parser = script(__doc__)
    parser.add_argument("sources", type=Path, help="tflite-micro, with its third parties in SOURCES/third")
    parser.add_argument("build", type=Path, help="what libraries.py made")
    parser.add_argument("--tflite", type=Path, help="a folder of .tflite files")
    parser.add_argument("--inputs", type=int, default=2, help="random inputs of each model (default 2)")
    parser.add_argument("--time", type=float, default=20.0, help="seconds for each plan of lowtide's own C")
    parser.add_argument("--board", choices=BOARDS, action="append")
    parser.add_argument("--only", default="", help="models whose name has one of these, A,B,...")
    options = parser.parse_args()
    compiler = BOARDS["m4"].tool("gcc")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    rows = [] if options.out is None else rows_before(options.out)
    sources = Sources(options.sources, options.build)
    with tempfile.TemporaryDirectory() as work:
        for model in models(options.tflite, Path(work), options.only):
            drawn = vectors(model, options.inputs)
            for board in options.board or BOARDS:
                bench = Bench(BOARDS[board], Path(work) / f"{model.stem}-{board}")
                before = [row for row in rows if (row["model"], row["board"]) == (model.stem, board)]
                kept = [row for row in before if row["way"] in (TFLM_REFERENCE, TFLM_LIBRARY)]
                rows = [row for row in rows if row not in before]
                rows += rows_of(sources, bench, model, drawn.write(bench.folder), options.time, kept)
                results = document(rows=rows, compiler=version.splitlines()[0], inputs=options.inputs)
                if options.out is not None:
                    write(options.out, results, text(results))


if __name__ == "__main__":
    main()
