"""Cost files: what is written is read again, and what is none is refused with one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.cost.file import GLUE, OTHER, CostEntry, CostFamily, CostFile, parse_cost, read_cost, stand_in
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
