"""Plans that cut .tflite models for a fast memory that has no room for a padded copy of what a row reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.cli import main
from lowtide.ops.part import Written
from lowtide.ops.tflite import part as tflite_part
from lowtide.ops.working_set import working_set_bound

pytest.importorskip("tflite_micro", reason="plans are run in TFLM, which is not installed")
pytest.importorskip("ai_edge_litert", reason="plans are run in LiteRT, which is not installed")
from support.tflite_builder import Net
from support.tflite_nets import wide_net

FAST = 1024
"""Three rows and the one that is made of them are 768 B, the first two beside three padded above 960 B; beside three
padded on both sides 1,056 B, and three such beside three rows 1,248 B."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Depthwise and pointwise convolutions of int8 rows of 192 B."""
    net = Net()
    x = net.tensor((1, 12, 12, 16), zero=-3)
    a = net.conv(net.conv(x, 16, (1, 1)), 1, (3, 3), depthwise=True)
    net.ends([x], [net.conv(a, 16, (1, 1))])
    path = tmp_path / "net.tflite"
    path.write_bytes(net.bytes())
    return path


def _planned(model: Path) -> lowtide.Plan:
    return lowtide.research.plan(model, target="strict", memories={"fast": FAST}, allow="tile", time=8)


@pytest.mark.slow
def test_a_row_needs_no_padded_copy(model: Path) -> None:
    """What is moved is what verify works out, and outputs are equal bit by bit in both runtimes."""
    plan = _planned(model)
    assert plan.status == "ok"
    assert plan.memories is not None
    assert (plan.memories[0].size_bytes or 0) <= FAST
    assert plan.exactness == "bits"
    report = lowtide.verify(model, plan, run=True)
    assert {"parts", "streams"} <= {rule.name for rule in report.checks}
    assert report.run is not None


@pytest.mark.slow
def test_with_one_nothing_fits(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are padded on all sides as one word says need more."""

    def padded(op, axis, around, size, rank):
        both = tuple(around if d == axis else (1, 1) if d in (1, 2) else (0, 0) for d in range(rank))
        return Written({**op.attributes, "padding": 1}, padding=both)

    monkeypatch.setattr(tflite_part, "_one_row", padded)
    assert _planned(model).moves is None


def test_what_is_not_found_is_not_impossible(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Above the floor, which takes channels one at a time, and below a padded copy of the first rows."""
    assert main(["research", "plan", str(model), "--memory", "fast=800", "--allow", "tile", "--target", "strict"]) == 3
    err = capsys.readouterr().err
    assert "no tiling was found with which every op fits the 800 B of fast; tiled along any one dimension" in err
    assert f"needs {working_set_bound(lowtide.load(model), streamed=True).size:,} B" in err


@pytest.mark.slow
def test_parts_that_are_cut_again_move_less(tmp_path: Path) -> None:
    """Two dimensions of a wide tensor fit where one does not; what is planned is checked, and runs bit for bit."""
    model = tmp_path / "net.tflite"
    model.write_bytes(wide_net().bytes())
    once, again = (
        lowtide.research.plan(model, target="generic", memories={"fast": 3072}, allow=words, time=4)
        for words in ("tile", "tile,nest-tiles")
    )
    assert (again.traffic_bytes or 0) < (once.traffic_bytes or 0)
    assert again.rounds
    assert again.exactness == "bits"
    assert again.streams is None
    assert again.memories is not None
    assert (again.memories[0].size_bytes or 0) <= 3072
    assert lowtide.verify(model, again, run=True).run is not None
