"""Every row of ATen's ops, proved in torch on a small instance; and each row broken on purpose is caught."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import pytest

from lowtide.graph import Graph, Op
from lowtide.ops import aten
from lowtide.ops.access import Access
from lowtide.ops.forms import Custom
from lowtide.ops.index import Index
from lowtide.ops.kinds import TABLE
from lowtide.ops.meaning import Meaning, meaning
from lowtide.run.probe import Findings, RefusedError
from lowtide.run.probe_nodes import probe_node, runner_of
from support.aten_rows import INSTANCES, NOT_RUN, Instance, graph_of
from support.first_wrong import unless_wrong

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
BUDGET = 10**7


def test_every_row_has_an_instance():
    """Or a reason why it is not run."""
    instances = {aten.name_of(instance.type) for instance in INSTANCES}
    in_table = {aten.name_of(name) for kind in TABLE for name in kind.types if name.startswith("aten.")}
    assert (set(aten.ROWS) | aten.POINTWISE | in_table) - instances == set(NOT_RUN)
    assert not instances & set(NOT_RUN)


def probed(graph: Graph, op: Op, meaning: Meaning, seed: int = 0) -> Findings:
    """What probing shows of this meaning."""
    runner = runner_of("aten")
    assert runner is not None
    return probe_node(graph, op, meaning, runner, seed, BUDGET, BUDGET)[0]


@needs_torch
@pytest.mark.parametrize("instance", INSTANCES, ids=lambda c: f"{c.type[5:]}-{len(c.reads)}")
def test_a_row_holds_in_torch(instance: Instance):
    """What the map leaves out moves nothing, what it names moves something, and sums add up."""
    graph, op = graph_of(instance)
    known = meaning(graph, op)
    assert known is not None
    assert known.opaque is None, known.opaque
    cuttable = known.access.cuttable()
    assert len(cuttable) == instance.dims if instance.dims >= 0 else cuttable
    findings = probed(graph, op, known)
    assert not findings.wrong
    assert findings.parts or findings.sums or not cuttable
    silent = len(instance.unread) == len(instance.reads) or aten.name_of(op.type) == "embedding_dense_backward"
    assert findings.inside_moved or not findings.inside or silent


def broken(access: Access, unread: tuple[int, ...] = ()) -> list[Access]:
    """The access with one of its indices a row off, one side at a time; of operands that are read."""
    result = []
    for i, dims in enumerate(access.inputs):
        for d, index in enumerate(dims or () if i not in unread else ()):
            if index is None or index.axis < 0:
                continue
            for lo, hi in ((1, 1), (-1, -1)):
                wrong = Index(index.axis, index.num, index.den, index.lo + lo * index.den, index.hi + hi * index.den)
                changed = (*(dims or ())[:d], wrong, *(dims or ())[d + 1 :])
                result.append(replace(access, inputs=(*access.inputs[:i], changed, *access.inputs[i + 1 :])))
    return result


@needs_torch
@pytest.mark.parametrize("instance", [c for c in INSTANCES if c.dims], ids=lambda c: f"{c.type[5:]}-{len(c.reads)}")
def test_a_row_broken_on_purpose_is_caught(instance: Instance):
    """An index one row off, on either side, is seen by the probe for every op that reads rows by their place."""
    graph, op = graph_of(instance)
    known = meaning(graph, op)
    assert known is not None
    for wrong in broken(known.access, instance.unread):
        try:
            limits = getattr(known.form, "limits", ())
            other = replace(known, form=Custom(known.family, wrong, limits=limits), access=wrong)
            findings = unless_wrong(partial(probed, graph, op, other))
        except RefusedError:
            continue
        assert findings is None, (wrong, known.access)
