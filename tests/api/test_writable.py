"""What cannot be written of a plan is refused before anything is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide import api
from lowtide.api import planning
from support.command import Captured, run
from support.small_models import branches, graph_file, onnx_file, with_weights_beside


def too_late(*_: object, **__: object) -> None:
    """Stands for planning: whoever begins with that has refused too late."""
    raise AssertionError("it is planned")


STEP = "zoo:magis_unet:batch=4,width=8,image=64"
BOTH = ["--allow", "recompute,tile", "--max-overhead", "10%"]
REFUSED = {
    "swap as a model": (["m.graph.json", "--allow", "offload", "--budget", "60%", "-o", "out.graph.json"], "offloaded"),
    "swap as a layout": (["m.graph.json", "--allow", "recompute,offload", "--budget", "9", "--table", "t"], "offload"),
    "runs as a graph": (["m.graph.json", "--allow", "recompute", "--budget", "60%", "-o", "o.json"], "only ONNX files"),
    "runs as a layout": (["m.onnx", "--allow", "recompute", "--budget", "60%", "--header", "h.h"], "a layout cannot"),
    "loops as a model": (["m.onnx", "--allow", "row-streaming", "--target", "loops", "-o", "out.onnx"], "streams rows"),
    "parts of a step": ([STEP, *BOTH, "-o", "out.graph.json"], "a tiled training step"),
    "parts of a step as a layout": ([STEP, *BOTH, "--usmp", "u.json"], "a tiled training step"),
    "a snippet for nobody": (["m.onnx", "--snippet", "s.py"], "plan with --target onnxruntime"),
    "a snippet without its model": (
        ["m.onnx", "--target", "onnxruntime", "--allow", "tile", "--snippet", "s.py"], "write that with -o"
    ),
    "a buffer plan for nobody": (["m.onnx", "--buffer-plan", "b.h"], "for TFLM"),
    "commands without moves": (["m.onnx", "--commands", "c.txt"], "name the memories"),
    "a layout of what moves": (["m.onnx", "--memory", "fast=1KiB", "--header", "h.h"], "no one place"),
    "another format": (["m.tflite", "-o", "out.onnx"], "must end in .tflite"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused_at_once(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Exit 2 in one line, before a search, and no file is left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "plan", too_late)
    graph_file(tmp_path, branches())
    onnx_file(tmp_path).rename("m.onnx")
    before = sorted(tmp_path.iterdir())
    words, says = REFUSED[case]
    status, out, err = run(capsys, "research", "plan", *words, "-q")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert says in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_is_a_file_is_refused_at_once(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a search."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "plan", too_late)
    monkeypatch.setattr("lowtide.cli.emit.check_emit", lambda *_: None)
    onnx_file(tmp_path).rename("m.onnx")
    status, out, err = run(capsys, "emit", "m.tflite", "-o", "m.onnx/c", "-q")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "'m.onnx' is a file" in err


def test_weights_that_cannot_be_copied_are_seen_at_once(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are, --copy-external is advised; where they are not, it is not."""
    monkeypatch.setattr(api, "plan", too_late)
    source, there = with_weights_beside(tmp_path), tmp_path / "there"
    there.mkdir()
    call = ["research", "plan", source, "-o", there / "out.onnx", "-q"]
    status, _, err = run(capsys, *call)
    assert (status, "--copy-external" in err) == (2, True)
    (tmp_path / "weights.bin").unlink()
    for more in ([], ["--copy-external"]):
        status, _, err = run(capsys, *call, *more)
        assert (status, "--copy-external" in err, "write the output into the same directory" in err) == (2, False, True)
    assert list(there.iterdir()) == []


def test_what_can_be_written_is(tmp_path: Path, capsys: Captured) -> None:
    """Nothing is refused that could be written before: weights beside, layouts, the snippet of a model in parts."""
    source = with_weights_beside(tmp_path)
    (tmp_path / "weights.bin").unlink()
    files = {"-o": "o.onnx", "--header": "h.h", "--usmp": "u.json", "--plan": "p.json", "--snippet": "s.py"}
    words = [word for option, name in files.items() for word in (option, tmp_path / name)]
    assert run(capsys, "research", "plan", source, "--target", "onnxruntime", *words, "-q")[0] == 0
    assert all((tmp_path / name).exists() for name in files.values())


def test_share_looks_before_it_plans(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the plans, and the layout."""
    monkeypatch.setattr("lowtide.api.sharing.plan_job", too_late)
    monkeypatch.setattr(planning, "plan_job", too_late)
    one, other = graph_file(tmp_path, branches()), graph_file(tmp_path, branches(), "n.graph.json")
    for words in (["--plans", one], ["--plans", one / "p"], ["--header", tmp_path / "none" / "h.h"]):
        status, _, err = run(capsys, "research", "share", one, other, *words, "-q")
        assert (status, err.count("\n")) == (2, 1), err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.graph.json", "n.graph.json"]
