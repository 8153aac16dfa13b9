"""Files that Vela compiled: their own plan is judged, and no other is said to be best."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from lowtide import api
from lowtide.errors import InputError
from support.command import Captured, run
from support.tflite_builder import compiled_by_vela

HEAD = 1024


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file as Vela makes it."""
    path = tmp_path / "net_vela.tflite"
    path.write_bytes(compiled_by_vela().bytes())
    return path


@pytest.mark.parametrize("call", [lowtide.plan, lowtide.research.plan, lowtide.inspect, lowtide.research.compare])
def test_no_other_plan_is_made(call: Callable[[Path], object], model: Path):
    """Neither an order nor a bound of ours holds for it: refused, with what judges it."""
    with pytest.raises(InputError, match=r"compiled by Vela, .*`lowtide check` and `lowtide verify` judge that one"):
        call(model)


def test_check_judges_the_plan_in_the_file(model: Path, capsys: Captured):
    """With --as-is and without: the same figures, the head that the file's offsets have, and no reason if it fits."""
    needed = api.check(model, "1MiB").required_bytes
    for more in ((), ("--as-is",)):
        status, out, _ = run(capsys, "check", model, "--budget", str(needed), *more)
        assert (status, out.startswith("fits: ")) == (0, True)
        assert "cannot" not in out
        assert "file order and offsets" in out
        status, out, _ = run(capsys, "check", model, "--budget", str(needed - 1), *more)
        assert (status, out.startswith("does not fit: ")) == (3, True)
        assert "excess 1 B" in out
    judged = api.check(model, "1MiB", reserve="1KiB")
    assert judged.parts is not None
    assert judged.parts.planned == HEAD
    assert judged.parts.unknown == ["CUSTOM:ethos-u"]
    assert (judged.required_bytes, judged.own_plan, judged.optimal) == (needed + 1024, True, False)


def test_check_in_memories(model: Path):
    """Head and tail, as of any file for TFLM."""
    judged = api.check(model, banks=[f"sram={HEAD}", "psram=64KiB"])
    assert judged.status == "ok"
    assert [m.name for m in judged.memories or [] if m.required_bytes] == ["sram", "psram"]
    assert judged.arenas is not None
    assert judged.arenas.has_two_arrays
    assert api.check(model, banks=["sram=100", "psram=100"]).status in ("over_budget", "impossible")


def test_as_it_stands_says_no_reason_where_it_fits(tmp_path: Path, capsys: Captured):
    """A file whose own plan fits is not told of tensors that cannot share what there is."""
    from support.tflite_builder import branches

    path, out = tmp_path / "m.tflite", tmp_path / "p.tflite"
    path.write_bytes(branches().bytes())
    assert run(capsys, "research", "plan", path, "-o", out)[0] == 0
    needed = lowtide.research.plan(path).required_bytes
    status, text, _ = run(capsys, "check", out, "--as-is", "--budget", str(needed))
    assert status == 0
    assert "cannot" not in text


def test_other_targets_take_it_as_any_graph(model: Path):
    """Under rules of a compiler of one's own it is a graph with one op."""
    assert lowtide.research.plan(model, target="generic").status == "ok"
