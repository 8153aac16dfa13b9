"""Prints the table of boards of docs/memories.md: `python tests/board_page.py`."""

from lowtide.allocate.banks.boards import Board, boards, other_names

HEADER = """\
| board | also | memories, bytes, fastest first | clock, MHz | flash, bytes | what it is | compared with |
|---|---|---|---|---|---|---|
"""


def table() -> str:
    """The table, a row for each board."""
    return HEADER + "".join(_row(board) for board in boards().values())


def _row(board: Board) -> str:
    also = ", ".join(name for name, known in other_names().items() if known == board.name)
    banks = ", ".join(f"{bank.name} {bank.capacity:,}" for bank in board.banks)
    clock, flash = board.clock or "", f"{board.flash:,}" if board.flash else ""
    return f"| {board.name} | {also} | {banks} | {clock} | {flash} | {board.about} | {board.source} |\n"


if __name__ == "__main__":
    print(table(), end="")
