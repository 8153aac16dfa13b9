"""Ops run whole and in parts, each by itself: right cuts agree, and with a wrong rule they do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import lowtide
from lowtide.ops import meaning as ops_meaning
from lowtide.ops.access import Access, Shapes
from lowtide.ops.families import access_of
from lowtide.ops.forms import Convolution, Form
from lowtide.plan import Plan
from lowtide.read import read_model
from lowtide.transform.cut import Cut, Cutter

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from lowtide.run.probe import RefusedError
from lowtide.run.probe_cuts import probe_cut
from lowtide.run.probe_onnx import OnnxRunner
from support.part_rules import RULES, most_likely_first
from support.part_suite import SUITE
from support.small_nets import pyramid
from support.tflite_nets import graph_with_file, random_tflite

BUDGET = 10**6
BETWEEN_OPS = {
    "first row that is kept", "first row that runs again", "kept rows", "one dimension", "joined constants",
}  # fmt: skip
"""Rules of what goes from one op of a region to another: no op by itself shows them."""


def _cuts(cutter: Cutter) -> Iterator[Cut]:
    """Every axis of every op, in parts that are not equal."""
    for op in cutter.graph.ops:
        for axis in cutter.axes(op.id):
            known, how = cutter.meaning(op.id), cutter.spelling(op.id, axis)
            assert known is not None
            assert how is not None
            size, grain = known.access.sizes[axis], how.grain
            ends = {min(size, -(-size * share // (5 * grain)) * grain) for share in (1, 3, 5)}
            yield Cut(op.id, axis, tuple(sorted(ends)))


def _wrong(name: str, folder: Path, budget: int = BUDGET) -> tuple[int, list[str]]:
    """How many cuts of a network were run, and what was wrong."""
    source = folder / f"{name}.onnx"
    source.write_bytes(SUITE[name]().model().SerializeToString())
    cutter, runner, ran, wrong = Cutter(read_model(source)), OnnxRunner(), 0, []
    for cut in _cuts(cutter):
        try:
            found = probe_cut(cutter, cut, runner, 1, budget)
        except RefusedError:
            continue
        ran += 1
        wrong += [found] if found else []
    return ran, wrong


@pytest.mark.parametrize("name", SUITE)
@pytest.mark.parametrize("budget", [BUDGET, 20])
def test_right_cuts_agree(name: str, budget: int, tmp_path: Path) -> None:
    """As large as they are, and smaller."""
    ran, wrong = _wrong(name, tmp_path, budget)
    assert not wrong
    assert ran or budget < BUDGET


@pytest.mark.parametrize("rule", sorted(RULES.keys() - BETWEEN_OPS))
def test_a_broken_rule_is_seen(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of some network of the suite gives other numbers, or cannot be cut or run so."""
    RULES[rule](monkeypatch)

    def seen(name: str) -> bool:
        try:
            return bool(_wrong(name, tmp_path)[1])
        except Exception:  # a cut that cannot be made is seen as well
            return True

    assert any(map(seen, most_likely_first(rule, SUITE)))


def _plan(tmp_path: Path) -> tuple[Path, Plan]:
    model = tmp_path / "net.onnx"
    model.write_bytes(pyramid().model().SerializeToString())
    plan = lowtide.research.plan(model, target="onnxruntime", allow="tile", time=5)
    assert plan.rewrites
    return model, plan


def test_verify_runs_what_is_cut_by_itself(tmp_path: Path) -> None:
    """And says how many kinds of nodes there are."""
    model, plan = _plan(tmp_path)
    report = lowtide.verify(model, plan, run=True)
    (held,) = [rule.result for rule in report.checks if rule.name == "cut_nodes"]
    assert held.endswith("kinds of nodes give the same results in tiles as untiled")
    assert "cut_nodes" not in {rule.name for rule in lowtide.verify(model, plan).checks}
    assert "cut_nodes" not in {
        rule.name for rule in lowtide.verify(model, lowtide.research.plan(model, target="onnxruntime"), run=True).checks
    }


def _narrow(form: Form, reads: Shapes, writes: Shapes) -> Access:
    """Windows said to end a row early."""
    access = access_of(form, reads, writes)
    if not isinstance(form, Convolution):
        return access
    inputs = [
        None if dims is None else tuple(i if i is None or i.hi <= i.lo else replace(i, hi=i.hi - 1) for i in dims)
        for dims in access.inputs
    ]
    return replace(access, inputs=tuple(inputs))


def test_a_plan_by_a_wrong_access_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planner and checker believe it alike: only the runtime tells."""
    monkeypatch.setattr(ops_meaning, "access_of", _narrow)
    model, plan = _plan(tmp_path)
    lowtide.verify(model, plan)
    with pytest.raises(lowtide.VerificationError, match="tiled along axis") as error:
        lowtide.verify(model, plan, run=True)
    assert str(error.value).startswith("cut_nodes: ")


def test_operators_with_numbers_of_each_channel() -> None:
    """Of 8 bits, in LiteRT: as large as they are, and smaller, to the bit."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    from lowtide.run.probe_tflite import TfliteRunner

    cutter = Cutter(graph_with_file(random_tflite(Random(3).choice).bytes()))
    ran, refused = 0, ""
    for budget in (BUDGET, 500):
        for cut in _cuts(cutter):
            try:
                assert not probe_cut(cutter, cut, TfliteRunner(), 1, budget)
                ran += 1
            except RefusedError as error:
                refused += str(error)
    assert ran
    assert "quantization" not in refused
