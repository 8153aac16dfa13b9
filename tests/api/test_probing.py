"""What `probe` says of a model: counts, what is opaque, what is not run, and a map that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
import lowtide.ops.onnx
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.ops.forms import Pointwise
from support.command import Captured, run_json
from support.onnx_builder import constant, model, node, saved, value

pytest.importorskip("onnxruntime", reason="the maps are proved in onnxruntime, which is not installed")


def conv_net(folder: Path) -> Path:
    """Two equal convolutions, one of another shape, an op without a row, a pool."""
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Conv", "a w", "b", pads=[1, 1, 1, 1]),
        node("Conv", "b v", "c"),
        node("MaxPool", "c", "p", kernel_shape=[2, 2]),
        node("Det", "p", "y"),
    ]
    weights = [constant("w", [0.5] * 144, (4, 4, 3, 3)), constant("v", [0.5] * 8, (2, 4, 1, 1))]
    return saved(model(nodes, [value("x", (1, 4, 9, 9))], [value("y", (1, 2))], weights), folder)


def test_probe_counts_and_says_why(tmp_path: Path, capsys: Captured) -> None:
    """Nodes alike are probed once; an op without a row is named with the reason; JSON carries every figure."""
    path = conv_net(tmp_path)
    found = lowtide.research.probe(path)
    assert (found.nodes, found.wrong, len(found.probes)) == (5, 0, 3)
    assert [(p.type, p.nodes, p.exact, p.merged) for p in found.probes] == [
        ("Conv", 2, "kernel", "sum"),
        ("Conv", 1, "kernel", "sum"),
        ("MaxPool", 1, "bits", ""),
    ]
    assert all(p.parts and p.edges_moved == p.edges for p in found.probes)
    assert [(o.type, o.reason) for o in found.opaque] == [("Det", "no row for Det")]
    assert found.exit_status == 0
    printed = run_json(capsys, "research", "probe", path)
    assert printed["parts"] == found.parts
    assert [kind["type"] for kind in printed["kinds"]] == ["Conv", "Det", "MaxPool"]


def test_probe_prints_a_table(tmp_path: Path, capsys: Captured) -> None:
    """The table, then what is opaque, then the totals."""
    assert main(["research", "probe", str(conv_net(tmp_path))]) == 0
    text = capsys.readouterr().out
    assert text.startswith("op ")
    assert "(Det): no row for Det" in text
    assert "4 of 5 nodes (80.0%) have a map; 3 distinct ones run, 0 of them on smaller operands" in text


def test_a_wrong_map_is_status_5(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that is said to look at one place only is found out, and named."""
    rows = {**lowtide.ops.onnx.ROWS, "Transpose": lambda node: Pointwise()}
    monkeypatch.setattr(lowtide.ops.onnx, "ROWS", rows)
    turned = model([node("Transpose", "x", "y", perm=[1, 0])], [value("x", (6, 6))], [value("y", (6, 6))])
    assert main(["research", "probe", str(saved(turned, tmp_path))]) == 5
    text = capsys.readouterr().out
    assert "wrong:" in text
    assert "result 0 moves with what lies outside" in text


def test_large_nodes_are_skipped_and_reported(tmp_path: Path, capsys: Captured) -> None:
    """A limit on multiplications leaves nodes out, with the reason."""
    assert main(["research", "probe", str(conv_net(tmp_path)), "--most-macs", "100"]) == 0
    text = capsys.readouterr().out
    assert "not run:" in text
    assert "more than 100" in text


def test_a_graph_of_no_format_cannot_be_probed() -> None:
    """Ops of nobody have no runtime."""
    with pytest.raises(InputError, match="have no meaning that could be probed; give an ONNX or a TFLite model"):
        lowtide.research.probe("zoo:nasnet_a_cifar")


def test_random_ops_are_not_run(tmp_path: Path) -> None:
    """What draws random numbers differs from run to run, whatever it reads."""
    drawn = model([node("RandomNormalLike", "x", "y")], [value("x", (3, 4))], [value("y", (3, 4))])
    (found,) = lowtide.research.probe(saved(drawn, tmp_path)).probes
    assert found.skipped == "it draws random numbers"
