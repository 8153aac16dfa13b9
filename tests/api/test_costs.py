"""Plans within a predicted time: the bound holds, what a plan says of its time is checked, and wrong calls say so."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.cli import main
from lowtide.cost.file import CostTrial, stand_in
from lowtide.cost.model import CostModel
from lowtide.plan import Plan, from_json
from lowtide.transform.cut import Cutter
from support.costs import costs
from support.small_nets import pyramid

FILE = costs([], launch=1e-6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is worth cutting."""
    path = tmp_path_factory.mktemp("costs") / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return path


def _plan(model: Path, **settings: Any) -> Plan:
    return lowtide.research.plan(model, target="strict", allow="tile", **settings)


@pytest.fixture(scope="module")
def free(model: Path) -> Plan:
    """Its plan with a cost file, and no bound on time."""
    return _plan(model, cost=FILE)


@pytest.mark.slow
def test_less_time_is_more_memory(model: Path, free: Plan) -> None:
    """Within each bound; without one as low as without a cost file; and at none the order alone."""
    assert free.cost is not None
    assert free.peak_bytes <= _plan(model).peak_bytes
    plans = [_plan(model, cost=FILE, max_overhead=more) for more in (0, "10%", "50%", 3.0, free.cost.overhead + 1e-9)]
    for plan, more in zip(plans, (0, 0.1, 0.5, 3.0, 1e9), strict=True):
        assert plan.cost is not None
        assert plan.cost.overhead <= more
        assert plan.cost.measured + plan.cost.between + plan.cost.roofline == len(plan.order)
    for one, other in pairwise(plans[:4]):
        assert other.peak_bytes <= one.peak_bytes
    assert plans[0].peak_bytes > free.peak_bytes
    assert plans[-1].peak_bytes == free.peak_bytes


def test_trials_tighten_a_bound(model: Path) -> None:
    """A plan's overhead is what trials showed of such plans, and that is what is bounded; uncut there is none."""
    free = _plan(model, cost=FILE, max_overhead=0.5)
    assert free.cost is not None
    trial = CostTrial(predicted=free.cost.overhead, measured=free.cost.overhead + 0.3)
    tried = msgspec.structs.replace(FILE, trials=[trial])
    plan = _plan(model, cost=tried, max_overhead=0.5)
    assert plan.cost is not None
    assert plan.cost.overhead <= 0.5
    assert plan.peak_bytes >= free.peak_bytes
    again = _plan(model, cost=tried, max_overhead=0.8)
    assert again.cost is not None
    assert again.peak_bytes <= free.peak_bytes
    first, *_, last = lowtide.research.curve(model, target="strict", cost=tried).points
    plain, *_, other = lowtide.research.curve(model, target="strict", cost=FILE).points
    assert first.nanoseconds == plain.nanoseconds
    assert last.nanoseconds is not None
    assert other.nanoseconds is not None
    assert last.nanoseconds > other.nanoseconds
    assert lowtide.verify(model, from_json(again.to_json())).checks


@pytest.mark.slow
def test_the_plan_names_its_cost_file(model: Path, free: Plan, tmp_path: Path) -> None:
    """By the hash of its bytes, given as a file or as an object, or as what lowtide brings along."""
    FILE.save(tmp_path / "cost.json")
    hash_of = sha256((tmp_path / "cost.json").read_bytes()).hexdigest()
    for plan in (free, *(_plan(model, cost=cost) for cost in (tmp_path / "cost.json", str(tmp_path / "cost.json")))):
        assert plan.cost is not None
        assert plan.cost.cost_file == hash_of
    reckoned = _plan(model, max_overhead=0.2).cost
    assert reckoned is not None
    assert (reckoned.cost_file, reckoned.measured, reckoned.between) == (stand_in()[1], 0, 0)
    assert _plan(model).cost is None


def test_a_plan_that_cuts_nothing_has_its_time(model: Path) -> None:
    """That of the model, with nothing over."""
    plan = _plan(model, cost=FILE, budget="1MiB")
    assert plan.rewrites is None
    assert plan.cost is not None
    whole = CostModel(FILE, Cutter(lowtide.load(model))).untiled().nanoseconds
    assert (plan.cost.predicted_seconds, plan.cost.overhead) == (whole / 1e9, 0.0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("measured", 1), ("roofline", -1), ("overhead", 0.0), ("predicted_seconds", -1.0), ("uncut_seconds", 1.0),
        ("max_overhead", 0.01),
    ],
)  # fmt: skip
def test_what_a_plan_says_of_time_is_checked(key: str, value: Any, model: Path, free: Plan) -> None:
    """Counts, sums and the bound; unchanged it holds."""
    assert "cost" in [rule.name for rule in lowtide.verify(model, from_json(free.to_json())).checks]
    document = json.loads(free.to_json())
    document["cost"][key] = value
    with pytest.raises(lowtide.VerificationError, match="cost"):
        lowtide.verify(model, from_json(msgspec.json.encode(document)))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"max_overhead": "-1%"}, "write a part of the time"),
        ({"max_overhead": "much"}, "write a part of the time"),
        ({"max_overhead": float("nan")}, "write a part of the time"),
        ({"cost": ""}, "--cost names no file"),
        ({"cost": "none.json"}, "none.json: cannot read"),
        ({"cost": costs([], dialect="aten")}, "it is of aten ops"),
        ({"cost": FILE, "allow": ()}, "--cost is about what --allow may change"),
    ],
)
def test_wrong_calls_say_so(settings: dict[str, Any], says: str, model: Path) -> None:
    """In a line."""
    with pytest.raises(lowtide.InputError, match=says):
        lowtide.research.plan(model, **{"target": "strict", "allow": "tile"} | settings)


def test_the_commands(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan prints its time and how it is known, a curve what each peak takes."""
    FILE.save(tmp_path / "cost.json")
    given = ["--target", "strict", "--cost", str(tmp_path / "cost.json")]
    out = tmp_path / "p.json"
    words = ["research", "plan", str(model), *given, "--allow", "tile", "--max-overhead", "20%", "--plan", str(out)]
    assert main(words) == 0
    assert "from a roofline" in capsys.readouterr().out
    assert main(["verify", str(model), str(out)]) == 0
    assert "predicted time" in capsys.readouterr().out
    assert main(["research", "curve", str(model), *given]) == 0
    printed = capsys.readouterr().out
    assert "predicted" in printed
    assert "--max-overhead" in printed
    assert main(["research", "curve", str(model), *given, "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert all(point["nanoseconds"] > 0 for point in points)
