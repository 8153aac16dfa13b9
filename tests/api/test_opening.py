"""No model is written that its runtime does not open: nothing is, and one line says why."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.api import writing
from lowtide.cli import main
from lowtide.errors import VerificationError
from lowtide.write import onnx as onnx_writer
from support.onnx_builder import model, node, saved, value
from support.small_models import onnx_file, with_weights_beside

pytest.importorskip("onnxruntime", reason="written files are opened in onnxruntime, which is not installed")


def spoiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writer call a type of op by another name, of equal length."""
    plain: Callable[..., Any] = onnx_writer.copy_range

    def copy(data: Any, begin: int, end: int, file: Any) -> None:
        plain(bytes(data[begin:end]).replace(b"Concat", b"NoSuch"), 0, end - begin, file)

    monkeypatch.setattr(onnx_writer, "copy_range", copy)


def test_a_file_that_does_not_open_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 5, one line, and neither the model nor the plan; an older file stays."""
    source, out, plan = onnx_file(tmp_path), tmp_path / "out.onnx", tmp_path / "p.json"
    assert b"Concat" in source.read_bytes()
    out.write_bytes(b"older")
    spoiling(monkeypatch)
    assert main(["research", "plan", str(source), "-o", str(out), "--plan", str(plan), "-q"]) == 5
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "onnxruntime does not open it" in said[0]
    assert "NoSuch" in said[0]
    assert out.read_bytes() == b"older"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted({source.name, out.name})


def test_python_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves nothing."""
    source = onnx_file(tmp_path)
    plan = lowtide.research.plan(source)
    spoiling(monkeypatch)
    with pytest.raises(VerificationError, match="open: nothing was written"):
        plan.apply(source, tmp_path / "out.onnx")
    assert [p.name for p in tmp_path.iterdir()] == [source.name]


def test_a_file_that_opens_is_written_without_a_word(tmp_path: Path) -> None:
    """External data beside the model, and copied elsewhere, included."""
    source = with_weights_beside(tmp_path)
    (tmp_path / "away").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = lowtide.research.plan(source)
        plan.apply(source, tmp_path / "out.onnx")
        plan.apply(source, tmp_path / "away" / "out.onnx", copy_external=True)


def test_what_cannot_be_opened_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are not there, no runtime, or a model of operators that onnxruntime has not: the file is written."""
    source = with_weights_beside(tmp_path)
    (tmp_path / "weights.bin").unlink()
    assert main(["research", "plan", str(source), "-o", str(tmp_path / "a.onnx"), "-q"]) == 0
    assert "a.onnx not opened: its weights are in 'weights.bin', which is not there" in capsys.readouterr().err

    nodes = [node("Relu", "x", "a"), node("Own", "a", "y", domain="own")]
    own = model(nodes, [value("x")], [value("y")], declared=[value("a")])
    own.opset_import.add(domain="own", version=1)
    source = saved(own, tmp_path)
    assert main(["research", "plan", str(source), "-o", str(tmp_path / "b.onnx"), "-q"]) == 0
    assert "b.onnx not opened: onnxruntime does not open the model itself: " in capsys.readouterr().err

    def missing(*_: object) -> str:
        raise ImportError

    monkeypatch.setattr(writing, "onnx_refusal", missing)
    assert main(["research", "plan", str(onnx_file(tmp_path)), "-o", str(tmp_path / "c.onnx"), "-q"]) == 0
    assert "c.onnx not opened: onnxruntime is not installed" in capsys.readouterr().err
    assert {p.name for p in tmp_path.glob("?.onnx")} >= {"a.onnx", "b.onnx", "c.onnx"}
