"""Parts of a resize that mixes rows make some that nobody may read: the plan says which, and is held to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.plan import Plan, from_json
from support.small_nets import Nets

Change = Callable[[dict[str, Any]], None]


def _first(options: object) -> object:
    raise AssertionError("nothing is drawn")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image that is large only behind a resize."""
    nets = Nets(_first)  # type: ignore[arg-type]
    x = nets.input((1, 2, 8, 4))
    (a,) = nets.node("Resize", [x, "", nets.values(1, 1, 4, 4)], mode="linear")
    (b,) = nets.node("Conv", [a, nets.floats((6, 2, 1, 1))])
    (c,) = nets.node("Conv", [b, nets.floats((1, 6, 3, 3))], pads=[1, 1, 1, 1])
    nets.node("MaxPool", [c], kernel_shape=[4, 4], strides=[4, 4])
    path = tmp_path_factory.mktemp("stretched") / "net.onnx"
    path.write_bytes(nets.model().SerializeToString())
    return path


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    """Its plan with cuts."""
    return lowtide.research.plan(model, target="strict", allow="tile", time=0.5)


def _rough(plan: dict[str, Any]) -> dict[str, Any]:
    return next(t for t in plan["tensors"] if t.get("piece", {}).get("sure"))


@pytest.mark.slow
def test_a_linear_resize_is_cut_along_its_rows(model: Path, plan: Plan) -> None:
    """It holds, and the parts give the same numbers."""
    pytest.importorskip("onnxruntime", reason="the parts are run in onnxruntime, which is not installed")
    best = lowtide.research.plan(model, target="strict")
    assert plan.peak_bytes < best.peak_bytes
    assert any(t.piece is not None and t.piece.sure is not None for t in plan.tensors)
    report = lowtide.verify(model, from_json(plan.to_json()), prove=True, run=True, time=0.3)
    assert "parts" in [rule.name for rule in report.checks]
    assert report.run is not None


def _nothing_is_rough(plan: dict[str, Any]) -> None:
    del _rough(plan)["piece"]["sure"]


def _more_is_sure(plan: dict[str, Any]) -> None:
    piece = _rough(plan)["piece"]
    piece["sure"] = piece["box"]


def _kept_beyond(plan: dict[str, Any]) -> None:
    """The slice takes what the part made without its neighbours, as many rows from one end on."""
    tensors = {t["id"]: t for t in plan["tensors"]}
    rough = _rough(plan)
    slice_ = next(op["part"] for op in plan["ops"] if rough["id"] in op.get("part", {}).get("inputs", ()))
    piece = tensors[slice_["outputs"][0]]["piece"]
    d = next(d for d, rows in enumerate(piece["box"]) if rows != rough["piece"]["box"][d])
    first, end = rough["piece"]["box"][d]
    a, b = piece["box"][d]
    piece["box"][d] = [first, first + b - a] if a > first else [end - (b - a), end]


def _read_as_it_is(plan: dict[str, Any]) -> None:
    rough = _rough(plan)["id"]
    slice_ = next(op["part"] for op in plan["ops"] if rough in op.get("part", {}).get("inputs", ()))
    reader = next(op["part"] for op in plan["ops"] if slice_["outputs"][0] in op.get("part", {}).get("inputs", ()))
    reader["inputs"] = [rough if t == slice_["outputs"][0] else t for t in reader["inputs"]]


@pytest.mark.parametrize("change", [_nothing_is_rough, _more_is_sure, _kept_beyond, _read_as_it_is])
def test_rows_that_are_not_the_resizes_are_not_read(change: Change, model: Path, plan: Plan) -> None:
    """Whichever way a plan says that they may be."""
    document = msgspec.json.decode(plan.to_json())
    change(document)
    with pytest.raises(VerificationError, match="parts"):
        lowtide.verify(model, from_json(msgspec.json.encode(document)))
