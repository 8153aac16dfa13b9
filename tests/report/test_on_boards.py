"""Tables of boards: what is left, and why something does not fit."""

from __future__ import annotations

from lowtide.report.on_boards import C_LIBRARY, OWN_C, REFERENCE, SHOWN, BoardFit, BoardWay, one_board, several_boards

SMALL = BoardWay(OWN_C, 900, 2000, True, "sram", 100, 48, None)
TIMED = BoardWay(C_LIBRARY, 800, 1500, True, "sram", 200, 548, 0.0125)
LARGE = BoardWay(REFERENCE, 1200, 1000, False, "", -200, 1048, None)
CROWDED = BoardWay(C_LIBRARY, 800, 4096, False, "sram", 200, -2048, None)


def board(name: str, *ways: BoardWay) -> BoardFit:
    """One of 1,000 bytes."""
    return BoardFit(name, 1000, 2048, 64, ways)


def test_one_board_says_what_is_left_and_what_is_too_little() -> None:
    """RAM before flash; the time where there is one."""
    lines = one_board("m.tflite", board("b", LARGE, SMALL, TIMED)).splitlines()
    assert lines[0] == "m.tflite on b, 64 MHz"
    assert lines[2].endswith("too little RAM")
    assert lines[3].split()[-2:] == ["fits", "sram"]
    assert "12.5 ms" in lines[4]
    assert "flash" in one_board("m.tflite", board("b", CROWDED)).splitlines()[2]
    assert "Time" not in one_board("m.tflite", board("b", SMALL))


def test_several_boards_are_rows_and_those_that_hold_nothing_are_counted() -> None:
    """Ten rows; all of them where each is wanted."""
    fits = [board(f"b{k}", LARGE, SMALL, TIMED) for k in range(SHOWN + 2)]
    fits.append(board("none", LARGE, CROWDED))
    screen = several_boards("m.tflite", fits)
    assert screen.splitlines()[2].split() == ["b0", "1,000", "-", "100", "200", "12.5", "ms"]
    assert f"boards that it fits, of {SHOWN + 3}: TFLM 0, C {SHOWN + 2}, C + CMSIS-NN {SHOWN + 2}" in screen
    assert "3 more boards: -v" in screen
    every = several_boards("m.tflite", fits, every=True)
    assert every.splitlines()[SHOWN + 4].split() == ["none", "1,000", "-", "flash"]
    assert "more boards" not in every
