"""Parts of .tflite models that are cut again: run beside the whole in TFLM and LiteRT, they give the same numbers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lowtide
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.rounds import nested, of_file
from lowtide.transform.tflite_file import with_file

pytest.importorskip("tflite_micro", reason="parts are run in TFLM, which is not installed")
pytest.importorskip("ai_edge_litert", reason="parts are run in LiteRT, which is not installed")
from support.tflite_nets import Whole, random_tflite, ways_to_cut, wide_net


def _cut_again(whole: Whole, rng: random.Random) -> PartGraph | None:
    """Two or three rounds of a region or two each; None if fewer could be made."""
    parts: PartGraph | None = None
    for _ in range(rng.choice((2, 3))):
        cutter = Cutter(whole.graph if parts is None else parts.graph)
        stripes, found = rng.choice((2, 3, 5)), list(ways_to_cut(cutter))
        if not found:
            break
        chosen = [rng.choice(found)]
        chosen += [w for w in rng.sample(found, min(4, len(found))) if not w[0].keys() & chosen[0][0].keys()][:1]
        own = cutter.graph.own_order
        try:
            made = apply(cutter, [cutter.region(own, axes, stripes, pace) for axes, pace in chosen])
        except ValueError as error:
            if "before and after" not in str(error):
                raise
            continue
        parts = made if parts is None else nested(parts, made)
    return parts if parts is not None and parts.earlier else None


@pytest.mark.slow
def test_random_networks_of_bytes_cut_again() -> None:
    """25 random int8 networks, four ways each, bit for bit what the whole gives, in each runtime."""
    checked = 0
    for seed in range(25):
        rng = random.Random(seed)
        whole = Whole(random_tflite(rng.choice, rng.choice((2, 3, 5))).bytes())
        for _ in range(4):
            parts = _cut_again(whole, rng)
            if parts is not None:
                checked += 1
                assert not whole.runs_otherwise(of_file(with_file(parts)), bits=True), seed
    assert checked > 40


@pytest.mark.slow
def test_two_dimensions_need_less(tmp_path: Path) -> None:
    """A wide tensor by rows and then by channels or columns: the plan holds, and both runtimes give the same bits."""
    model = tmp_path / "net.tflite"
    model.write_bytes(wide_net().bytes())
    one = lowtide.research.plan(model, target="generic", allow="tile", time=4)
    both = lowtide.research.plan(model, target="generic", allow="tile,nest-tiles", time=4)
    assert both.required_bytes < one.required_bytes
    assert both.rounds
    assert both.exactness == "bits"
    both.apply(model, tmp_path / "out.tflite")
    report = lowtide.verify(model, both, run=True)
    assert any(rule.name == "parts" and f"in {len(both.rounds) + 1} passes" in rule.result for rule in report.checks)
