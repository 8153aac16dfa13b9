"""What emitted C took on boards that qemu emulates, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.emit.qemu.boards import BOARDS, Run
from lowtide.emit.qemu.vectors import SEED
from lowtide.report.columns import columns


def board_runs_text(
    runs: Sequence[Run], tflm: Mapping[str, int | None], expected: str, inputs: int, *, rounds: bool
) -> str:
    """A table with a row for each board, and what its columns mean.

    Parameters
    ----------
    tflm
        Bytes of TFLM's arena by board; None where they are not known.
    expected, inputs
        What computed the expected results, and of how many inputs.
    rounds
        Whether results depend on the board's C library.
    """
    rows = [("board", "arena", "TFLM's arena", "stack", "flash", "instructions", "equal")]
    for run in runs:
        arena = tflm[run.board]
        equal = f"{inputs - run.wrong} of {inputs}"
        rows.append(
            (
                BOARDS[run.board].title, f"{run.arena_bytes:,}", "not known" if arena is None else f"{arena:,}",
                f"{run.stack_bytes:,}", f"{run.flash_bytes:,}", f"{run.instructions:,}", equal,
            )
        )  # fmt: skip
    lines = [
        columns(rows, right=range(1, 7)),
        f"bytes; equal: results of {inputs} random inputs (seed {SEED}) that are those of {expected}, byte by byte",
        "arena: with counters and kept state; stack: the most that a run used; flash: code and constants of the model; "
        "instructions: of the last run, in qemu, which are no cycles",
        "TFLM's arena: kTensorArenaSize of a 32-bit build with the same library, predicted; its instructions need a "
        "built TFLM (packages/research/bench/mcu)",
    ]
    if rounds and any(run.wrong for run in runs):
        lines.append("math.h of the board's C library computes a part of the results: their last bits may differ")
    return "\n".join(lines)
