"""Plans as C: whether a model can be, and the project that runs a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.exports import planned_graph
from lowtide.api.models import files_read, load
from lowtide.arguments import typed
from lowtide.emit.layouts.layout import LAYOUTS, check_layout, laid_out
from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.graph import Graph
from lowtide.outputs import Outputs, output_folders
from lowtide.plan import Plan
from lowtide.sizes import NO_DIMS, Dims, Size, parse_size

if TYPE_CHECKING:
    from lowtide.emit.cmsis_nn.choice import Chosen
    from lowtide.emit.project import CodeSizes, Project

KERNELS, SIMD = ("c", "cmsis-nn"), ("any", "none", "dsp", "mve")
"""Whose kernels, and what CMSIS-NN is compiled for."""
TARGET = "loops"
"""What a plan is made for that becomes C, if nothing else is requested."""
HELD = "loops,count_inputs=false"
"""The same, with inputs read where the caller has them."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_MARK = re.compile(rb"(?:/\*|#)?\s*Made by lowtide; make it again")
"""Begins a line in the comment that each file of a project begins with."""
_MARK_LINES, _MARK_BYTES = 6, 4096  # of the beginning of a file, where that line is; a model's name may stand before it


@typed
def emit_c(
    plan: Plan,
    model: str | Path,
    folder: str | Path,
    name: str = "model",
    *,
    kernels: str = "c",
    simd: str = "any",
    budget: Size | None = None,
    layout: str = "cmake",
    test: str | None = None,
) -> CodeSizes:
    """Write C99 that runs a plan of a .tflite file: `model.c` and `.h`, the weights, a host program, CMake.

    Parameters
    ----------
    plan
        In one arena, for `model`, under target ``loops`` or another one without a runtime's own rules. Under
        ``loops,count_inputs=false`` the code reads inputs where the caller has them.
    folder
        Made if it is not there; what it has of other names stays, and files of a project that was written before
        are replaced.
    name
        What files, functions and macros begin with, instead of ``model``: several models link with a name each.
    kernels
        ``c``: lowtide's own. ``cmsis-nn``: layers are CMSIS-NN's functions, in stripes of rows; of the plan only the
        order counts then.
    simd, budget
        With ``cmsis-nn``: what the library will be compiled for (``any``, ``none``, ``dsp``, ``mve``), and bytes that
        the arena may have (None: the least arena that costs little time).
    layout
        Which files there are, and where: ``cmake``, ``arduino`` (a library), ``zephyr`` (a module) or ``espidf`` (a
        component).
    test
        ``qemu``, or ``qemu:m4,m55`` and so on: before it is written the code is compiled for boards that qemu
        emulates, and its results there are compared with TFLM's.

    Returns
    -------
    CodeSizes
        Bytes of the arena, of weights and of the schedule's counters, what a run does, and with `test` in ``boards``
        the stack, flash and instructions on each board.

    Raises
    ------
    InputError
        The plan is for another model, there is an operator, a type or a way of planning that C is not written for
        (`docs/emit.md`), a tool that `test` needs is not installed, or the folder has a file of one of the names that
        lowtide did not make; nothing is written then.
    VerificationError
        The plan does not hold: code would write where it must not; or a board computes something else.
    """
    from lowtide.api.emulating import boards_of, emulate
    from lowtide.api.problem import Rules
    from lowtide.verify.check.plan import verify_plan

    if kernels not in KERNELS or simd not in SIMD:
        raise InputError(f"kernels are {', '.join(KERNELS)}, and simd is {', '.join(SIMD)}; not {kernels!r}, {simd!r}")
    check_layout(layout, library=kernels != "c")
    check_own(folder, name, layout)
    boards = [] if test is None else boards_of(test, kernels, simd)
    graph = planned_graph(plan, model)
    verify_plan(graph, plan, Rules.of_plan(plan).resolve(graph.source), replay_bytes=False)
    if kernels == "c":
        code = project_of(plan, graph, name)
    else:
        most = None if budget is None else parse_size(budget, "budget")
        code, _ = library_project_of(graph, simd=simd, budget=most, order=plan.order, name=name)
    rows = emulate(code, graph, boards, name).rows() if boards else []
    texts = {Path(folder) / file: text for file, text in laid_out(code, layout, name).items()}
    with output_folders(folder, texts), Outputs(files_read(model)) as outputs:
        for path, text in texts.items():
            outputs.write(path, text.encode())
    return replace(code.sizes, boards=tuple(rows))


def project_of(plan: Plan, model: Graph | str | Path, name: str = "model") -> Project:
    """The texts of a project. Raises as `emit_c`."""
    from lowtide.emit.project import project

    graph = planned_graph(plan, model)
    return project(graph, plan, _bytes_of(graph), name)


def library_project_of(
    model: Graph | str | Path,
    *,
    simd: str = "any",
    budget: int | None = None,
    order: Sequence[int] | None = None,
    dims: Dims = NO_DIMS,
    name: str = "model",
) -> tuple[Project, Chosen]:
    """The texts of a project that calls CMSIS-NN, and the segments and rows that were chosen.

    `simd`: what CMSIS-NN will be compiled for, ``none``, ``dsp`` or ``mve``; ``any``: there is scratch for each of
    them. `budget`: bytes that the arena may have; None: the least arena that costs little time. `name`: as of `emit_c`.
    `order`: ops in turn, by id; None: the best order of untiled ops. Raises `InputError`: the model has an operator or
    a type that no kernel takes, or is of no .tflite file with one subgraph.
    """
    from lowtide.api.planning import plan
    from lowtide.emit.cmsis_nn.project import library_project
    from lowtide.emit.project import check

    graph = load(model, dims)
    check(graph, _bytes_of(graph))
    if order is None:
        order = plan(graph, target=TARGET, budget=budget).order
    return library_project(graph, _bytes_of(graph), order, simd, budget, name)


def check_emit(model: str | Path, dims: Dims = NO_DIMS) -> None:
    """See that C can be written for a model, before time is spent on planning it. Raises as `emit_c`."""
    from lowtide.emit.project import check

    if not str(model).lower().endswith(".tflite") and Path(model).is_file():
        raise InputError("C is written for .tflite files alone; convert the model to TFLite", str(model))
    graph = load(model, dims)
    check(graph, _bytes_of(graph))


def files_in(folder: str | Path, name: str = "model", layout: str = "cmake") -> list[Path]:
    """Files of a project in a layout. Raises `InputError`: the name is none that C has."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name in C; use letters, digits and underscores, a letter first")
    return [Path(folder) / file for file in LAYOUTS[layout].paths(name)]


def check_own(folder: str | Path, name: str = "model", layout: str = "cmake") -> None:
    """See that no file of another's would be replaced. Raises `InputError`: `folder` has a file of one of the
    project's names that does not begin as those that lowtide makes do."""
    for path in files_in(folder, name, layout):
        try:
            if not path.is_file():
                continue
            with open(path, "rb") as file:
                lines = file.read(_MARK_BYTES).splitlines()[:_MARK_LINES]
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"cannot see whether lowtide made it: {why}; name another folder", str(path)) from None
        if not any(map(_MARK.match, map(bytes.lstrip, lines))):
            raise InputError("lowtide did not make this file, and does not replace it; name another folder", str(path))


def _bytes_of(graph: Graph) -> bytes:
    """The file that a graph was read from; nothing if it is of none."""
    return read_all(Path(graph.source)) if graph.source and graph.file is not None else b""
