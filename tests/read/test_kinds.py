"""Kinds of model files: what is read by which ending, and what is said of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowtide.errors import InputError
from lowtide.read import read_model


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("m.foo", "x", ".hlo or .hlo.txt (scheduled HLO), or .json (a fused graph of Inductor's)"),
        ("m.txt", "HloModule m", "HLO text is known by .hlo.txt: rename it"),
        ("m.hlo.txt", "HloModule m, is_scheduled=true\n", "no ENTRY"),
        ("m.json", '{"nodes": 3}', "not a graph of Inductor's: Expected `array`, got `int` - at `$.nodes`; take it"),
        ("m.json", '{"nodes": [], "buffers"', "not JSON"),
    ],
)
def test_what_no_reader_takes(tmp_path: Path, name: str, text: str, says: str) -> None:
    """One line with the file and the mend."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_model(file)
    assert says in str(caught.value)
    assert str(caught.value).startswith(str(file))


def test_a_placement_problem_is_no_graph(tmp_path: Path) -> None:
    """The command that places it is named."""
    entry = {"id": 0, "size": 8, "allowed_pools": [0], "live_intervals": [{"lower": 0, "upper": 1}]}
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"schema_version": 1, "problem": {"buffers": [entry]}}))
    with pytest.raises(InputError, match="place its buffers with lowtide research allocate"):
        read_model(file)
