"""Sizes as people write them, and counts."""

import pytest

from lowtide.errors import InputError
from lowtide.graph import MAX_BYTES
from lowtide.sizes import UNITS, format_count, format_size, parse_gap, parse_size


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), (" 2 kb ", 2000), ("2KiB", 2048), ("1.5MiB", 3 << 19), ("64K", 65536), (7, 7)]
)
def test_sizes_are_read(text: str | int, size: int):
    """KB is 1000, KiB is 1024; capitals do not matter; whole bytes may come from fractions."""
    assert parse_size(text) == size


def test_parts_of_a_byte_are_dropped():
    """1.7 MiB is no whole number of bytes: a budget is never more than was said. Without a unit it is a slip."""
    assert parse_size("1.7MiB") == 1782579
    with pytest.raises(InputError):
        parse_size("1.7")


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_counts_bytes(unit: str):
    """Three of a unit are three times its bytes, whatever its case."""
    assert parse_size(f"3{unit}") == parse_size(f"3 {unit.lower()}") == 3 * UNITS[unit]


@pytest.mark.parametrize(
    "text",
    ["", "KiB", "-1", "0", "1.5", "1e3", "1 KiBs", "0x10", "1_000", "\N{ARABIC-INDIC DIGIT ONE}", True, "9" * 200],
)
def test_what_is_no_size_is_refused(text: str | bool):
    """In one line that says what was read and how to write it."""
    with pytest.raises(InputError, match=r"^budget is .*; write a positive number of bytes"):
        parse_size(text, "budget")


def test_the_largest_size():
    """2^62 bytes, so that sums fit."""
    assert parse_size(str(MAX_BYTES)) == MAX_BYTES
    with pytest.raises(InputError):
        parse_size(str(MAX_BYTES + 1))


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 5 << 20, 3 << 30, -2048])
def test_formatted_sizes_begin_with_the_exact_bytes(size: int):
    """The unit beside them is the largest that makes one or more."""
    text = format_size(size)
    assert text.startswith(f"{size:,} B")
    assert ("KiB" in text, "MiB" in text, "GiB" in text) == (
        1024 <= abs(size) < 1 << 20, 1 << 20 <= abs(size) < 1 << 30, abs(size) >= 1 << 30,
    )  # fmt: skip


def test_counts_have_their_plural():
    """Only one is singular."""
    assert [format_count(n, "op") for n in (0, 1, 2, 1234)] == ["0 ops", "1 op", "2 ops", "1,234 ops"]


@pytest.mark.parametrize(("text", "part"), [("3%", 0.03), ("0.03", 0.03), (" 12.5 % ", 0.125), (0, 0.0), (0.25, 0.25)])
def test_gaps_are_read(text: str | float, part: float):
    """Percent, or a part of one."""
    assert parse_gap(text) == part


@pytest.mark.parametrize("text", ["", "3 percent", "-1", "100%", "1", "nan", "1e-3", "%"])
def test_what_is_no_gap_is_refused(text: str):
    """It is a part of the peak, and not all of it."""
    with pytest.raises(InputError, match=r"as in 3% or 0\.03"):
        parse_gap(text)
