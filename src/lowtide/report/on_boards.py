"""Whether a model fits boards, as a table: of one board its ways to run it, of several a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.report.columns import columns

REFERENCE, LIBRARY, PLANNED = "TFLM, reference kernels", "TFLM + the board's library", "TFLM, planned"
OWN_C, C_LIBRARY = "C", "C + CMSIS-NN"
WAYS = (REFERENCE, LIBRARY, PLANNED, OWN_C, C_LIBRARY)
"""Ways to run a model, those that change least first."""
SHOWN = 10  # rows of a screen
_HEADS = {REFERENCE: "TFLM", LIBRARY: "its kernels", PLANNED: "planned"}
_NOTE = (
    "RAM: the arena, in one memory of the board; stack, heap and the application come on top. Flash: about, with code."
)
_WAYS = "TFLM: reference kernels; its kernels: TFLM with the library for the board's processor; C: `lowtide emit`."
_TIME = "Time: predicted, from estimated instructions at one a cycle."


@dataclass(frozen=True)
class BoardWay:
    """A way to run a model on a board.

    Attributes
    ----------
    how
        One of `WAYS`.
    ram_bytes, flash_bytes
        Arena, counters and state; the model's file or the weights, and about as much code as was measured.
    fits
        Whether a memory holds the former, and the flash the latter where its size is known.
    memory
        The fastest memory that holds `ram_bytes`; empty: none does.
    ram_left_bytes, flash_left_bytes
        Of that memory, or too few of the largest one where negative; None: the board's flash is not known.
    seconds
        Of a run, predicted: estimated instructions at one for each cycle. None: not known of these kernels.
    """

    how: str
    ram_bytes: int
    flash_bytes: int
    fits: bool
    memory: str
    ram_left_bytes: int
    flash_left_bytes: int | None
    seconds: float | None


@dataclass(frozen=True)
class BoardFit:
    """The ways to run a model on a board; `ram_bytes`: its largest memory on the chip; `clock`: MHz, 0: not known."""

    board: str
    ram_bytes: int
    flash_bytes: int
    clock: int
    ways: tuple[BoardWay, ...]

    @property
    def fits(self) -> bool:
        """Whether some way fits."""
        return any(way.fits for way in self.ways)

    @property
    def first(self) -> BoardWay | None:
        """Of the ways that fit, the one that changes least."""
        return next((way for way in self.ways if way.fits), None)


def one_board(model: str, fit: BoardFit) -> str:
    """The ways to run a model on a board: what they take, and what is left."""
    rows: list[tuple[str, ...]] = [("", "RAM", "left", "flash", "left", "a run", "")]
    for way in fit.ways:
        flash = "" if way.flash_left_bytes is None else f"{way.flash_left_bytes:,} B"
        where = f"fits {way.memory}" if way.fits else "too little flash" if way.memory else "too little RAM"
        taken = f"{way.ram_bytes:,} B", f"{way.ram_left_bytes:,} B", f"{way.flash_bytes:,} B", flash
        rows.append((way.how, *taken, _time(way), where))
    clock = f", {fit.clock} MHz" if fit.clock else ""
    lines = [f"{model} on {fit.board}{clock}", columns(rows, right=[1, 2, 3, 4, 5]), _NOTE]
    return "\n".join([*lines, *([_TIME] if any(way.seconds for way in fit.ways) else [])])


def several_boards(model: str, fits: Sequence[BoardFit], *, every: bool = False) -> str:
    """Bytes of RAM that are left on each board, by the way that the model runs; `every`: also beyond `SHOWN` rows."""
    shown = [fit for fit in fits if fit.fits]
    known = [how for how in WAYS if any(way.how == how for fit in fits for way in fit.ways)]
    listed = fits if every else shown[:SHOWN]
    rows: list[tuple[str, ...]] = [("board", "RAM", *(_HEADS.get(how, how) for how in known), "a run")]
    for fit in listed:
        ways = {way.how: way for way in fit.ways}
        timed = [_time(way) for way in fit.ways if way.seconds is not None and way.fits]
        cells = (_left(ways.get(how)) for how in known)
        rows.append((fit.board, f"{fit.ram_bytes:,}", *cells, timed[-1] if timed else ""))
    head = f"{model}: bytes of RAM left on a board, the smallest that it fits first"
    lines = [head, columns(rows, right=range(1, len(known) + 3))]
    counts = [f"{_HEADS.get(how, how)} {sum(w.fits for f in fits for w in f.ways if w.how == how)}" for how in known]
    lines.append(f"boards that it fits, of {len(fits)}: {', '.join(counts)}")
    if len(listed) < len(fits):
        lines.append(f"{len(fits) - len(listed)} more boards: -v; one in detail: --board NAME")
    return "\n".join([*lines, _WAYS, _NOTE, _TIME])


def _left(way: BoardWay | None) -> str:
    """A cell: bytes left, or why it does not fit."""
    if way is None:
        return ""
    if way.fits:
        return f"{way.ram_left_bytes:,}"
    return "flash" if way.memory else "-"


def _time(way: BoardWay) -> str:
    if way.seconds is None:
        return ""
    return f"{way.seconds:.3g} s" if way.seconds >= 1 else f"{1000 * way.seconds:.3g} ms"
