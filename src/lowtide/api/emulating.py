"""Emitted C on boards that qemu emulates: what it takes there, and whether it computes what is expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lowtide.errors import InputError, VerificationError
from lowtide.files import read_all
from lowtide.graph import Graph

if TYPE_CHECKING:
    from lowtide.emit.project import Project
    from lowtide.emit.qemu.boards import Board, Run
    from lowtide.emit.qemu.vectors import Vectors

_SIMD = {"any": ("m4", "m7", "m55", "rv32"), "dsp": ("m4", "m7"), "mve": ("m55",), "none": ("rv32",)}
"""Boards where CMSIS-NN is compiled for these instructions."""


@dataclass(frozen=True)
class Emulation:
    """What runs on boards took.

    Attributes
    ----------
    runs
        Of each board.
    tflm_arena_bytes
        By board the arena that TFLM takes there, with its reference kernels or with CMSIS-NN as the code; None where
        that is not known. Predicted for the file, for a build of 32 bits.
    expected
        What computed the results that are expected.
    inputs
        How many were drawn.
    rounds
        Whether functions of a C library compute a part of the results, so that their last bits are the library's.
    """

    runs: tuple[Run, ...]
    tflm_arena_bytes: dict[str, int | None]
    expected: str
    inputs: int
    rounds: bool

    def rows(self) -> list[dict[str, Any]]:
        """For JSON: a row for each board."""
        return [
            {
                "board": run.board, "arena_bytes": run.arena_bytes, "stack_bytes": run.stack_bytes,
                "flash_bytes": run.flash_bytes, "instructions": run.instructions, "inputs": self.inputs,
                "wrong": run.wrong, "expected": self.expected, "tflm_arena_bytes": self.tflm_arena_bytes[run.board],
            }
            for run in self.runs
        ]  # fmt: skip


def boards_of(given: str, kernels: str, simd: str) -> list[Board]:
    """The boards of ``qemu`` or ``qemu:m4,m55``, whose tools are installed.

    Raises
    ------
    InputError
        A name is none of a board, the code is not for it, or a tool or CMSIS-NN's sources are not there.
    """
    from lowtide.emit.qemu.boards import BOARDS
    from lowtide.emit.qemu.library import library_folder

    what, colon, names = given.partition(":")
    able = _SIMD[simd] if kernels == "cmsis-nn" else tuple(BOARDS)
    chosen = names.split(",") if colon else list(able)
    unknown = [name for name in chosen if name not in BOARDS]
    if what != "qemu" or unknown:
        raise InputError(f"--test {given[:80]}: tests are `qemu` and `qemu:BOARD,...` with boards {', '.join(BOARDS)}")
    unable = [name for name in chosen if name not in able]
    if unable:
        raise InputError(f"--test {given}: --simd {simd} is not for {', '.join(unable)}; it is for {', '.join(able)}")
    if kernels == "cmsis-nn":
        library_folder()
    for name in dict.fromkeys(chosen):
        BOARDS[name].check(library=kernels == "cmsis-nn")
    return [BOARDS[name] for name in dict.fromkeys(chosen)]


def emulate(
    project: Project,
    graph: Graph,
    boards: Sequence[Board],
    name: str = "model",
    tell: Callable[[str], None] = lambda _: None,
) -> Emulation:
    """Run a project on boards, and compare its results with TFLM's, or else with those of lowtide's kernels here.

    Parameters
    ----------
    graph
        Of the .tflite file of which the project is.
    boards
        As `boards_of` gives them.
    name
        What the project's files and functions begin with.
    tell
        Called with what is done next.

    Raises
    ------
    InputError
        A board has too little memory, or lacks a C library that the code needs.
    VerificationError
        ``qemu``: a board computes something else, or does not come to an end.
    """
    from lowtide.emit.qemu.vectors import needs_library, run_on

    library = needs_library(project)
    for board in boards:
        board.check(library=library)
    with TemporaryDirectory(prefix="lowtide-") as folder:
        vectors = _vectors(project, graph, Path(folder), tell)
        runs = []
        for board in boards:
            tell(f"compiling for and running on {board.title} in qemu")
            runs.append(run_on(board, project, name, vectors, Path(folder)))
    calls = any("arm_nnfunctions.h" in text for text in project.files.values())
    arenas = {board.name: _board_arena(graph, board, library=calls) for board in boards}
    rounds = any("#include <math.h>" in text for text in project.files.values())
    result = Emulation(tuple(runs), arenas, vectors.source, vectors.count, rounds)
    if not rounds:
        _check(result, boards)
    return result


def _vectors(project: Project, graph: Graph, folder: Path, tell: Callable[[str], None]) -> Vectors:
    """Inputs, and what is expected of them."""
    from lowtide.api.planning import plan
    from lowtide.emit.project import project as project_of
    from lowtide.emit.qemu.vectors import host_vectors, tflm_vectors_of

    found = tflm_vectors_of(Path(graph.source))
    if not isinstance(found, str):
        return found
    tell(f"no results of TFLM to compare with: {found}; lowtide's own kernels on this machine give them")
    calls = any("arm_nnfunctions.h" in text for text in project.files.values())
    own = project_of(graph, plan(graph, target="loops"), read_all(Path(graph.source))) if calls else project
    return host_vectors(graph, own, folder / "host")


def any_tflm_arena(graph: Graph) -> int | None:
    """The arena that TFLM takes for the file whichever kernels run, on 32 bits; None: not known."""
    return _tflm_arena(graph, "tflm,pointer=32")


def _board_arena(graph: Graph, board: Board, *, library: bool) -> int | None:
    """The arena that TFLM takes on a board for the file, with CMSIS-NN or else with reference kernels."""
    kernels = f"cmsis_nn,simd={board.simd}" if library else "reference"
    return _tflm_arena(graph, f"tflm,kernels={kernels},pointer=32,interpreter=plain,enums={board.enums}")


def _tflm_arena(graph: Graph, target: str) -> int | None:
    from lowtide.runtimes.tflm.arena import Tflm
    from lowtide.target import resolve

    try:
        required = Tflm(resolve(target)).of_unmodified(graph)
    except InputError:
        return None
    return None if required is None or required.parts.unknown else required.required_bytes


def _check(result: Emulation, boards: Sequence[Board]) -> None:
    titles = {board.name: board.title for board in boards}
    for run in result.runs:
        if run.first is not None:
            number, byte, got, wanted = run.first
            raise VerificationError(
                "qemu",
                f"{titles[run.board]}: {run.wrong} of {result.inputs} results are not those of {result.expected}; "
                f"the first in run {number}, byte {byte}: {got} instead of {wanted}",
            )
