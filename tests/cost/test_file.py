"""Cost files: what is written is read again, and what is none is refused with one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.cost.file import GLUE, OTHER, CostEntry, CostFamily, CostFile, parse_cost, read_cost, stand_in
from lowtide.errors import InputError
from support.costs import costs


def _document() -> dict[str, Any]:
    entry = CostEntry(
        op="Conv", operands=[[1, 3, -1, -1], [8, 3, 3, 3], None], results=[[1, 8, 4, 4]],
        dtypes=["float32", "float32", ""], attributes={"group": 1, "kernel_shape": [3, 3]}, seconds=2e-5,
    )  # fmt: skip
    return json.loads(costs([entry]).to_json())


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """To the byte, with its hash."""
    file = parse_cost(json.dumps(_document()).encode())
    file.save(tmp_path / "cost.json")
    again, first = read_cost(tmp_path / "cost.json")
    assert again == file
    assert again.to_json() == (tmp_path / "cost.json").read_bytes()
    file.save(tmp_path / "other.json")
    assert read_cost(tmp_path / "other.json")[1] == first


def _changed(*path: str | int, value: Any) -> bytes:
    document: Any = _document()
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (_changed("entries", 0, "seconds", value=float("nan")), "not JSON"),
        (_changed("entries", 0, "seconds", value=-1e-6), ">= 0"),
        (_changed("entries", 0, "seconds", value="1e-6"), "Expected `float`"),
        (_changed("families", "join", "seconds_per_byte", value=-1.0), ">= 0"),
        (_changed("families", "join", "launch_seconds", value=float("inf")), "not JSON"),
        (_changed("threads", value=0), ">= 1"),
        (_changed("level", value="fast"), "level"),
        (_changed("trials", value=[{"predicted": -2.0, "measured": 0.1}]), "> -1"),
        (_changed("trials", value=[{"predicted": 0.1}]), "measured"),
        (_changed("bandwidth", value={"to_host": 1e-320, "from_host": 1e9}), "to_host.*; give to_host and from_host"),
        (_changed("bandwidth", value={"to_host": 1e9, "from_host": 2e18}), "from_host.*from 1 to 1e18"),
        (_changed("bandwidth", value={"to_host": "fast", "from_host": 1e9}), "to_host.*; give to_host and from_host"),
        (_changed("version", value=2), "version 2 is not known"),
        (_changed("families", value={}), "lack 'slice'"),
        (_changed("entries", 0, "nanoseconds", value=3), "unknown field"),
        (b"{}", "missing required field"),
        (b"[1, 2]", "not a cost file"),
        (b"\xff", "not JSON"),
        (b'{"device": ' + b"[" * 100_000, "not"),
    ],
)
def test_what_is_no_cost_file_is_refused(data: bytes, says: str) -> None:
    """Named with its place."""
    with pytest.raises(lowtide.InputError, match=says) as refused:
        parse_cost(data, "my.json")
    assert "my.json" in str(refused.value)


def test_the_stand_in_has_rates_alone() -> None:
    """Whoever measured nothing gets a time for everything, and no entry that could be taken for a measurement."""
    file, hash_of = stand_in()
    assert not file.entries
    assert {*GLUE, OTHER, "convolution", "convolution 1x1", "contraction", "pointwise"} <= set(file.families)
    assert all(family.seconds(1e6, 1e6) > 0 for family in file.families.values())
    assert len(hash_of) == 64


def test_seconds_of_a_family() -> None:
    """Launch, operations and bytes add up."""
    family = CostFamily(launch_seconds=1e-6, seconds_per_flop=1e-9, seconds_per_byte=2e-9)
    assert family.seconds(10, 100) == pytest.approx(1e-6 + 1e-8 + 2e-7)
    assert isinstance(costs([]), CostFile)
    overlapped = CostFamily(launch_seconds=1e-6, seconds_per_flop=1e-9, seconds_per_byte=2e-9, overlapped=True)
    assert overlapped.seconds(10, 100) == pytest.approx(1e-6 + 2e-7)
    assert overlapped.seconds(1000, 100) == pytest.approx(1e-6 + 1e-6)


def test_a_table_of_sizes_goes_before_the_rates() -> None:
    """Its first time below the smallest, a line of logarithms between, in proportion above the largest."""
    rates = CostFamily(launch_seconds=9.0, seconds_per_flop=9.0, seconds_per_byte=9.0)
    family = msgspec.structs.replace(rates, by_flops=[(10, 1e-6), (1000, 1e-5)])
    assert family.seconds(1, 0) == 1e-6
    assert family.seconds(100, 0) == pytest.approx(10**-5.5)
    assert family.seconds(5000, 0) == pytest.approx(5e-5)
    assert msgspec.structs.replace(rates, by_bytes=[(10, 1e-6), (1000, 1e-5)]).seconds(0, 100) == pytest.approx(
        10**-5.5
    )


@pytest.mark.parametrize("table", [[(10, 1e-6), (10, 2e-6)], [(0, 1e-6), (10, 2e-6)], [(1, 0), (10, 2e-6)]])
def test_a_table_has_to_rise(table: list[tuple[float, float]]) -> None:
    """From a size and a time above 0."""
    other = CostFamily(launch_seconds=0, seconds_per_flop=0, seconds_per_byte=0, by_flops=table)
    file = stand_in("rtx3090.json")[0]
    changed = msgspec.structs.replace(file, families={**file.families, "other": other})
    with pytest.raises(InputError, match="do not rise"):
        parse_cost(changed.to_json())


def test_the_roofline_of_steps_is_what_it_says() -> None:
    """35 TFLOP/s, 936 GB/s and 5 us a launch; taking a result out and another shape are free."""
    families = stand_in("rtx3090.json")[0].families
    assert families["other"].seconds(35e12, 0) == pytest.approx(1 + 5e-6, rel=1e-5)
    assert families["merge"].seconds(0, 936e9) == pytest.approx(1 + 5e-6, rel=1e-5)
    assert families["index_out"].seconds(1e9, 1e9) == families["reshape"].seconds(1e9, 1e9) == 0
