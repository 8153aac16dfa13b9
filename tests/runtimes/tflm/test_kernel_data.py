"""What kernels keep in the arena, operator by operator: against the pip package, and against recorded measurements."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from lowtide import api
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm.rule import TflmRule
from lowtide.run.tflite import ask
from lowtide.runtimes.tflm.builds import I386, PIP, X86_64, Build
from lowtide.runtimes.tflm.persistent import arena_parts
from lowtide.runtimes.tflm.planner import tflm_head
from lowtide_research.bench.tflite_kinds import kinds
from support.tflite_builder import Net

RESULTS = Path(__file__).parents[3] / "packages/research/results/tflm-32bit-operators.json"
BUILDS = {
    "32-reference": Build(I386, False, False),
    "32-cmsis_nn": Build(I386, False, False, "cmsis_nn", "none"),
    "64-reference": Build(X86_64, False, False),
}


def one(kind: str, variant: str, seed: int) -> bytes:
    """A model of one operator of random shape."""
    net = Net(seed)
    given, out = kinds()[kind, variant](random.Random(f"{kind} {variant} {seed}"), net)
    net.ends(given, [out])
    return net.bytes()


def predicted(data: bytes, build: Build) -> tuple[int, int, int, bool]:
    """Head, tail, smallest arena, and whether that is said to be exact."""
    model = parse_tflite(data, "m")
    graph = graph_of(model, [], "m", "")
    rule = TflmRule(build.kernels, build.simd, build.abi.pointer)
    head = tflm_head(model, graph, graph.own_order, None, rule)
    assert head is not None
    parts = arena_parts(model, graph, graph.own_order, build)
    return head.bytes, parts.persistent_bytes, parts.smallest_arena(head.bytes), parts.exact_for(head.bytes)


@pytest.mark.slow
@pytest.mark.skipif(not RESULTS.exists(), reason="needs packages/research/results, which an installed package has not")
@pytest.mark.parametrize("name", list(BUILDS))
def test_operators_as_measured_in_builds(name: str):
    """Head and smallest arena of every kind of operator, as measured in TFLM built from its sources."""
    rows = [row for row in json.loads(RESULTS.read_text())["rows"] if row["build"] == name]
    assert len(rows) >= 400
    missed = 0
    for row in rows:
        kind, rest = row["model"].split(" ", 1)
        variant, seed = rest.rsplit(" ", 1)
        head, _, arena, exact = predicted(one(kind, variant, int(seed)), BUILDS[name])
        assert head == row["head"], row["model"]
        assert arena == row["arena"] or (not exact and arena > row["arena"]), row["model"]
        missed += arena != row["arena"]
    assert missed <= 0.05 * len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "variant"), list(kinds())[::10], ids=lambda word: str(word).replace(" ", "_"))
def test_operators_in_the_pip_package(tmp_path: Path, kind: str, variant: str):
    """Head and tail as TFLM reports them."""
    pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
    path = tmp_path / "m.tflite"
    path.write_bytes(one(kind, variant, 1))
    seen = ask("tflm", [str(path)], 0, 2, [()])["measured"][0]
    head, tail, arena, exact = predicted(path.read_bytes(), PIP)
    assert (head, tail) == (seen["head_bytes"], seen["tail_bytes"])
    assert arena == seen["smallest_arena_bytes"] or not exact


def test_what_is_not_known_is_named(tmp_path: Path):
    """A custom operator: at least so much, and its name in the parts and on the screen."""
    from lowtide.report.text import parts_text

    net = Net()
    x = net.tensor((1, 8, 8, 4))
    y = net.like(x)
    net.op("Mystery", [x], [y], custom=True)
    net.ends([x], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(net.bytes())
    parts = api.plan(path).runtime_parts
    assert parts is not None
    assert not parts.exact
    assert parts.unknown == ["CUSTOM:Mystery"]
    assert "at least" in parts_text(parts)
    assert "not known: CUSTOM:Mystery" in parts_text(parts)
