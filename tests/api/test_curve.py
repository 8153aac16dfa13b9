"""The peaks that cuts reach: ever lower, the first that of the best order, and a plan takes what is promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.cli import main
from support.onnx_builder import model, node, saved, value
from support.small_nets import pyramid


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is worth cutting."""
    result = tmp_path_factory.mktemp("curve") / "net.onnx"
    result.write_bytes(pyramid().model().SerializeToString())
    return result


def test_peaks_fall_and_ops_rise(path: Path) -> None:
    """From the best order's to the lowest; a plan with as many ops, or with that budget, needs no more."""
    curve = lowtide.research.curve(path, target="strict")
    best = lowtide.research.plan(path, target="strict")
    assert curve.complete
    assert (curve.own_order_peak_bytes, curve.points[0].peak_bytes) == (best.own_order_peak_bytes, best.peak_bytes)
    assert (curve.points[0].ops, curve.points[0].regions) == (len(best.order), 0)
    assert len(curve.points) > 2
    for one, other in zip(curve.points, curve.points[1:], strict=False):
        assert other.peak_bytes < one.peak_bytes
        assert other.ops > one.ops
    for point in curve.points[1:]:
        few = lowtide.research.plan(path, target="strict", allow="tile", max_ops=point.ops)
        assert few.peak_bytes <= point.peak_bytes
        assert len(few.order) <= point.ops
    assert "points=" in repr(curve)


def test_every_parameter_counts(path: Path) -> None:
    """The rules, what may change, the time."""
    strict = lowtide.research.curve(path, target="strict")
    assert lowtide.research.curve(path, target="generic").points != strict.points
    assert lowtide.research.curve(path, target="strict", exact_bits=True).points != strict.points
    assert not lowtide.research.curve(path, target="strict", time=1e-9).complete
    pinned, free = (
        lowtide.research.curve(path, target="generic", **dict[str, Any]({name: True}))
        for name in ("pin_inputs", "overwrite_inputs")
    )
    assert pinned.points[-1].peak_bytes >= free.points[-1].peak_bytes
    with pytest.raises(lowtide.InputError, match="no free dimension"):
        lowtide.research.curve(path, dims={"n": 2})


def test_the_command_prints_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table; JSON with the same; and one line for a model that is not cut."""
    assert main(["research", "curve", str(path), "--target", "strict"]) == 0
    printed = capsys.readouterr().out
    assert "best order" in printed
    assert "--max-ops" in printed
    assert main(["research", "curve", str(path), "--target", "strict", "--json"]) == 0
    assert '"points"' in capsys.readouterr().out
    graph = path.parent / "g.graph.json"
    graph.write_text('{"name": "g", "tensors": [{"id": 0, "size": 4, "kind": "input"}], "ops": []}')
    assert main(["research", "curve", str(graph)]) == 2
    assert "only ONNX and TFLite models are tiled" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_printed_is_what_the_command_prints(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of curves, fronts, sizes and sweeps; what stands in a list of them stays a line."""
    curve = lowtide.research.curve(path, target="strict")
    main(["research", "curve", str(path), "--target", "strict", "-q"])
    assert str(curve) == capsys.readouterr().out.rstrip()
    step = "zoo:magis_unet:batch=2,width=4,image=32"
    front = lowtide.research.front(step, time=2)
    assert str(front).startswith("model ")
    assert "against file order" in str(front)
    sizes = lowtide.research.plan_sizes(dynamic(path.parent), {"n": [2, 4]})
    assert "the order is the same at all sizes" in str(sizes)
    table = lowtide.research.sweep(["zoo:swiftnet_cell_a"], jobs=1)
    assert "swiftnet_cell_a" in str(table)
    for result in (curve, front, sizes, table):
        assert "\n" not in repr(result)
        assert len(repr(result)) < 200


def dynamic(folder: Path) -> Path:
    """A model of any batch."""
    net = model([node("Relu", "x", "y")], [value("x", ("n", 4))], [value("y", ("n", 4))])
    return saved(net, folder)
