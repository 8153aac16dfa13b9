"""The ladder of what would make a model fit: each rung is a plan, and its command makes that plan."""

import shlex
import sys

import pytest

import lowtide
from lowtide.cli import main
from lowtide_research.bench.tflite_net import residual
from support.onnx_builder import constant, model, node, saved, value
from support.small_models import branches, graph_file


def _chain(folder, size: int | str = "n"):
    """Three convolutions of pictures whose height and width may be free: any one of them is the peak."""
    weights = [
        constant(f"w{i}", [0.1] * (9 * m * c), (m, c, 3, 3)) for i, (m, c) in enumerate(((8, 1), (8, 8), (1, 8)))
    ]
    nodes = [
        node("Conv", f"{a} w{i}", b, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        for i, (a, b) in enumerate((("x", "a"), ("a", "b"), ("b", "z")))
    ]
    shape = (1, 1, size, size)
    return saved(model(nodes, [value("x", shape)], [value("z", shape)], weights), folder)


def _run(command):
    """The exit status of a rung's command."""
    words = shlex.split(command)
    assert words[0] == "lowtide"
    return main([*words[1:], "-q"])


@pytest.mark.slow
def test_cuts_fit_where_no_order_of_whole_ops_does(tmp_path, capsys):
    """The largest op needs 64 KiB; in stripes the chain fits 48 KiB, by the command that is marked."""
    path = _chain(tmp_path, 32)
    assert lowtide.research.plan(path, budget="48KiB").status == "impossible"
    ways = lowtide.research.ways_to_fit(path, budget="48KiB")
    whole, *others = ways
    assert (whole.how, whole.required_bytes, whole.fits) == ("untiled, more memory", 65536, False)
    assert "tiles" in [way.how for way in others if way.fits]
    assert all(way.required_bytes is not None and way.required_bytes <= 49152 for way in others if way.fits)
    for way in ways:
        status = _run(way.command)
        assert status == (0 if way.fits or way is whole else 3), way
    capsys.readouterr()


def test_a_smaller_input_is_named_with_its_sizes(tmp_path, capsys):
    """Half of what was bound, once that fits; the batch stays."""
    path = _chain(tmp_path)
    ways = lowtide.research.ways_to_fit(path, budget="20KiB", dims={"n": 32})
    smaller = [way for way in ways if way.how.startswith("input")]
    assert [(way.how, way.required_bytes, way.fits) for way in smaller] == [("input 1/2", 16384, True)]
    assert "--dim n=16" in shlex.join(shlex.split(smaller[0].command))
    assert "n=32" not in smaller[0].command
    assert _run(smaller[0].command) == 0
    capsys.readouterr()


@pytest.mark.slow
def test_what_is_allowed_already_is_no_rung(tmp_path):
    """A plan that may cut is not told to cut."""
    path = _chain(tmp_path, 32)
    ways = lowtide.research.ways_to_fit(path, budget="2KiB", allow="tile")
    assert not [way for way in ways if way.how == "cuts"]


def test_nothing_is_said_where_it_fits_or_memories_are_several(tmp_path):
    """The ladder is for one budget that is exceeded."""
    path = _chain(tmp_path, 32)
    assert lowtide.research.ways_to_fit(path, budget="64KiB") == []
    assert lowtide.research.ways_to_fit(path, banks=["a=1KiB", "b=1KiB"]) == []
    assert lowtide.research.ways_to_fit(path) == []


def test_a_graph_without_meanings_has_no_cuts(tmp_path):
    """Only what was made is a rung: here a memory in which the whole ops fit."""
    path = graph_file(tmp_path, branches())
    ways = lowtide.research.ways_to_fit(path, budget="108B", target="strict")
    assert (ways[0].how, ways[0].required_bytes) == ("untiled, more memory", 109)
    assert not [way for way in ways if way.how.startswith(("cuts", "C ", "input"))]
    assert "--target strict" in ways[0].command


def test_rungs_that_the_time_is_over_for_have_no_figure(tmp_path, monkeypatch):
    """They are named with their command, and are not said to fit."""
    monkeypatch.setattr(sys.modules["lowtide.api.ways_to_fit"], "LADDER_SECONDS", -1.0)
    _, *others = lowtide.research.ways_to_fit(_chain(tmp_path, 32), budget="48KiB")
    assert {(way.required_bytes, way.fits) for way in others} == {(None, False)}
    assert any("--allow tile" in way.command for way in others)


def test_after_an_interrupt_no_rung_is_tried(tmp_path):
    """Ctrl-C ends all of them, not the one that is searched."""
    tried = []

    def report(name, _):
        tried.append(name)
        if name == "tiles":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lowtide.research.ways_to_fit(_chain(tmp_path, 32), budget="20KiB", report=report)
    assert tried[-1] == "tiles"  # which others follow


@pytest.mark.slow
@pytest.mark.parametrize("target", ["generic", "onnxruntime"])
def test_the_target_stands_in_the_commands(target, tmp_path):
    """A rung is for the runtime that was asked for."""
    ways = lowtide.research.ways_to_fit(_chain(tmp_path, 32), budget="20KiB", target=target)
    assert all(f"--target {target}" in way.command for way in ways)


@pytest.mark.slow
def test_c_that_fits_without_loops_is_a_rung(tmp_path, capsys, monkeypatch):
    """What TFLM keeps beside the tensors is over the budget; C of the same whole ops has none of it."""
    path = tmp_path / "residual.tflite"
    path.write_bytes(residual().bytes())
    whole = lowtide.research.plan(path, target="loops").required_bytes
    budget = lowtide.research.plan(path).required_bytes - 16
    assert whole <= budget
    monkeypatch.setattr(sys.modules["lowtide.api.ways_to_fit"], "LADDER_SECONDS", 3.0)
    rung = next(way for way in lowtide.research.ways_to_fit(path, budget=budget) if way.how.startswith("C"))
    assert rung.fits
    assert rung.required_bytes is not None
    assert rung.required_bytes <= budget
    assert _run(rung.command.replace("FOLDER", str(tmp_path / "c"))) == 0
    assert (tmp_path / "c" / "model.c").exists()
    capsys.readouterr()
