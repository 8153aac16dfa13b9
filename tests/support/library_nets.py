"""Emitted code that calls CMSIS-NN, compiled for this machine: with the library, or with plain loops in its place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import lowtide
from lowtide.emit.templates import text
from support.emit_nets import FLAGS, compiler

PLAIN = Path(__file__).parent / "cmsis_nn"
SOURCES = os.environ.get("LOWTIDE_CMSIS_NN", "")
"""CMSIS-NN's folder, with Include and Source."""
LIBRARY = ("-DARM_NN_ENABLE_F16=0", "-DARM_NN_ENABLE_F32=0")
_SOFTMAX = """
void arm_softmax_s8(const int8_t *input, const int32_t rows, const int32_t depth, const int32_t multiplier,
                    const int32_t shift, const int32_t least, int8_t *output)
{
    softmax_t k = {{0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0}, depth, multiplier, shift, least};
    for (int32_t row = 0; row < rows; row++) {
        softmax_row(&k, &input[row * depth], &output[row * depth]);
    }
}
"""


@cache
def plain_softmax() -> Path:
    """A file of C with lowtide's softmax under the library's name."""
    head = "#include <arm_nnfunctions.h>\n#include <stddef.h>\n#define MODEL_SINGLE_ROUNDING 0\n"
    memory = "static int8_t memory[1];\nstatic int8_t *bytes_at(int32_t place)\n{\n    return &memory[place];\n}\n"
    parts = [text(f"{name}.c") for name in ("base", "fixed", "scaled", "softmax_type", "softmax")]
    path = Path(mkdtemp()) / "softmax.c"
    path.write_text("".join([head, memory, *parts, _SOFTMAX]))
    return path


@cache
def library_archive() -> Path:
    """CMSIS-NN, compiled."""
    folder = Path(mkdtemp())
    files = [p for p in sorted(Path(SOURCES).glob("Source/**/*.c")) if not p.stem.endswith(("_f16", "_f32", "_flt"))]
    words = [compiler() or "cc", "-O1", "-w", *LIBRARY, f"-I{SOURCES}/Include", f"-I{SOURCES}", "-c", *map(str, files)]
    subprocess.run(words, cwd=folder, check=True)
    subprocess.run(["ar", "rcs", "cmsis.a", *(f"{p.stem}.o" for p in files)], cwd=folder, check=True)
    return folder / "cmsis.a"


def compiled_with(folder: Path, flags: Sequence[str], *, library: bool) -> Path:
    """The host program of a project, whose own warnings are errors."""
    program = folder / "host"
    kernels = (
        [str(library_archive())] if library else [str(PLAIN / "plain.c"), str(PLAIN / "wide.c"), str(plain_softmax())]
    )
    headers = f"{SOURCES}/Include" if library else str(PLAIN)
    more = LIBRARY if library else ("-Wno-unused-function",)
    words = [compiler() or "cc", *FLAGS, *flags, *more, "-isystem", headers]
    done = subprocess.run(
        [*words, "model.c", "model_weights.c", "main.c", *kernels, "-o", str(program)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:2000]
    return program


def written_with(model: Path, folder: Path, simd: str, budget: int | None) -> int:
    """A model's C that calls the library, and the bytes of its arena."""
    plan = lowtide.research.plan(model, target="loops", time=5)
    sizes = lowtide.emit_c(plan, model, folder, kernels="cmsis-nn", simd=simd, budget=budget)  # type: ignore[arg-type]
    return sizes.arena_bytes
