"""Compares lowtide's rules for CMSIS-NN's scratch with the library's compiled C, on random layers.

    python bench/tflm32/scratch.py SOURCES BUILD -o results/cmsis-nn-scratch

needs CMSIS-NN in SOURCES/third/cmsis_nn and a C compiler, and nothing of TFLM; see README.md.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowtide.graph import Kind, Tensor
from lowtide.ops.index import Window, same_padding
from lowtide.rules.tflm import cmsis_nn
from lowtide.rules.tflm.cmsis_nn import Simd
from lowtide.rules.tflm.kernels import KernelWindow
from lowtide_research.bench.pages import about, document, say, script, table, write

HERE = Path(__file__).parent
SIMDS: tuple[Simd, ...] = ("none", "dsp", "mve")
COMMIT = "99f736a"


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


NAMES = {
    "conv": "CONV_2D int8", "conv16": "CONV_2D int16", "deep": "DEPTHWISE_CONV_2D int8",
    "deep4": "DEPTHWISE_CONV_2D int4 filters", "pool": "AVERAGE_POOL_2D int8", "pool16": "AVERAGE_POOL_2D int16",
    "rows": "FULLY_CONNECTED int8", "svdf": "SVDF int8", "turned": "TRANSPOSE_CONV int8",
}  # fmt: skip
HEAD = ("layer", "instructions", "asked", "equal", "more than nothing")


def arguments(doc: str | None) -> argparse.Namespace:
    """Sources, a folder for what is built, how many layers, and an output."""
    parser = script(doc)
    parser.add_argument("sources", type=Path)
    parser.add_argument("build", type=Path)
    parser.add_argument("--count", type=int, default=30000, help="random layers per function")
    return parser.parse_args()


def counted(name: str, kind: str, said: list[tuple[int, ...]], answers: list[tuple[int, ...]]) -> tuple[Any, ...]:
    """A row: how many answers of the library are what the rules say; the first that differ are printed."""
    pairs = list(zip(said, answers, strict=True))
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    for ours, theirs in wrong[:3]:
        say(f"{name} {kind}: the rules say {ours}, the library {theirs}")
    return (name, kind, len(pairs), len(pairs) - len(wrong), sum(any(theirs) for _, theirs in pairs))


def main() -> int:
    """Build the program, ask it, compare; exit with 1 if any answer differs."""
    given = arguments(__doc__)
    library, program = given.sources / "third/cmsis_nn", given.build / "buffer_sizes"
    files = [str(p) for p in library.rglob("*get_buffer_sizes_s*.c")]
    flags = ["-O1", "-w", f"-I{library}", f"-I{library / 'Include'}"]
    subprocess.run(["gcc", *flags, str(HERE / "buffer_sizes.c"), *files, "-o", str(program)], check=True)
    draw, rows = random.Random(0), list[tuple[Any, ...]]()
    for kind, name in NAMES.items():
        asked = questions(kind, draw, given.count)
        lines = "".join(f"{kind} {SIMDS.index(simd)} {words}\n" for words, simd, _ in asked)
        done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
        answers = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        for k, simd in enumerate(SIMDS):  # in turn
            rows.append(counted(name, simd, [said for _, _, said in asked[k::3]], answers[k::3]))
    if given.out is not None:
        results = document(cmsis_nn=COMMIT, rows=rows)
        write(given.out, results, [
            "# CMSIS-NN's scratch: rules against its compiled C", "",
            f"CMSIS-NN {COMMIT}, `*_get_buffer_size` compiled on the host; {about(results['machine'])}.",
            "`python bench/tflm32/scratch.py SOURCES BUILD` makes this table; random layers, seed 0.", "",
            *table(HEAD, rows),
        ])  # fmt: skip
    return int(any(row[2] != row[3] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
