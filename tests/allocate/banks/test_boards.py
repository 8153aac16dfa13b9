from pathlib import Path

import pytest

from lowtide.allocate.banks.bank import Bank
from lowtide.allocate.banks.boards import Board, boards, find_board, to_toml
from lowtide.errors import InputError


def test_every_board_says_where_its_sizes_are_from():
    """A source, a line about it, and memories of at least 4 KiB; no name twice."""
    known = boards()
    assert {"stm32h743", "esp32s3", "nrf52840", "rp2040", "nano33ble", "imxrt1062", "corstone300"} <= set(known)
    for name, board in known.items():
        assert board.name == name
        assert board.source
        assert board.about
        assert all(bank.capacity >= 4096 for bank in board.banks)


def test_the_memories_of_one_board():
    """Fastest first, in bytes."""
    h743 = find_board("stm32h743")
    assert [(b.name, b.capacity) for b in h743.banks] == [
        ("dtcm", 131072), ("axi", 524288), ("d2", 294912), ("d3", 65536),
    ]  # fmt: skip


@pytest.mark.parametrize("name", list(boards()))
def test_a_board_printed_is_read_back(tmp_path: Path, name: str):
    """All but its name, which is the file's."""
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(find_board(name)))
    read = find_board(path)
    assert (read.banks, read.about, read.source) == (boards()[name].banks, boards()[name].about, boards()[name].source)


def test_texts_are_quoted(tmp_path: Path):
    """Quotes, backslashes and control characters in a text survive."""
    board = Board("b", (Bank('a"\\', 10),), 'say "hi"\n', "\x1b\u2028")
    path = tmp_path / "b.toml"
    path.write_text(to_toml(board), encoding="utf-8")
    assert find_board(path) == board


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a board needs memories"),
        ("bank = []", "a board needs memories"),
        ("bank = 3", "a board needs memories"),
        ("bank = [1]", "a memory has name, size and perhaps alignment"),
        ('bank = [{ name = "a" }]', "a memory has name, size and perhaps alignment"),
        ('bank = [{ name = "a", size = 4, speed = 1 }]', "a memory has name, size and perhaps alignment"),
        ('bank = [{ name = "a", size = "4 parsec" }]', "size of a is '4 parsec'"),
        ('bank = [{ name = "a", size = 0 }]', "size of a is '0'"),
        ('bank = [{ name = "a", size = 4.5 }]', "size a text or a number"),
        ("bank = [{ name = 4, size = 4 }]", "name must be a text"),
        ('bank = [{ name = "a", size = 4 }, { name = "a", size = 8 }]', "two memories are named a"),
        ('bank = [{ name = "a=b", size = 4 }]', "is no name for a memory"),
        ('bank = [{ name = "", size = 4 }]', "is no name for a memory"),
        ('bank = [{ name = "a", size = 4, alignment = 3 }]', "alignment is 3"),
        ('speed = 1\nbank = [{ name = "a", size = 4 }]', "unknown key 'speed'"),
        ('about = 1\nbank = [{ name = "a", size = 4 }]', "about must be a text"),
        ("bank = [", "not a TOML file"),
    ],
)
def test_a_bad_board_file_is_named(tmp_path: Path, text: str, message: str):
    """The file and the remedy, in one line."""
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        find_board(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_unknown_boards_and_unreadable_files(tmp_path: Path):
    """The boards there are stand in the message."""
    with pytest.raises(InputError, match="there is no board 'pdp11'; use stm32h743"):
        find_board("pdp11")
    with pytest.raises(InputError, match="cannot read the board"):
        find_board(tmp_path / "none.toml")
