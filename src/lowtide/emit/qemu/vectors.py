"""Programs that run an emitted model on test vectors: inputs drawn with a seed, and what is expected of each."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lowtide.emit.project import Project, named
from lowtide.emit.qemu.boards import Bench, Board, Run, board_files
from lowtide.emit.qemu.library import library_folder, library_sources, library_words
from lowtide.errors import InputError, install_command
from lowtide.graph import Graph
from lowtide.read.tflite.model import TfliteFile
from lowtide.run.tflite import tflm_vectors
from lowtide.run.tflite_process import draw

INPUTS, SEED = 3, 0
"""Runs on each board, and what their inputs are drawn with."""


@dataclass(frozen=True)
class Vectors:
    """Inputs and expected outputs of runs, one after the other; `source` says what computed the outputs."""

    inputs: bytes
    outputs: bytes
    source: str
    count: int = INPUTS

    def write(self, folder: Path) -> Path:
        """A file of C that has them as arrays."""
        lines = ["#include <stdint.h>", f"const uint32_t vector_count = {self.count};"]
        for name, data in (("vector_inputs", self.inputs), ("vector_outputs", self.outputs)):
            (folder / f"{name}.bin").write_bytes(data)
            lines.append(included(name, f"{name}.bin"))
        source = folder / "vectors.c"
        source.write_text("\n".join([*lines, ""]))
        return source


def included(name: str, file: str) -> str:
    """A file in the folder where the compiler runs, as an array in C."""
    lines = f""".section .rodata.{name},"a"
.global {name}
.balign 16
{name}: .incbin "{file}"
.previous
"""
    quoted = lines.replace('"', '\\"').replace("\n", "\\n")
    return f'__asm__("{quoted}");'


def tflm_vectors_of(model: Path) -> Vectors | str:
    """Those of TFLM's package; or why there are none."""
    found = tflm_vectors(model, SEED, INPUTS)
    return found if isinstance(found, str) else Vectors(*found, "TFLM (the package tflite-micro)")


def host_vectors(graph: Graph, project: Project, folder: Path) -> Vectors:
    """Those of a project's own program on this machine. Raises `InputError`: there is no compiler for it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise InputError(
            "--test qemu: nothing here computes what is expected; install the package tflite-micro "
            f"(`{install_command('tflite')}`) or a C compiler (`apt install gcc`)"
        )
    assert isinstance(graph.file, TfliteFile)
    tensors = [graph.tensor_by_id[t] for t in graph.file.model.subgraphs[0].inputs]
    rng = np.random.default_rng(SEED)
    runs = [draw(rng, t.dtype, t.shape or ()) for _ in range(INPUTS) for t in tensors]
    folder.mkdir()
    sources = write_project(project, folder)
    (folder / "in.bin").write_bytes(b"".join(value.tobytes() for value in runs))
    program = folder / "host"
    words = [compiler, "-std=c99", "-O1", *map(str, sources), str(folder / "main.c"), "-lm", "-o", str(program)]
    for command in (words, [str(program), str(folder / "in.bin"), str(folder / "out.bin")]):
        subprocess.run(command, check=True, capture_output=True)
    source = "lowtide's own kernels on this machine"
    return Vectors((folder / "in.bin").read_bytes(), (folder / "out.bin").read_bytes(), source)


def write_project(project: Project, folder: Path) -> list[Path]:
    """Write a project's files; those of C that are no program."""
    for name, text in project.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in project.files if name.endswith(".c") and name != "main.c"]


def needs_library(project: Project) -> bool:
    """Whether the code calls functions of a C library."""
    return any("#include <math.h>" in text or "arm_nnfunctions.h" in text for text in project.files.values())


def project_sources(project: Project, name: str, folder: Path) -> tuple[list[Path], list[str]]:
    """Sources of the program that runs a project on test vectors, written to a folder, and flags of the compiler."""
    folder.mkdir()
    sources = write_project(project, folder)
    test = named({"test.c": board_files()["test.c"].replace("@CALL@", project.call)}, name)["test.c"]
    (folder / "test.c").write_text(test)
    return [folder / "test.c", *sources], [f"-I{folder}"]


def run_on(board: Board, project: Project, name: str, vectors: Vectors, folder: Path) -> Run:
    """Compile a project for a board, and run it there. `name`: what the project's files and functions begin with.
    `folder`: for what is made. Raises `InputError`: the board has too little memory, or CMSIS-NN is not there. Raises
    `VerificationError`: the program does not end."""
    bench = Bench(board, folder / board.name, needs_library(project))
    sources, words = project_sources(project, name, bench.folder / "emitted")
    archives = []
    if any("arm_nnfunctions.h" in text for text in project.files.values()):
        library = library_folder()
        words += library_words(library)
        needed = library_sources(library, list(project.files.values()))
        archives = [bench.archive("cmsis_nn", needed, ["-std=gnu11", "-w", *words])]
    data = vectors.write(bench.folder)
    program = bench.program("model", [*sources, data], words, archives)
    return bench.run(program, bench.program("nothing", [bench.folder / "nothing.c", data]))
