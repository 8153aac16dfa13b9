"""`--memory` on the command line: plans with moves, what is refused, exit statuses, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lowtide.cli import main
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.write.graph_json import graph_json_bytes
from support.spill_plans import skip_graph

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A graph of four ops whose best plan in 10 bytes moves 8."""
    path = tmp_path / "skip.graph.json"
    path.write_bytes(graph_json_bytes(skip_graph()))
    return str(path)


def run(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    try:
        status = main([str(a) for a in arguments])
    except SystemExit as error:
        status = int(error.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def test_the_table_shows_the_moves_and_the_proof(capsys: Captured, model: str):
    """Traffic, its bound, and a row for each move."""
    status, out, _ = run(capsys, "research", "plan", model, "--target", "strict", "--memory", "fast=10")
    assert status == 0
    for part in ("8 B in 2 moves", "no order has less", "spill", "fill", "host"):
        assert part in out


def test_plan_file_commands_and_verify(capsys: Captured, tmp_path: Path, model: str):
    """The plan holds when read back; the commands are text, or JSON by their name."""
    plan, text, rows = tmp_path / "p.json", tmp_path / "c.txt", tmp_path / "c.json"
    base = ("research", "plan", model, "--target", "strict", "--memory", "fast=10", "-q")
    assert run(capsys, *base, "--plan", plan, "--commands", text)[0] == 0
    assert run(capsys, *base, "--commands", rows)[0] == 0
    made: dict[str, Any] = json.loads(plan.read_text())
    assert (made["traffic_bytes"], made["traffic_lower_bound_bytes"], made["method"]) == (8, 8, "spill")
    assert {m["from"] for m in made["moves"]} == {"fast", "host"}
    assert len(json.loads(rows.read_text())) == len(text.read_text().splitlines())
    status, out, _ = run(capsys, "verify", model, plan)
    assert status == 0
    assert "whatever is read is there" in out
    assert "--prove does" in out
    assert "re-proved" in run(capsys, "verify", model, plan, "--prove")[1]
    made["moves"] = []
    plan.write_text(json.dumps(made))
    assert run(capsys, "verify", model, plan)[0] == 5


def test_a_capacity_below_the_largest_op_names_it(capsys: Captured, model: str, tmp_path: Path):
    """Exit status 4; there is a plan file, which says why, and nothing for a driver."""
    plan, text = tmp_path / "p.json", tmp_path / "c.txt"
    call = ("research", "plan", model, "--target", "strict", "--memory", "fast=9", "--plan", plan, "--commands", text)
    status, _, err = run(capsys, *call)
    assert status == 4
    assert "B alone needs 10 B; fast has 9 B" in err
    assert f"wrote {plan}" in err
    assert not text.exists()
    assert str(text) not in err


def test_require_optimal_asks_for_the_traffic(capsys: Captured, model: str):
    """0 where it is proved, 6 for a method that proves nothing."""
    base = ("research", "plan", model, "--target", "strict", "--memory", "fast=10", "--require-optimal", "-q")
    assert run(capsys, *base)[0] == 0
    assert run(capsys, *base, "--method", "belady")[0] == 6


def test_compare_runs_the_methods_that_spill(capsys: Captured, model: str):
    """A row each with its traffic; ours is optimal."""
    base = (
        "research", "compare", model, "--target", "strict", "--memory", "fast=10", "--methods",
        "spill,belady,greedy-spill",
    )  # fmt: skip
    status, out, _ = run(capsys, *base, "--json", "-q")
    rows = {row["method"]: row for row in json.loads(out)}
    assert status == 0
    assert list(rows) == ["spill", "belady", "greedy-spill"]
    assert rows["spill"]["optimal"]
    assert all(row["traffic_bytes"] >= 8 == rows["spill"]["traffic_lower_bound_bytes"] for row in rows.values())
    assert "traffic bound" in run(capsys, *base, "-q")[1]


WRONG = {
    "NAME=SIZE": ("--memory", "fast"),
    "named twice": ("--memory", "fast=10", "--memory", "fast=12"),
    "called 'host'": ("--memory", "host=10"),
    "positive number": ("--memory", "fast=0"),
    "leave out --budget": ("--memory", "fast=10", "--budget", "20"),
    "name the memories": ("--moves", "write_once=false"),
    "no option 'twice'": ("--memory", "fast=10", "--moves", "twice=1"),
    "a smaller moves.lead": ("--memory", "fast=10", "--target", "strict", "--moves", "lead=1"),
    "rematerialise, bandwidth, flops": ("--memory", "fast=10", "--moves", "lag=1"),
    "true or false": ("--memory", "fast=10", "--moves", "parameters=perhaps"),
    "not NAME=VALUE": ("--memory", "fast=10", "--moves", "lead"),
    "with --memory there is no method": ("--memory", "fast=10", "--method", "rpo"),
    "moves.bandwidth": ("--memory", "fast=10", "--moves", "flops=1e9"),
    "one arena": ("--memory", "fast=10", "--target", "tflm"),
    "no one place": ("--memory", "fast=10", "--target", "strict", "--header", "c.txt"),
    "commands are for": ("--commands", "c.txt"),
}


@pytest.mark.parametrize("part", WRONG)
def test_what_is_wrong_is_reported_in_one_line(
    capsys: Captured, model: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Exit status 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "research", "plan", model, *WRONG[part], "-q")
    assert (status, out) == (2, "")
    assert part in err
    assert not (tmp_path / "c.txt").exists()


@pytest.mark.parametrize(
    ("sizes", "constant", "more"),
    [((1, 1, 1), 0, ()), ((64, 64, 64), 64, ("--moves", "parameters=true"))],
)
def test_the_plan_of_an_op_that_is_too_large_holds(
    capsys: Captured, tmp_path: Path, sizes: tuple[int, ...], constant: int, more: tuple[str, ...]
):
    """Too large once sizes are rounded up to 64, or once constants are counted: exit 4, and `verify` agrees."""
    kinds = (Kind.INPUT, Kind.ACTIVATION, Kind.OUTPUT)
    tensors = [Tensor(i, size, kind) for i, (size, kind) in enumerate(zip(sizes, kinds, strict=True))]
    tensors += [Tensor(3, constant, Kind.CONSTANT)] if constant else []
    ops = (Op(0, (0, 3) if constant else (0,), (1,), type="Conv"), Op(1, (1,), (2,), type="Conv"))
    path, plan = tmp_path / "g.graph.json", tmp_path / "p.json"
    path.write_bytes(graph_json_bytes(Graph("g", tuple(tensors), ops)))
    fast = ("--memory", f"fast={128 if constant else 64}")
    status, out, err = run(capsys, "research", "plan", path, *fast, *more, "--plan", plan)
    assert status == 4
    assert "impossible without tiling" in out
    assert f"op 0 (Conv) alone needs {192 if constant else 128} B" in err
    status, out, _ = run(capsys, "verify", path, plan)
    assert status == 0
    assert "impossible" in out
    made: dict[str, Any] = json.loads(plan.read_text())
    made["conflict"] = None
    plan.write_text(json.dumps(made))
    assert run(capsys, "verify", path, plan)[0] == (0 if made["lower_bound_bytes"] > made["budget_bytes"] else 5)


def test_compare_says_that_no_order_spills(capsys: Captured, model: str):
    """A fast memory below the largest op: no row has figures of another problem."""
    call = (
        "research", "compare", model, "--target", "strict", "--memory", "fast=9", "--methods", "spill,belady",
        "--json",
    )  # fmt: skip
    status, out, _ = run(capsys, *call)
    assert status == 0
    rows = json.loads(out)
    assert [row["status"] for row in rows] == ["unsupported", "unsupported"]
    assert "alone needs 10 B; fast has 9 B" in rows[0]["reason"]
    assert all(row["peak_bytes"] is None and not row["optimal"] for row in rows)


def test_compare_says_that_a_lead_leaves_no_room(capsys: Captured, model: str):
    """What comes in ahead of an op does not fit beside it: the row says so, and is no error."""
    call = ("research", "compare", model, "--target", "strict", "--memory", "fast=10", "--moves", "lead=1", "--json")
    status, out, _ = run(capsys, *call, "--methods", "spill,belady")
    assert status == 0
    ours, other = json.loads(out)
    assert [row["status"] for row in (ours, other)] == ["unsupported", "unsupported"]
    assert "with what comes in moves.lead=1 ahead fits the 10 B of fast" in ours["reason"]
    assert "traffic_bytes" not in ours


def test_an_interrupted_placement_in_memories_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best so far, whether it fits or not, a line that says so, status 130."""
    from lowtide.allocate.banks import memories, places

    path = tmp_path / "b.csv"
    path.write_text("id,lower,upper,size\na,0,2,8\nb,1,3,4\n")
    for offsets, used, fits, words in (
        ((0, 0), (8, 4), True, "4 B in slow memory, at least 0 B"),
        ((0, 0), (8, 20), False, "b 20 B of 9 B, excess 11 B; interrupted before it was known whether they fit"),
    ):
        made = memories.BankPlacement((0, 1), offsets, used, 4, 0, fits, False, interrupted=True)
        monkeypatch.setattr(places, "place_in_banks", lambda *_, made=made: made)
        assert main(["research", "allocate", str(path), "--bank", "a=8", "--bank", "b=9"]) == 130
        said = capsys.readouterr()
        assert "b,1,3,4,0,b" in said.out
        assert words in said.err
        assert "lowtide: interrupted: this is the best placement so far" in said.err
