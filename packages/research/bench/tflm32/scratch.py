"""Compares lowtide's rules for CMSIS-NN's scratch with the library's compiled C, on random layers.

    python bench/tflm32/scratch.py SOURCES BUILD -o results/cmsis-nn-scratch

needs CMSIS-NN in SOURCES/third/cmsis_nn and a C compiler, and nothing of TFLM; see README.md.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from lowtide.graph import Kind, Tensor
from lowtide.ops.index import Window, same_padding
from lowtide.rules.tflm import cmsis_nn
from lowtide.rules.tflm.cmsis_nn import Simd
from lowtide.rules.tflm.kernels import KernelWindow
from lowtide_research.bench.machine import machine

HERE = Path(__file__).parent
SIMDS: tuple[Simd, ...] = ("none", "dsp", "mve")
COMMIT = "99f736a"
Question = tuple[str, tuple[int, ...], tuple[int, ...]]
"""Words of the question without the instructions' number, and the answers of the rules."""


def window(draw: random.Random, deep: bool) -> tuple[KernelWindow, int]:
    """A convolution's geometry, awkward on purpose, and the depth of its filter (below the input's: groups)."""
    sizes, results, windows = [], [], []
    for taps, lengths in (((1, 1, 2, 3, 3, 5), (1, 1, 4, 7, 20)), ((1, 1, 2, 3, 3, 5, 8), (4, 7, 20, 33))):
        size, (stride, dilation) = draw.choice(lengths), (draw.choice((1, 1, 2, 3)) for _ in range(2))
        window = Window(draw.choice(taps), stride, dilation)
        same = draw.random() < 0.5 or window.reach > size
        result = -(-size // stride) if same else window.rows(size, 0)
        before = same_padding(size, result, window) if same else 0
        sizes.append(size)
        results.append(result)
        windows.append(replace(window, before=before))
    depth = draw.choice((1, 1, 2, 3, 4, 6, 8, 12, 16, 33, 64, 130))
    channels = depth * draw.choice((1, 1, 2, 8)) if deep else draw.choice((1, 2, 8, 16, 40))
    batches = draw.choice((1, 1, 1, 2))
    groups = 2 if not deep and depth % 2 == 0 and draw.random() < 0.2 else 1
    w = KernelWindow((batches, *sizes, depth), (batches, *results, channels), *windows)
    return w, depth // groups


def questions(kind: str, draw: random.Random, count: int) -> list[tuple[str, Simd, tuple[int, ...]]]:
    """Lines for the program, each with the instructions it is about and what the rules say."""
    asked: list[tuple[str, Simd, tuple[int, ...]]] = []
    for i in range(count):
        simd = SIMDS[i % 3]
        if kind in ("conv", "conv16", "deep", "deep4"):
            w, filter_depth = window(draw, kind.startswith("deep"))
            said = {
                "conv": lambda w=w, d=filter_depth, s=simd: cmsis_nn.convolution(w, d, s),
                "conv16": lambda w=w, s=simd: cmsis_nn.convolution_int16(w, s),
                "deep": lambda w=w, s=simd: cmsis_nn.depthwise(w, s),
                "deep4": lambda w=w, s=simd: cmsis_nn.depthwise_int4(w, s),
            }[kind]()
            inner = w.output[3] if kind.startswith("deep") else filter_depth
            both = (w.rows, w.columns)
            geometry = [[getattr(d, name) for d in both] for name in ("taps", "stride", "before", "dilation")]
            taps, strides, before, dilations = geometry
            words = (*w.input, *taps, inner, *w.output[1:], *strides, *before, *dilations)
            asked.append((" ".join(map(str, words)), simd, (said,)))
        elif kind in ("pool", "pool16"):
            depth = draw.randrange(1, 200)
            given = Tensor(0, depth, Kind.INPUT, "x", (1, 1, 1, depth), "int8")
            asked.append((f"{draw.randrange(1, 40)} {depth}", simd, (cmsis_nn.average_pool(given, simd),)))
        elif kind in ("rows", "svdf"):
            outputs = draw.randrange(1, 500)
            asked.append((str(outputs), simd, (cmsis_nn.row_sums(outputs, simd),)))
        else:
            height, width, depth = (
                draw.choice((1, 3, 8, 20)),
                draw.choice((1, 3, 8, 20)),
                draw.choice((1, 4, 16, 17, 40)),
            )
            filters, rows, columns = draw.choice((1, 4, 9)), draw.choice((1, 2, 3, 5)), draw.choice((1, 2, 3, 5))
            stride = (draw.choice((1, 2, 3)), draw.choice((1, 2, 3)))
            sizes = cmsis_nn.transposed(
                (1, height, width, depth), (filters, rows, columns, depth), (1, 1, 1, filters), stride, simd
            )
            words = (height, width, depth, filters, rows, columns, filters, *stride)
            asked.append((" ".join(map(str, words)), simd, sizes))
    return asked


def main() -> int:
    """Build the program, ask it, compare; exit with 1 if any answer differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("build", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="results: this name with .json and .md")
    parser.add_argument("--count", type=int, default=30000, help="random layers per function")
    given = parser.parse_args()
    library = given.sources / "third/cmsis_nn"
    program = given.build / "buffer_sizes"
    files = [str(p) for p in library.rglob("*get_buffer_sizes_s*.c")]
    flags = ["-O1", "-w", f"-I{library}", f"-I{library / 'Include'}"]
    subprocess.run(["gcc", *flags, str(HERE / "buffer_sizes.c"), *files, "-o", str(program)], check=True)
    draw = random.Random(0)
    rows = []
    for kind in ("conv", "conv16", "deep", "deep4", "pool", "pool16", "rows", "svdf", "turned"):
        asked = questions(kind, draw, given.count)
        lines = "".join(f"{kind} {SIMDS.index(simd)} {words}\n" for words, simd, _ in asked)
        answers = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True).stdout
        counts = {simd: [0, 0, 0] for simd in SIMDS}
        for (words, simd, said), line in zip(asked, answers.splitlines(), strict=True):
            equal = said == tuple(map(int, line.split()))
            counts[simd][0] += 1
            counts[simd][1] += equal
            counts[simd][2] += any(said)
            if not equal and counts[simd][0] - counts[simd][1] <= 3:
                print(f"{kind} {simd} {words}: the rules say {said}, the library {line}", file=sys.stderr)
        rows += [{"function": kind, "simd": s, "asked": n, "equal": e, "above_0": a} for s, (n, e, a) in counts.items()]
    for row in rows:
        print(*row.values())
    if given.output is not None:
        write(given.output, rows)
    return int(any(row["asked"] != row["equal"] for row in rows))


def write(output: Path, rows: list[dict[str, object]]) -> None:
    """The results as JSON and as a table."""
    from dataclasses import asdict

    here = machine()
    document = {"cmsis_nn": COMMIT, "machine": asdict(here), "rows": rows}
    output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    names = {
        "conv": "CONV_2D int8", "conv16": "CONV_2D int16", "deep": "DEPTHWISE_CONV_2D int8",
        "deep4": "DEPTHWISE_CONV_2D int4 filters", "pool": "AVERAGE_POOL_2D int8", "pool16": "AVERAGE_POOL_2D int16",
        "rows": "FULLY_CONNECTED int8", "svdf": "SVDF int8", "turned": "TRANSPOSE_CONV int8",
    }  # fmt: skip
    lines = [
        "# CMSIS-NN's scratch: rules against its compiled C",
        "",
        f"CMSIS-NN {COMMIT}, `*_get_buffer_size` compiled on the host; {here.cpu}; lowtide {here.lowtide}",
        f"({here.commit}). `python bench/tflm32/scratch.py SOURCES BUILD` makes this table; random layers, seed 0.",
        "",
        "| layer | instructions | asked | equal | more than nothing |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {names[str(row['function'])]} | {row['simd']} | {row['asked']:,} | {row['equal']:,} "
            f"| {row['above_0']:,} |"
        )
    output.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
