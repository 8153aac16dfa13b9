"""Transformations combine freely, and a search begins with a plan that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.api.moves.all_transformations import MOST_OVERHEAD, with_all_transformations
from lowtide.api.planning import job_of
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.rewrites import ALLOWED
from lowtide.transform.cut import Cutter
from lowtide.transform.halos import macs_of
from support.small_nets import pyramid
from support.tflite_nets import pyramid as tflite_pyramid

TILED = ("tile", "recompute-halos", "unmaterialised", "nest-tiles", "concat", "accumulate", "alias")
ALL_OF_ONNX = ("tile", "recompute-halos", "nest-tiles", "concat", "alias", "recompute")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network of convolutions."""
    path = tmp_path_factory.mktemp("solving") / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return path


@pytest.fixture(scope="module")
def tiled(model: Path) -> Plan:
    """A plan with tiles on tiles, and rows that run again."""
    return lowtide.research.plan(model, target="generic", allow="tile,concat,nest-tiles,recompute-halos", time=2)


@pytest.mark.slow
def test_all_that_tiles_goes_together(model: Path) -> None:
    """No pair of words is refused, and the checker takes what comes of all of them."""
    assert set(TILED) < set(ALLOWED)
    plan = lowtide.research.plan(model, target="generic", allow=TILED, time=1)
    once = lowtide.research.plan(model, target="generic", allow="tile", time=1)
    assert plan.required_bytes <= once.required_bytes
    lowtide.verify(model, plan)


@pytest.mark.slow
def test_halos_in_levels_are_counted(model: Path, tiled: Plan) -> None:
    """What rows add that run again is of all levels, of what the model computes."""
    assert tiled.rounds
    assert tiled.halos is not None
    assert tiled.halos.macs == macs_of(Cutter(lowtide.load(model)))
    assert tiled.halos.extra_macs > 0
    lowtide.verify(model, tiled)


@pytest.mark.slow
@pytest.mark.parametrize("allow", ["tile,concat,nest-tiles,recompute-halos", TILED])
def test_a_search_is_no_worse_than_the_plan_that_it_begins_with(model: Path, tiled: Plan, allow: Any) -> None:
    """In no time the plan is found again, from the object or from its file."""
    warm = lowtide.research.plan(model, target="generic", allow=allow, time=0.01, warm_start=tiled)
    assert warm.required_bytes <= tiled.required_bytes
    assert warm.exactness == tiled.exactness
    lowtide.verify(model, warm)


@pytest.mark.slow
def test_a_file_is_a_start(model: Path, tiled: Plan, tmp_path: Path) -> None:
    """What a budget asks for is there without a search."""
    tiled.save(tmp_path / "plan.json")
    met = lowtide.research.plan(
        model, target="generic", allow="tile,concat,nest-tiles,recompute-halos", time=0.01, budget=tiled.required_bytes,
        warm_start=tmp_path / "plan.json",
    )  # fmt: skip
    assert (met.status, met.peak_bytes) == ("ok", tiled.peak_bytes)


def test_an_order_is_a_start(model: Path) -> None:
    """Without any change of the graph, too: the order is kept where none is better."""
    plan = lowtide.research.plan(model, target="generic", time=2)
    warm = lowtide.research.plan(model, target="generic", time=2, warm_start=plan)
    assert warm.required_bytes <= plan.required_bytes
    assert warm.own_order_peak_bytes == plan.own_order_peak_bytes


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"allow": "tile"}, "allow concat, nest-tiles, recompute-halos too"),
        ({"allow": "recompute", "budget": "50%"}, "leave out warm_start"),
        ({"memories": ["fast=20KiB"]}, "leave out warm_start"),
    ],
)
def test_what_a_plan_is_no_start_of(model: Path, tiled: Plan, call: dict[str, Any], words: str) -> None:
    """Nothing that is asked for is dropped."""
    with pytest.raises(InputError, match=words):
        lowtide.research.plan(model, target="generic", warm_start=tiled, **call)


def test_a_plan_of_another_model_is_no_start(model: Path, tiled: Plan, tmp_path: Path) -> None:
    """By the file's sum."""
    other = tmp_path / "other.onnx"
    other.write_bytes(model.read_bytes() + b"\x0a\x00")
    with pytest.raises(InputError, match="of another model"):
        lowtide.research.plan(other, target="generic", allow=TILED, warm_start=tiled)


@pytest.mark.parametrize(
    ("target", "more", "words"),
    [
        ("generic", {}, ALL_OF_ONNX),
        ("onnxruntime", {}, tuple(w for w in ALL_OF_ONNX if w != "alias")),
        ("generic", {"exact_bits": True}, ALL_OF_ONNX[:-1]),
        ("generic", {"persistent": ["x"]}, ()),
        ("generic", {"banks": ["a=1MiB", "b=1MiB"]}, ()),
        ("strict", {"memories": ["fast=1MiB"]}, ("tile", "nest-tiles", "concat")),
        ("loops", {}, ("row-streaming",)),
    ],
)
def test_all_means_what_the_model_its_target_and_the_goal_have(
    model: Path, target: str, more: dict[str, Any], words: tuple[str, ...]
) -> None:
    """Nothing is refused, and what a user would have to bound is bounded."""
    if "persistent" in more:
        more = {"persistent": [lowtide.load(model).tensors[0].name]}
    job = with_all_transformations(job_of(model, target=target, allow="all", **more))
    assert job.allow == words
    bounded = job.costs is not None and job.costs.max_overhead == MOST_OVERHEAD
    assert bounded == ("recompute-halos" in words)


@pytest.mark.slow
def test_all_is_no_worse_than_a_word_and_keeps_its_bound(model: Path) -> None:
    """One plan of all transformations, and one that may run 5 % more operations."""
    every = lowtide.research.plan(model, target="generic", allow="all", time=5)
    tiles = lowtide.research.plan(model, target="generic", allow="tile", time=5)
    assert every.required_bytes <= tiles.required_bytes
    assert every.halos is None or every.halos.extra_macs <= MOST_OVERHEAD * every.halos.macs
    lowtide.verify(model, every)


@pytest.mark.slow
def test_all_of_a_tflite_model_is_bounded_by_operations(tmp_path: Path) -> None:
    """No cost file is of such a model, and none is needed."""
    path = tmp_path / "net.tflite"
    path.write_bytes(tflite_pyramid().bytes())
    plan = lowtide.research.plan(path, target="generic", allow="all", time=2)
    assert plan.allow == ["tile", "recompute-halos", "nest-tiles", "alias"]
    assert plan.cost is None
    lowtide.verify(path, plan)


def test_all_is_named_alone(model: Path) -> None:
    """The other words are among it."""
    with pytest.raises(InputError, match="name it alone"):
        lowtide.research.plan(model, allow="all,tile")
