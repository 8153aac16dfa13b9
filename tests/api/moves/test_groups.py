"""Row loops with tiles and recomputation: each group is planned apart, and the plan of fewer bytes is the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.api.moves.groups import groups_of
from lowtide.errors import InputError
from support.small_models import onnx_file
from support.tflite_nets import pyramid


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file whose tensors grow smaller."""
    path = tmp_path / "net.tflite"
    path.write_bytes(pyramid().bytes())
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "allow", ["row-streaming,tile", "recompute,row-streaming", ["row-streaming", "tile", "recompute"]]
)
def test_loops_with_others_need_no_more_than_each_alone(model: Path, allow: str | list[str]) -> None:
    """The plan holds, and says what it does."""
    plan = lowtide.research.plan(model, target="loops", allow=allow, budget="1KiB", time=6)
    words = allow.split(",") if isinstance(allow, str) else allow
    alone = [
        lowtide.research.plan(model, target="loops", allow=word, budget="1KiB", time=2).required_bytes for word in words
    ]
    assert plan.required_bytes == min(alone)
    lowtide.verify(model, plan)


def test_a_budget_that_nothing_meets_is_not_called_impossible(model: Path) -> None:
    """What is proved of recomputation is not of loops."""
    plan = lowtide.research.plan(model, target="loops", allow="row-streaming,recompute", budget=64, time=4)
    assert plan.status == "over_budget"
    assert lowtide.research.plan(model, target="loops", allow="recompute", budget=64, time=2).status == "impossible"


def test_what_a_group_lacks_is_said(tmp_path: Path, model: Path) -> None:
    """Nothing that was asked for is dropped; words that do not go together without loops are refused as before."""
    with pytest.raises(InputError, match="loops over no rows"):
        lowtide.research.plan(model, allow="row-streaming,tile", time=1)
    with pytest.raises(InputError, match="name one, as with --budget"):
        lowtide.research.plan(model, target="loops", allow="row-streaming,recompute", time=1)
    with pytest.raises(InputError, match="does not go with such changes"):
        lowtide.research.plan(onnx_file(tmp_path), allow="alias,recompute", time=1)


def test_words_without_loops_are_one_group() -> None:
    """As a text or as a list; none is a group of none."""
    assert groups_of("") == [()]
    assert groups_of(["tile", "recompute-halos", "tile"]) == [("tile", "recompute-halos")]
