"""One model at several sizes: the rows are the plans, and a line is claimed only where it goes through all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lowtide
from lowtide.api.size_table import plan_sizes
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.report.size_table import size_table_text
from support.onnx_builder import model, node, saved, value


def _model(folder: Path) -> Path:
    nodes = [node("Relu", "x", "a"), node("Concat", "a x", "b", axis=0), node("MatMul", "b v", "y")]
    inputs = [value("x", ("n", 4)), value("v", (4, "m"))]
    return saved(model(nodes, inputs, [value("y", ("k", "m"))]), folder)


def test_each_row_is_the_plan_of_its_sizes(tmp_path: Path) -> None:
    """And peaks without rounding are linear in one size."""
    path = _model(tmp_path)
    table = plan_sizes(path, {"n": (1, 2, 5)}, dims={"m": 7}, target="strict")
    for row, n in zip(table.rows, (1, 2, 5), strict=True):
        made = lowtide.research.plan(path, dims={"n": n, "m": 7}, target="strict")
        assert (row.peak_bytes, row.arena_bytes, row.optimal) == (made.peak_bytes, made.arena_bytes, made.optimal)
        slope, rest = table.linear["peak_bytes"]
        assert row.peak_bytes == slope * n + rest


def test_no_line_is_claimed_through_two_points_or_in_two_sizes(tmp_path: Path) -> None:
    """Nor where the sizes are on no line."""
    path = _model(tmp_path)
    assert plan_sizes(path, {"n": (1, 2)}, dims={"m": 7}).linear == {}
    both = plan_sizes(path, {"n": (1, 2), "m": (1, 2)})
    assert ([dict(row.dims) for row in both.rows], both.linear) == (
        [{"n": 1, "m": 1}, {"n": 1, "m": 2}, {"n": 2, "m": 1}, {"n": 2, "m": 2}], {}
    )  # fmt: skip
    crossing = saved(
        model([node("Relu", "x", "y"), node("Relu", "v", "z")], [value("x", ("n",)), value("v", (4,))],
              [value("y", ("n",)), value("z", (4,))]), tmp_path, "c.onnx")  # fmt: skip
    table = plan_sizes(crossing, {"n": (1, 2, 90)}, target="strict")
    assert "peak_bytes" not in table.linear, table.rows


def test_the_command_prints_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As text with its line, and as JSON."""
    path = str(_model(tmp_path))
    assert main(["research", "plan", path, "--dim", "n=1,2,5", "--dim", "m=7", "--target", "strict", "-q"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1].split() == ["n", "file", "order", "peak", "bound", "arena", "required"]
    assert "peak = 88 * n + 112 B at each of these sizes" in text
    assert "the order is the same at all sizes" in text
    assert main(["research", "plan", path, "--dim", "n=1,2", "--shape", "v=4x7", "--json"]) == 0
    assert [row["dims"] for row in json.loads(capsys.readouterr().out)["rows"]] == [{"n": 1}, {"n": 2}]


def test_a_budget_makes_the_status_of_the_worst_row(tmp_path: Path) -> None:
    """What is proved impossible comes first."""
    path = _model(tmp_path)
    table = plan_sizes(path, {"n": (1, 50)}, dims={"m": 7}, target="strict", budget=200)
    assert [row.status for row in table.rows] == ["ok", "impossible"]
    assert table.exit_status == 4


def test_an_order_that_differs_is_named(tmp_path: Path) -> None:
    """One branch shrinks with n, the other does not."""
    nodes = [node("Relu", "x", "a"), node("ReduceSum", "a", "s", keepdims=0), node("Relu", "v", "b"),
             node("ReduceSum", "b", "t", keepdims=0), node("Add", "s t", "y")]  # fmt: skip
    path = saved(model(nodes, [value("x", ("n",)), value("v", (64,))], [value("y", ())]), tmp_path)
    table = plan_sizes(path, {"n": (1, 500)}, target="strict")
    text = size_table_text(table)
    assert ("another order" in text) == any(not row.same_order for row in table.rows)


@pytest.mark.parametrize(
    ("sizes", "dims"), [({"n": ()}, {"m": 1}), ({"n": (2, 2)}, {"m": 1}), ({"n": (1, 2)}, {"n": 1, "m": 1}), ({}, {})]
)
def test_sizes_that_say_nothing_are_refused(sizes: dict, dims: dict, tmp_path: Path) -> None:
    """None at all, one twice, or two words on one dimension."""
    with pytest.raises(InputError):
        plan_sizes(_model(tmp_path), sizes, dims=dims)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "--dim", "n=1,2"],
        ["research", "plan", "--dim", "n=1,2", "-o", "o.onnx"],
        ["research", "plan", "--dim", "n=1,"],
        ["research", "plan", "--shape", "x=1xa"],
        ["research", "plan", "--shape", "x=4", "--shape", "x=5"],
        ["research", "plan", "--dim", "n=1,2", "--dim", "n=1,3"],
    ],
)
def test_what_cannot_be_is_one_line(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files are for one size, lists for the command `plan`, and shapes are numbers."""
    assert main([*arguments, str(_model(tmp_path))]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
