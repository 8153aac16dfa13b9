from dataclasses import replace
from pathlib import Path

import pytest

from board_page import table
from lowtide.allocate.banks.bank import Bank
from lowtide.allocate.banks.boards import Board, boards, find_board, other_names, to_toml
from lowtide.errors import InputError
from lowtide.names import spelling


def test_every_board_says_where_its_sizes_are_from():
    """A source, a line about it, and memories of at least 4 KiB; no name twice."""
    known = boards()
    assert {"stm32h743", "esp32s3", "nrf52840", "rp2040", "nano33ble", "imxrt1062", "corstone300"} <= set(known)
    for name, board in known.items():
        assert board.name == name
        assert board.source
        assert board.about
        assert all(bank.capacity >= 4096 for bank in board.banks)


@pytest.mark.slow
def test_the_page_of_boards_is_the_table_of_the_code():
    """docs/memories.md ends with the names, bytes and sources that `boards.toml` has."""
    path = Path(__file__).parents[3] / "docs/memories.md"
    assert path.read_text(encoding="utf-8").endswith("\n\n" + table()), "python tests/board_page.py"


def test_an_arena_lies_in_one_piece():
    """Where ROM lies amid a chip's SRAM, each side is a memory of its own; a cache is no memory of data."""
    sizes = {name: [(b.name, b.capacity) for b in board.banks] for name, board in boards().items()}
    assert sizes["esp32"] == [("sram2", 196_608), ("sram1", 98_768)]
    assert sizes["esp32s3"] == [("sram", 415_504), ("sram2", 32_768), ("psram", 8_388_608)]
    assert sizes["mcxn947"] == [("sram", 425_984), ("sramx", 98_304)]
    assert sizes["stm32n657"] == [("dtcm", 131_072), ("axisram", 2_097_152), ("npu", 1_835_008)]


def test_there_are_31_boards_or_more_of_many_makers():
    """The makers that people ask for are among them."""
    known = boards()
    assert len(known) >= 31
    starts = "stm32f stm32l stm32u stm32h esp32c esp32p nrf5 rp2350 imxrt max78 ra8"
    for start in starts.split():
        assert any(name.startswith(start) for name in known), start


def test_no_two_names_are_spelled_alike():
    """A spelling stands for one board; other names are of boards that there are."""
    names = [*boards(), *other_names()]
    assert len({spelling(name) for name in names}) == len(names)
    assert set(other_names().values()) <= set(boards())


@pytest.mark.parametrize("typed", ["esp32s3", "esp32-s3", "ESP32S3", "ESP32 S3", "Esp32_S3", "ESP32-S3-EYE"])
def test_spellings_are_forgiven(typed: str):
    """Case, blanks and punctuation do not count, and another name of the part is as good."""
    assert find_board(typed).name == "esp32s3"


def test_a_name_of_punctuation_is_no_board():
    """Nothing is left of it, and that is nobody's name."""
    for typed in ("", "-", " _ "):
        with pytest.raises(InputError, match="there is no board"):
            find_board(typed)


def test_bits_of_a_pointer(tmp_path: Path):
    """32 unless the board says otherwise; nothing but 32 and 64."""
    assert {name for name, board in boards().items() if board.pointer != 32} == {"k210"}
    path = tmp_path / "b.toml"
    path.write_text('pointer = 64\nbank = [{ name = "a", size = 4 }]')
    assert find_board(path).pointer == 64
    for wrong in ("16", "true", '"32"'):
        path.write_text(f'pointer = {wrong}\nbank = [{{ name = "a", size = 4 }}]')
        with pytest.raises(InputError, match="it has 32 bits or 64"):
            find_board(path)


def test_the_memories_of_one_board():
    """Fastest first, in bytes."""
    h743 = find_board("stm32h743")
    assert [(b.name, b.capacity) for b in h743.banks] == [
        ("dtcm", 131072), ("axi", 524288), ("d2", 294912), ("d3", 65536),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(boards()))
def test_a_board_printed_is_read_back(tmp_path: Path, name: str):
    """All but its name, which is the file's."""
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(find_board(name)))
    read = find_board(path)
    assert replace(read, name=name) == boards()[name]


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
    """The message says where the names are, or which one is like it."""
    with pytest.raises(InputError, match="there is no board 'pdp11'; `lowtide research board` lists them; a file"):
        find_board("pdp11")
    with pytest.raises(InputError, match=r"there is no board 'esp32-s33'; did you mean .*esp32s3"):
        find_board("esp32-s33")
    with pytest.raises(InputError, match="cannot read the board"):
        find_board(tmp_path / "none.toml")
