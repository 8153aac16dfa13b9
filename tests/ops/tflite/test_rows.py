"""Every kind of TFLite operator, proved in LiteRT on models of one operator of random shape; broken maps are caught."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest

from lowtide.graph import Graph, Op
from lowtide.ops.forms import Custom, Reduction
from lowtide.ops.index import Index
from lowtide.ops.meaning import meaning
from lowtide.read.tflite.reader import read_tflite
from lowtide.run.probe import RefusedError
from lowtide.run.probe_nodes import probe_node, runner_of
from lowtide_research.bench.tflite_kinds import kinds
from lowtide_research.bench.tflite_net import SAME, VALID, Net
from support.first_wrong import unless_wrong
from support.tflite_nets import graph_with_file

KINDS = sorted({name for name, _ in kinds()})
RARELY_MOVED = {"EQUAL", "NOT_EQUAL"}
"""Drawn numbers are hardly ever equal, so that others seldom change the answer: no broken map is asked of these."""
MODELS = 1
BUDGET = 10**5


def single(folder: Path, kind: str, variant: str, seed: int) -> Graph:
    """A model of one operator, of random shape."""
    net = Net(seed)
    inputs, output = kinds()[kind, variant](random.Random(seed), net)
    net.ends(inputs, [output])
    path = folder / f"{kind}-{variant}-{seed}.tflite".replace(" ", "_").replace("/", "_")
    path.write_bytes(net.bytes())
    return read_tflite(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models lie: both tests of a kind read the same ones."""
    return tmp_path_factory.mktemp("models")


@cache
def probed(folder: Path, kind: str) -> tuple[Counter[str], list[str], list[tuple[Graph, Op]]]:
    """What probing models of a kind shows: counts, reasons to refuse, and the ops that were probed."""
    runner = runner_of("tflite")
    assert runner is not None
    counts: Counter[str] = Counter()
    reasons, ops = [], []
    for variant in sorted(v for k, v in kinds() if k == kind):
        for seed in range(MODELS):
            graph = single(folder, kind, variant, seed)
            for op in graph.ops:
                known = meaning(graph, op)
                assert known is not None
                if known.opaque is not None:
                    reasons.append(f"{variant}: {known.opaque}")
                    continue
                try:
                    findings, _ = probe_node(graph, op, known, runner, seed, BUDGET, 10**8)
                except RefusedError as reason:
                    reasons.append(f"{variant}: {reason}")
                    continue
                assert not findings.wrong, (variant, seed, findings.wrong, known)
                counts["ops"] += 1
                counts["parts"] += findings.parts
                counts["moved"] += findings.inside_moved
                ops.append((graph, op))
    return counts, reasons, ops


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_holds_in_litert(folder: Path, kind: str):
    """What the map leaves out moves nothing, what it names moves something, and sums add up."""
    counts, reasons, _ = probed(folder, kind)
    assert counts["ops"], reasons
    assert counts["parts"], reasons


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in RARELY_MOVED])
def test_a_row_broken_on_purpose_is_caught(folder: Path, kind: str):
    """An index of the first operand that is one row off is seen in some model of the kind."""
    runner = runner_of("tflite")
    assert runner is not None
    tried = 0
    for graph, op in probed(folder, kind)[2]:
        known = meaning(graph, op)
        assert known is not None
        for i, dims in enumerate(known.access.inputs):
            for d, index in enumerate(dims or ()):
                if index is None or index.axis < 0 or known.access.sizes[index.axis] < 3:
                    continue
                tried += 1
                off = Index(index.axis, index.num, index.den, index.lo + index.den, index.hi + index.den)
                changed = (*(dims or ())[:d], off, *(dims or ())[d + 1 :])
                inputs = (*known.access.inputs[:i], changed, *known.access.inputs[i + 1 :])
                wrong = replace(known.access, inputs=inputs)
                form = Custom(known.family, wrong, limits=getattr(known.form, "limits", ()))
                other = replace(known, form=form, access=wrong)
                if unless_wrong(partial(probe_node, graph, op, other, runner, 0, BUDGET, 10**8)) is None:
                    return
    assert not tried, f"{tried} maps a row off, and none was caught"


@pytest.mark.parametrize(
    ("kernel", "padding", "whole"),
    [
        ((5, 4), VALID, True),
        ((9, 9), SAME, True),
        ((4, 4), VALID, False),
        ((5, 3), VALID, False),
        ((2, 2), SAME, False),
    ],
)
def test_a_pool_over_all_adds_up(kernel: tuple[int, int], padding: int, whole: bool) -> None:
    """As a mean does; one that leaves rows out, or makes several, is a window."""
    net = Net()
    x = net.tensor((1, 5, 4, 3))
    net.ends([x], [net.pool(x, "AVERAGE_POOL_2D", kernel, (9, 9) if padding == SAME and whole else (2, 2), padding)])
    graph = graph_with_file(net.bytes())
    known = meaning(graph, graph.ops[0])
    assert known is not None
    assert isinstance(known.form, Reduction) == whole
    assert len(known.access.reduce) == (2 if whole else 0)
    if whole:
        assert (known.access.merge, known.access.merged) == ("sum", "never")
