"""The ladder of `inspect`: sizes that fall, each of which a plan reaches, and no word of what was not looked at."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

import lowtide
from lowtide.analyse.inspect import Inspection
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.ops.working_set import working_set_bound
from support.small_nets import pyramid
from support.tflite_nets import pyramid as tflite_pyramid


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is worth cutting."""
    path = tmp_path_factory.mktemp("ladder") / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return path


@pytest.fixture(scope="module")
def seen(model: Path) -> Inspection:
    """What there is to see of it, given time."""
    return lowtide.inspect(model, target="strict", ladder=30)


def test_rungs_fall(seen: Inspection) -> None:
    """From file order down, by cuts, then by a slow memory that is moved to the more the smaller the fast one is."""
    assert (seen.ladder[0].how, seen.ladder[0].bytes) == ("file order", seen.own_order_peak_bytes)
    assert all(above.bytes > below.bytes for above, below in pairwise(seen.ladder))
    kinds = [rung.how for rung in seen.ladder]
    assert kinds == sorted(kinds, key=["file order", "best order", "cuts", "cuts and slow memory"].index)
    moved = [rung.traffic_bytes for rung in seen.ladder if rung.traffic_bytes is not None]
    assert moved
    assert all(above < below for above, below in pairwise(moved))
    assert seen.ladder_complete


@pytest.mark.slow
def test_each_rung_is_reached(model: Path, seen: Inspection) -> None:
    """A plan of that kind fits the size that is said."""
    for rung in seen.ladder:
        if rung.how == "cuts":
            cut = lowtide.research.plan(model, target="strict", allow="tile", budget=rung.bytes)
            assert cut.peak_bytes <= rung.bytes
        elif rung.how == "cuts and slow memory":
            plan = lowtide.research.plan(model, target="strict", memories={"fast": rung.bytes}, allow="tile", time=10)
            assert plan.moves is not None
            assert (plan.traffic_bytes or 0) <= (rung.traffic_bytes or 0)


@pytest.mark.slow
def test_without_a_ladder_nothing_is_looked_for(
    model: Path, seen: Inspection, capsys: pytest.CaptureFixture[str]
) -> None:
    """No rungs, and no lines about them; with one they are in both forms."""
    assert lowtide.inspect(model, target="strict", ladder=0).ladder == []
    assert main(["inspect", str(model), "--target", "strict", "--ladder", "0"]) == 0
    assert "fits in" not in capsys.readouterr().out
    assert main(["inspect", str(model), "--target", "strict", "--ladder", "9"]) == 0
    screen = capsys.readouterr().out
    assert "fits in (live bytes):" in screen
    assert "cuts and slow memory" in screen
    assert main(["inspect", str(model), "--target", "strict", "--ladder", "9", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["ladder"]
    assert listed[0] == {
        "bytes": seen.own_order_peak_bytes,
        "how": "file order",
        "ops": 6,
        "arena_bytes": None,
        "traffic_bytes": None,
        "target": None,
    }


def test_the_last_rung_is_about_the_least(model: Path, seen: Inspection) -> None:
    """No cut along one dimension needs less than its largest op's smallest part; half as much again is listed."""
    least = working_set_bound(lowtide.load(model), streamed=True)
    assert least.size <= seen.ladder[-1].bytes <= 1.5 * least.size


def test_a_look_that_is_cut_short_says_so(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was not looked at is not said to be all."""
    short = lowtide.inspect(model, target="strict", ladder=1e-6)
    assert not short.ladder_complete
    assert short.ladder[0].how == "file order"
    assert main(["inspect", str(model), "--target", "strict", "--ladder", "1e-6"]) == 0
    assert "stopped by the time limit" in capsys.readouterr().out


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_ladder_of_no_time_is_refused(model: Path, seconds: float) -> None:
    """By name."""
    with pytest.raises(InputError, match="ladder"):
        lowtide.inspect(model, ladder=seconds)


def test_what_is_not_cut_has_its_orders_alone() -> None:
    """A network of the zoo is in no format whose ops have parts."""
    seen = lowtide.inspect("zoo:swiftnet_cell_a", target="strict")
    assert {rung.how for rung in seen.ladder} <= {"file order", "best order"}
    assert seen.ladder_complete


@pytest.mark.slow
def test_what_a_runtime_keeps_for_each_op_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under TFLM a rung says the arena; no more parts are advised than lower that, and a plan fits what is said."""
    model = tmp_path / "net.tflite"
    model.write_bytes(tflite_pyramid().bytes())
    seen = lowtide.inspect(model, target="tflm", ladder=30)
    assert "cuts" in {rung.how for rung in seen.ladder}
    own, *below = [rung for rung in seen.ladder if rung.how != "cuts and slow memory"]
    assert own.arena_bytes is not None
    assert own.arena_bytes > own.bytes
    for before, after in pairwise([own, *below]):
        assert before.arena_bytes is not None
        assert after.arena_bytes is not None
        assert after.arena_bytes < before.arena_bytes
        plan = lowtide.research.plan(model, target="tflm", allow="tile", budget=after.arena_bytes)
        assert plan.required_bytes <= after.arena_bytes
    assert main(["inspect", str(model), "--target", "tflm"]) == 0
    assert f"{own.arena_bytes:,}  file order" in capsys.readouterr().out
