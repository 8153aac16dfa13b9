"""Whether a .tflite model fits boards, under TFLM today, under TFLM as planned and as C; what is left, and the time.

    model  ->  ways to run it, each with its RAM and flash  ->  of each board the memory that holds them

The arena is in one memory of a board. Stack, heap and the application are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lowtide.allocate.banks.bank import Bank
from lowtide.allocate.banks.boards import Board, boards, find_board
from lowtide.api.default.predicted import plan_predicted
from lowtide.api.default.request import NO_PROGRESS, Request, Tell, finished
from lowtide.api.models import load
from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.read.tflite.model import TfliteFile
from lowtide.report.on_boards import C_LIBRARY, LIBRARY, OWN_C, PLANNED, REFERENCE, BoardFit, BoardWay
from lowtide.runtimes.registry import runtime_of
from lowtide.sizes import NO_DIMS, Dims
from lowtide.target import resolve

CODE_BYTES = {
    REFERENCE: (52_284, 0), LIBRARY: (87_300, 0), PLANNED: (87_300, 0), OWN_C: (2_400, 750), C_LIBRARY: (22_000, 600),
}  # fmt: skip
"""Code and tables by arm-none-eabi-gcc -O2: bytes, and bytes for each op. TFLM's are the most of seven models; those of
C are above what it has of eight (MLPerf Tiny's, person_detect, MobileNetV2 0.35, DTLN, okay_nabu), of the least arena
(`packages/research/results/mcu.md`). A test compiles other models and compares."""
_EXTERNAL = ("psram", "ddr")
"""Memories outside of the chip: the last to be taken, and not for what is timed."""


@typed
def board_fits(
    model: str | Path,
    board: str | Path | None = None,
    *,
    slower: str | float | None = None,
    dims: Dims = NO_DIMS,
    only: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> list[BoardFit]:
    """Find the boards that a .tflite model fits: under TFLM today, under TFLM as planned, and as C.

    Parameters
    ----------
    board
        A board's name or TOML file; None: each one that lowtide knows, the smallest that it fits first.
    slower, dims, only, without
        Of the plan for TFLM, as of `lowtide.plan`.

    Raises
    ------
    InputError
        The model is no .tflite file, or an argument is wrong.
    """
    budget = None if board is None else on_chip(find_board(board))
    return fits_of(Request.of(model, budget, slower, None, dims, only, without), board)


def fits_of(
    request: Request, board: str | Path | None = None, tell: Tell = NO_PROGRESS, planned: Plan | None = None
) -> list[BoardFit]:
    """What `board_fits` finds; `planned`: the plan for TFLM where it was made."""
    check_request(request)
    ways = _Ways.of(request.with_sizes(), tell, planned)
    if board is not None:
        return [_fit(find_board(board), ways)]
    found = [_fit(each, ways) for each in boards().values()]
    return sorted(found, key=lambda fit: (not fit.fits, fit.ram_bytes, fit.board))


def check_request(request: Request) -> None:
    """See that boards can run the model. Raises `InputError`."""
    rules = resolve(request.target_name, source=request.path)
    if not request.path.lower().endswith(".tflite") or rules.rule != "tflm":
        raise InputError(
            "boards run .tflite files, under TFLM or as C; convert the model, or give --budget SIZE, "
            "for example --budget 500MB",
            request.path,
        )


def on_chip(board: Board) -> int:
    """Bytes of the largest memory on the chip."""
    return max((bank.capacity for bank in board.banks if bank.name not in _EXTERNAL), default=0)


@dataclass(frozen=True)
class _Needs:
    """What a way takes: RAM, constants in flash, ops, and instructions where they can be estimated."""

    how: str
    ram_bytes: int
    constant_bytes: int
    ops: int
    instructions: float | None = None


@dataclass(frozen=True)
class _Ways:
    """The ways to run a model.

    Attributes
    ----------
    planned
        Its plan for TFLM.
    as_c
        What C takes; None: there is none.
    with_library
        The same with CMSIS-NN for given instructions: arena, and instructions in stripes and of untiled layers.
    """

    graph: Graph
    planned: Plan
    as_c: _Needs | None
    with_library: Callable[[str], tuple[_Needs, float] | None]

    @classmethod
    def of(cls, request: Request, tell: Tell, planned: Plan | None) -> _Ways:
        """For a model."""
        graph = load(request.path, request.dims)
        planned = planned or finished(plan_predicted(request, tell))

        @cache
        def with_library(simd: str) -> tuple[_Needs, float] | None:
            from lowtide.api.emitting import library_project_of

            tell(f"planning it as C with CMSIS-NN ({simd})")
            try:
                project, chosen = library_project_of(graph, simd=simd)
            except InputError:
                return None
            sizes = project.sizes
            ram = sizes.arena_bytes + sizes.other_static_bytes
            estimated = None if simd == "none" else chosen.cost
            return _Needs(C_LIBRARY, ram, sizes.weight_bytes, sizes.ops, estimated), chosen.untiled_cost

        return cls(graph, planned, _as_c(request, graph, tell), with_library)

    def on(self, board: Board) -> Iterator[_Needs]:
        """What each way takes on a board."""
        file = self.graph.file
        assert isinstance(file, TfliteFile), self.graph.source
        build = f",simd={board.simd}" if board.simd and board.simd != "dsp" else ""
        pointer, library = f"tflm,pointer={board.pointer}", board.library
        c = self.with_library(board.simd) if library == "cmsis_nn" else None
        untiled = c[1] if c is not None and c[0].instructions is not None else None
        ops = len(self.graph.ops)
        yield _Needs(REFERENCE, self._today(f"{pointer},kernels=reference"), file.size_bytes, ops)
        if library:
            yield _Needs(LIBRARY, self._today(f"{pointer},kernels={library}{build}"), file.size_bytes, ops, untiled)
        parts, same = self.planned.runtime_parts, self.planned.rewrites is None
        beyond = 0 if parts is None else parts.beyond.get(f"{library}{build}", 0)
        ram = max(self.planned.required_bytes, beyond)
        yield _Needs(PLANNED, ram, file.size_bytes, ops, untiled if same else None)
        if self.as_c is not None:
            yield self.as_c
        if c is not None:
            yield c[0]

    def _today(self, target: str) -> int:
        """TFLM's arena for the file as it is."""
        required = runtime_of(resolve(target)).of_unmodified(self.graph)
        assert required is not None, self.graph.source
        return required.required_bytes


def _as_c(request: Request, graph: Graph, tell: Tell) -> _Needs | None:
    """C with lowtide's own kernels; None: it is not written for the model."""
    from lowtide.api.emitting import TARGET, check_emit, project_of
    from lowtide.api.planning import plan

    try:
        check_emit(request.path, request.dims)
        tell("planning it as C")
        made = finished(plan(graph, target=TARGET, allow="row-streaming", time=request.seconds))
        sizes = project_of(made, graph).sizes
    except InputError:
        return None
    return _Needs(OWN_C, sizes.arena_bytes + sizes.other_static_bytes, sizes.weight_bytes, sizes.ops)


def code_bytes(how: str, ops: int) -> int:
    """Code and tables of a way to run a model of so many ops.

    >>> code_bytes(OWN_C, 4)
    5400
    """
    fixed, for_each = CODE_BYTES[how]
    return fixed + for_each * ops


def _fit(board: Board, ways: _Ways) -> BoardFit:
    """The ways on a board."""
    return BoardFit(
        board.name, on_chip(board), board.flash, board.clock, tuple(_way(board, needs) for needs in ways.on(board))
    )


def _way(board: Board, needs: _Needs) -> BoardWay:
    """A way, in the fastest memory on the chip that holds it, else in one outside."""
    banks: Sequence[Bank] = sorted(board.banks, key=lambda bank: bank.name in _EXTERNAL)
    flash = needs.constant_bytes + code_bytes(needs.how, needs.ops)
    holds = next((bank for bank in banks if bank.capacity >= needs.ram_bytes), None)
    largest = max(banks, key=lambda bank: bank.capacity) if holds is None else holds
    flash_left = board.flash - flash if board.flash else None
    timed = holds is not None and holds.name not in _EXTERNAL and board.clock and needs.instructions is not None
    return BoardWay(
        needs.how,
        needs.ram_bytes,
        flash,
        holds is not None and (flash_left is None or flash_left >= 0),
        "" if holds is None else holds.name,
        largest.capacity - needs.ram_bytes,
        flash_left,
        needs.instructions / (1e6 * board.clock) if timed and needs.instructions is not None else None,
    )
