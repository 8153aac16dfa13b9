"""The limit of single tensors: kept by tiles, checked, and said where it is not met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan, read_plan
from support.small_models import branches, graph_file
from support.small_nets import pyramid

LIMIT = 3000
"""Bytes; the net has tensors of 6,144 between operators, and weights of 5,184."""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A net whose largest tensors are between two convolutions."""
    path = tmp_path / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return path


def limited(net: Path, limit: int, **keywords: Any) -> Plan:
    """The plan of a compiler's arena under a limit."""
    return lowtide.plan(net, target="generic", max_tensor=limit, **keywords)


@pytest.mark.slow
def test_tiles_keep_the_limit(net: Path) -> None:
    """No tensor of the plan is larger but weights, inputs and outputs; without the limit there are larger ones."""
    plan = limited(net, LIMIT)
    assert plan.status == "ok"
    largest = max(t.size for t in plan.tensors if t.kind == "activation")
    assert plan.largest_tensor_bytes == largest <= LIMIT
    assert max(t.size for t in plan.tensors) > LIMIT
    assert plan.comparison is not None
    assert plan.comparison.today_tensor_bytes == 6144
    assert lowtide.verify(net, plan)
    assert lowtide.plan(net, target="generic", without=["tile"]).largest_tensor_bytes is None


def test_a_limit_that_is_met_changes_nothing(net: Path) -> None:
    """The plan of the largest tensor's size is that without a limit."""
    only = {"only": ["alias"]}
    free, loose = lowtide.plan(net, target="generic", **only), limited(net, 6144, **only)
    assert (loose.order, loose.offsets, loose.status) == (free.order, free.offsets, "ok")


def test_a_limit_comes_before_memory_and_is_over_where_nothing_meets_it(net: Path) -> None:
    """Order alone changes no tensor; with a budget that it meets, it is over the limit still, and never impossible."""
    plan = limited(net, LIMIT, budget="1MiB", without=["tile", "nest-tiles"])
    assert (plan.status, plan.largest_tensor_bytes) == ("over_budget", 6144)
    assert plan.required_bytes <= 2**20
    tiled = limited(net, LIMIT, budget="1MiB")
    assert tiled.status == "ok"


@pytest.mark.parametrize("claim", [1, None])
def test_a_wrong_figure_is_found(net: Path, claim: int | None) -> None:
    """Another largest tensor than the plan's, or none where the rules limit it; and a status that does not follow."""
    rules = f"generic,max_tensor={LIMIT}"
    plan = lowtide.research.plan(net, target=rules, allow="tile", time=2)
    assert plan.status == "ok"
    with pytest.raises(VerificationError) as found:
        lowtide.verify(net, msgspec.structs.replace(plan, largest_tensor_bytes=claim))
    assert found.value.failure == "largest_tensor"
    over = lowtide.research.plan(net, target=rules)
    assert over.status == "over_budget"
    with pytest.raises(VerificationError) as found:
        lowtide.verify(net, msgspec.structs.replace(over, status="ok"))
    assert found.value.failure == "status"


def test_the_screen_says_how_large_the_largest_is(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Met: the file is written, whatever it takes. Not met: status 3, and the smallest limit that was found."""
    out = tmp_path / "small.onnx"
    words = ["plan", str(net), "--for", "generic", "--time", "2", "-q"]
    assert main([*words, "--max-tensor", str(LIMIT), "-o", str(out)]) == 0
    written = read_plan(tmp_path / "small.plan.json")
    screen = capsys.readouterr().out
    assert f"limit of a tensor {LIMIT:,} B: met, the largest has {written.largest_tensor_bytes:,} B" in screen
    assert "weights are not split: w2 has 5,184 B" in screen
    assert main(["verify", str(net), str(tmp_path / "small.plan.json")]) == 0
    capsys.readouterr()
    assert main([*words, "--max-tensor", "1", "--without", "tile,nest-tiles"]) == 3
    screen = capsys.readouterr().out
    assert "not met, 6,144 B is the least that was found for the largest (today 6,144 B)" in screen
    assert "--max-tensor 6144" in screen


def test_what_keeps_no_limit_says_so(tmp_path: Path) -> None:
    """Several memories, and moves between two."""
    path = graph_file(tmp_path, branches())
    for goal in ({"banks": ["a=110", "b=1KiB"]}, {"memories": ["fast=108"]}):
        with pytest.raises(InputError, match="a limit of single tensors is for plans of one arena"):
            lowtide.research.plan(path, target="strict,max_tensor=10", **goal)
    plan = lowtide.plan(path, max_tensor=1)
    assert plan.status == "over_budget"


@pytest.mark.slow
def test_onnxruntime_keeps_the_limit(net: Path, tmp_path: Path) -> None:
    """Of the file that its optimiser makes, whatever memory that takes; outputs are compared."""
    plan = lowtide.plan(net, max_tensor=LIMIT, slower=1000)
    assert plan.comparison is not None
    assert plan.comparison.measured
    assert (plan.largest_tensor_bytes or 0) <= LIMIT < (plan.comparison.today_tensor_bytes or 0)
    assert plan.status == "ok"
    assert plan.comparison.better
