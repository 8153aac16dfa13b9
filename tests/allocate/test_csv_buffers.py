from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.allocate.arena import allocate_buffers
from lowtide.allocate.buffers import Buffer, Problem, Rectangle, block
from lowtide.allocate.csv_buffers import format_buffers, parse_buffers, read_buffers
from lowtide.errors import InputError
from support.small_problems import random_buffers

HEADER = "id,lower,upper,size,alignment,offset,gaps"


def test_the_plain_columns() -> None:
    """Lifetimes are half-open and buffers keep the order of the file."""
    assert parse_buffers("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n") == (
        block("b1", 0, 3, 4),
        block("b2", 3, 9, 4),
    )


def test_columns_in_any_order_and_under_other_names() -> None:
    """minimalloc's aliases: buffer_id, start; `end` is the last step, so upper is one more; no hint."""
    text = "size,buffer_id,end,start,hint\n4,x,2,0,-1\n"
    assert parse_buffers(text) == (block("x", 0, 3, 4),)


def test_alignment_offset_and_gaps() -> None:
    """A gap splits the lifetime; one with a window leaves those bytes; -1 is a free offset."""
    text = f"{HEADER}\na,0,9,16,8,24,2-4 5-6@4:8\nb,1,2,3,1,-1,\n"
    a = Buffer(
        "a", 16, (Rectangle(0, 2, 0, 16), Rectangle(4, 5, 0, 16), Rectangle(5, 6, 4, 4), Rectangle(6, 9, 0, 16)), 8, 24
    )
    assert parse_buffers(text) == (a, block("b", 1, 2, 3))
    assert format_buffers((a,)) == f"{HEADER}\na,0,9,16,8,24,2-4 5-6@4:8\n"


def test_gaps_end_inclusively_where_lifetimes_do() -> None:
    """With `end` instead of `upper`, gap 2-3 covers steps 2 and 3."""
    [a] = parse_buffers("id,lower,end,size,gaps\na,0,8,4,2-3\n")
    assert a.rectangles == (Rectangle(0, 2, 0, 4), Rectangle(4, 9, 0, 4))


def test_reading_stops_at_an_empty_line() -> None:
    """What follows the first empty line is not read; line ends may be CRLF."""
    assert len(parse_buffers("id,lower,upper,size\r\na,0,1,4\r\n\r\nnot a row\r\n")) == 1


def test_written_with_offsets() -> None:
    """The offsets of an allocation go into the offset column; reading them back fixes the buffers there."""
    buffers = (block("a", 0, 2, 4), block("b", 1, 3, 2))
    offsets = allocate_buffers(Problem(buffers)).offsets
    text = format_buffers(buffers, offsets)
    assert text == "id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,2,4\n"
    again = allocate_buffers(Problem(parse_buffers(text)))
    assert again.offsets == offsets


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_round_trip(seed: int, n: int) -> None:
    """Buffers written and read back are the same, and the text written from those is the same."""
    buffers = random_buffers(seed, n, 12, 9, (1, 2, 4) if seed % 2 else (1,))
    text = format_buffers(buffers)
    assert parse_buffers(text) == buffers
    assert format_buffers(parse_buffers(text)) == text


def test_zero_bytes_round_trip() -> None:
    """A buffer of no bytes takes no room, whatever its lifetime."""
    [empty] = parse_buffers("id,lower,upper,size\na,3,5,0\n")
    assert empty == block("a", 0, 1, 0)
    assert parse_buffers(format_buffers((empty,))) == (empty,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: unknown column"),
        ("id,lower,size\n", r"line 1: column missing: upper \(or end, but not both\)"),
        ("id,lower,upper,end,size\n", "line 1: column missing: upper"),
        ("lower,upper,size\n", "line 1: column missing: id"),
        ("id,lower,upper,size,size\n", "line 1: column size is given twice"),
        ("id,lower,upper,size,colour\n", "line 1: unknown column 'colour'"),
        ("id,lower,upper,size\na,0,1\n", "line 2: 3 fields where the header has 4"),
        ("id,lower,upper,size\na,0,1,4\nb,0,x,4\n", "line 3: upper is 'x'; it must be a whole number"),
        ("id,lower,upper,size\na,0,1,-4\n", "line 2: size is '-4'; it must be a whole number of at least 0"),
        ("id,lower,upper,size\na,0,1,1.5\n", "line 2: size is '1.5'"),
        ("id,lower,upper,size\na,0,1,9999999999999999999\n", "line 2: size is .* at most 2\\^62"),
        ("id,lower,upper,size\na,0,1,4611686018427387904\nb,0,1,1\n", "line 2: .* more than 2\\^62"),
        ("id,lower,upper,size\na,3,3,4\n", "line 2: lower 3 is not below upper 3"),
        ("id,lower,upper,size\na,0,1,4\na,0,1,4\n", "line 3: id a is used twice"),
        ("id,lower,upper,size\n,0,1,4\n", "line 2: the id is empty"),
        (f"{HEADER}\na,0,9,4,0,,\n", "line 2: alignment is '0'"),
        (f"{HEADER}\na,0,9,4,4,6,\n", "line 2: offset 6 is no multiple of the alignment 4"),
        (f"{HEADER}\na,0,9,4,1,-2,\n", "line 2: offset is '-2'"),
        (f"{HEADER}\na,0,9,4,,,3\n", "line 2: gap '3' is not lo-hi"),
        (f"{HEADER}\na,0,9,4,,,5-4\n", "line 2: gap 5-4 is empty"),
        (f"{HEADER}\na,0,9,4,,,8-10\n", "line 2: gap 8-10 is .* outside the lifetime"),
        (f"{HEADER}\na,0,9,4,,,4-6 5-7\n", "line 2: gap 5-7 is .* not after the gap before"),
        (f"{HEADER}\na,0,9,4,,,4-6@2:5\n", "line 2: the window of gap 4-6@2:5"),
        (f"{HEADER}\na,0,9,4,,,0-9\n", "line 2: the gaps leave nothing"),
    ],
)
def test_bad_files_are_refused_with_file_and_line(text: str, message: str) -> None:
    """The message is one line that begins with the file and the line in it."""
    with pytest.raises(InputError, match=f"^b.csv, {message}") as caught:
        parse_buffers(text, "b.csv")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a directory and bytes that are no text are refused by name."""
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x80")
    for name in ("missing.csv", ".", "binary.csv"):
        with pytest.raises(InputError, match=r"cannot read|not a text file"):
            read_buffers(tmp_path / name)
    (tmp_path / "good.csv").write_bytes(b"\xef\xbb\xbfid,lower,upper,size\na,0,1,4\n")
    assert read_buffers(tmp_path / "good.csv") == (block("a", 0, 1, 4),)


def test_names_that_csv_cannot_hold() -> None:
    """A comma or a line break in a name cannot be written without quoting."""
    for name in ("a,b", "a\nb", " a", ""):
        with pytest.raises(InputError, match="a CSV cannot hold the name"):
            format_buffers((block(name, 0, 1, 4),))
