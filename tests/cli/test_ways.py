"""The ladder as text: at the end of `plan` and `check` over budget, and in the JSON of `check`."""

import json

import pytest

from lowtide.api import WayToFit
from lowtide.cli.ways import ways_text
from support.command import run
from support.onnx_builder import constant, model, node, saved, value


def _conv(folder):
    weights = [
        constant(f"w{i}", [0.1] * (9 * m * c), (m, c, 3, 3)) for i, (m, c) in enumerate(((8, 1), (8, 8), (1, 8)))
    ]
    nodes = [
        node("Conv", f"{a} w{i}", b, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        for i, (a, b) in enumerate((("x", "a"), ("a", "b"), ("b", "z")))
    ]
    return saved(model(nodes, [value("x", (1, 1, 32, 32))], [value("z", (1, 1, 32, 32))], weights), folder)


def test_each_rung_is_a_row_and_a_command():
    """What fits is marked, what was cut short says so, what was not searched has no figure."""
    ways = [
        WayToFit("untiled", 65536, fits=False, costs="", command="lowtide research plan m --budget 65536"),
        WayToFit("cuts", 40000, True, "9 ops run", "lowtide research plan m --allow tile", within_seconds=3),
        WayToFit("slow", None, fits=False, costs="", command="lowtide research plan m --memory fast=9"),
    ]
    assert ways_text(ways).splitlines() == [
        "what would fit:",
        "untiled  65,536 B",
        "  lowtide research plan m --budget 65536",
        "cuts     40,000 B      fits  9 ops run; found within 3 s",
        "  lowtide research plan m --allow tile",
        "slow     not searched",
        "  lowtide research plan m --memory fast=9",
    ]
    assert ways_text([]) == ""


@pytest.mark.slow
def test_plan_and_check_end_with_it_where_a_budget_is_exceeded(tmp_path, capsys):
    """On stdout of `plan`, on stderr of `check`, whose one line stays one; in its JSON the rungs are objects."""
    path = _conv(tmp_path)
    status, out, _ = run(capsys, "research", "plan", path, "--budget", "48KiB")
    assert status == 4
    assert "impossible without tiling" in out
    assert f"lowtide research plan {path} --budget 49152 --allow tile" in out.split("what would fit:")[1]
    status, out, err = run(capsys, "check", path, "--budget", "48KiB")
    assert (status, out.count("\n")) == (4, 1)
    assert "lowtide: what would fit:" in err
    status, out, _ = run(capsys, "check", path, "--budget", "48KiB", "--json")
    ways = json.loads(out)["ways_to_fit"]
    assert {"how", "required_bytes", "fits", "costs", "command", "within_seconds"} == set(ways[0])
    assert "tiles" in [way["how"] for way in ways if way["fits"]]


def test_it_is_absent_where_the_model_fits(tmp_path, capsys):
    """And where nothing was asked for."""
    path = _conv(tmp_path)
    for budget in (["--budget", "64KiB"], []):
        status, out, _ = run(capsys, "research", "plan", path, *budget)
        assert (status, "what would fit" in out) == (0, False)


@pytest.mark.parametrize("command", [["check"], ["research", "plan"]])
def test_after_an_interrupted_ladder_the_status_is_130(tmp_path, capsys, monkeypatch, command):
    """What was found before is printed, without rungs."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("lowtide.api.ways_to_fit", interrupted)
    status, out, err = run(capsys, *command, _conv(tmp_path), "--budget", "48KiB")
    assert status == 130
    assert "impossible" in out or "cannot fit" in out
    assert "what would fit" not in out + err
