"""Prints docs/boards.md, made of the boards that are built in: `python tests/board_page.py > docs/boards.md`."""

from lowtide.allocate.banks.boards import Board, boards, other_names

ABOVE = """\
# Boards

The boards of `lowtide board` and `--board NAME`: what lies in each memory, and the public file that its sizes were
compared with (repository and path, or a page). Where a source says "not checked", no public file was found for that
size. The page is made of the code's own table (`python tests/board_page.py`), and a test holds both together.

A size is what buffers can lie in in one piece: the memory of the chip less what its ROM or its smallest cache always
takes, under the names of its manual. What is of the board or the module (`psram`, `ddr`) is said beside it; further RAM
that a board may have is not counted. Firmware, stack and heap take their share too: say what is left with
`--bank NAME=SIZE` beside `--board`, or in a file of your own (`lowtide board NAME > mine.toml`).

| board | also | memories, bytes, fastest first | what it is | compared with |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return ABOVE + "".join(_row(board) for board in boards().values())


def _row(board: Board) -> str:
    also = ", ".join(name for name, known in other_names().items() if known == board.name)
    banks = ", ".join(f"{bank.name} {bank.capacity:,}" for bank in board.banks)
    return f"| {board.name} | {also} | {banks} | {board.about} | {board.source} |\n"


if __name__ == "__main__":
    print(page(), end="")
