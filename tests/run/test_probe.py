"""The probe finds a map that is wrong: each row's, broken by one on purpose in every way there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from lowtide.graph import Graph
from lowtide.ops.access import Access, Shapes
from lowtide.ops.forms import Pointwise
from lowtide.ops.index import FIXED, Index
from lowtide.ops.meaning import Meaning, meaning
from lowtide.run.probe import Findings, Probe, RefusedError
from lowtide.run.probe_feeds import only
from lowtide.run.probe_nodes import probe_node
from support.first_wrong import unless_wrong
from support.onnx_rows import INSTANCES, Instance

pytest.importorskip("onnxruntime", reason="the maps are proved in onnxruntime, which is not installed")
OF_EACH_KIND = list({instance.type: instance for instance in reversed(INSTANCES)}.values())
"""The first of each kind; right maps are proved of all."""


def wrong_indices(access: Access, i: int, d: int) -> Iterator[tuple[str, Index | None]]:
    """Indices off by one row, and none, in the place of one; an index in the place of none."""
    index = (access.inputs[i] or ())[d]
    if index is None:
        yield from ((f"along {axis}", Index(axis)) for axis in access.cuttable() if axis not in access.reduce)
    elif index.axis != FIXED:
        yield "lo + 1", replace(index, lo=index.lo + index.den)
        yield "lo - 1", replace(index, lo=index.lo - index.den)
        yield "hi + 1", replace(index, hi=index.hi + index.den)
        yield "hi - 1", replace(index, hi=index.hi - index.den)
        yield "whole", None


def swapped(access: Access, a: int, b: int) -> Access:
    """An access whose results run along each other's axes."""
    other = {a: b, b: a}
    outputs = tuple(tuple(None if x is None else other.get(x, x) for x in dims) for dims in access.outputs)
    return replace(access, outputs=outputs)


def shared(access: Access) -> set[int]:
    """Axes of which a row needs more than its own: there, a part between grains would be promised too little."""
    indices = [index for dims in access.inputs for index in dims or () if index is not None]
    return {index.axis for index in indices if index.hi > index.lo and index.den > 1}


def mutants(access: Access) -> Iterator[tuple[str, Callable[[], Access]]]:
    """Makers of accesses that are broken in one place; a constructor may refuse one, which is caught then."""
    for i, dims in enumerate(access.inputs):
        for d in range(len(dims or ())) if i not in access.literal else ():
            for what, index in wrong_indices(access, i, d):
                changed = (*dims[:d], index, *dims[d + 1 :])  # type: ignore[index]
                inputs = (*access.inputs[:i], changed, *access.inputs[i + 1 :])
                yield f"operand {i}, dimension {d}: {what}", partial(replace, access, inputs=inputs)
    side = [axis for axis in access.cuttable() if axis not in access.reduce]
    for a, b in combinations(side, 2):
        yield f"axes {a} and {b} swapped", partial(swapped, access, a, b)
    if any(axis in access.reduce for axis in access.cuttable()):
        yield "merged by another", partial(replace, access, merge="max" if access.merge == "sum" else "sum")
        yield "not merged", partial(replace, access, reduce=())
    if any(access.grain_of(axis) > 1 and axis in shared(access) for axis in access.cuttable()):
        yield "no grain", partial(replace, access, grain=())


def same(a: Access, b: Access, reads: Shapes) -> bool:
    """Whether two accesses need the same for every part: then one is no mutant of the other."""
    if (a.outputs, a.merge, a.reduce) != (b.outputs, b.merge, b.reduce):
        return False
    for axis in a.cuttable():
        for first in range(a.sizes[axis]):
            for end in range(first + 1, a.sizes[axis] + 1):
                part = {axis: (first, end)}
                for i, shape in enumerate(reads):
                    if shape is not None and a.need(i, shape, part) != b.need(i, shape, part):
                        return False
    return True


def probed(graph: Graph, access: Access | None = None) -> tuple[Findings, Meaning, Shapes]:
    """What probing a graph of one op shows, with its own access or another in its place."""
    from lowtide.run.probe_onnx import OnnxRunner

    (op,) = graph.ops
    known = meaning(graph, op)
    assert known is not None
    if access is not None:
        known = replace(known, access=access)
    reads = tuple(None if t is None else graph.tensor_by_id[t].shape for t in op.operands)
    findings, smaller = probe_node(graph, op, known, OnnxRunner(), 0, 10**9, 10**9)
    assert not smaller
    return findings, known, reads


def unmoved(findings: Findings) -> tuple[int, int, int]:
    """How much of what a map names did not move anything."""
    return (
        findings.inside - findings.inside_moved,
        findings.edges - findings.edges_moved,
        findings.wholes - findings.wholes_moved,
    )


def wider(findings: Findings, right: Findings) -> bool:
    """Whether a map is wider than the right one."""
    return any(a > b for a, b in zip(unmoved(findings), unmoved(right), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("instance", OF_EACH_KIND, ids=[instance.label for instance in OF_EACH_KIND])
def test_a_row_broken_by_one_is_caught(instance: Instance) -> None:
    """Every index off by one row or left out, axes swapped, merged otherwise, cut between grains."""
    graph = instance.graph()
    right, known, reads = probed(graph)
    assert not right.wrong
    for what, make in mutants(known.access):
        narrower = what.endswith(("lo + 1", "hi - 1"))
        if instance.attributes.get("antialias") and what.endswith(" 1"):
            continue  # a filter's ends have weight 0, read on one side only: off by one there is not told apart
        try:
            access = make()
            if same(known.access, access, reads) or (narrower and unmoved(right)[1]):
                continue  # where the right map names rows that nobody reads, a narrower one may be as right
            found = unless_wrong(partial(probed, graph, access))
        except (RefusedError, ValueError, IndexError):
            continue
        assert found is None or wider(found[0], right), what


@pytest.mark.parametrize(("dtype", "merge", "outside"), [
    ("bool", "max", False), ("bool", "min", True), ("float32", "max", -np.inf), ("int8", "min", 127),
    ("int8", "sum", 0),
])  # fmt: skip
def test_what_adds_nothing_outside_a_part(dtype: str, merge: str, outside: float) -> None:
    """Of truth values too: False is no largest one, nor True a least one."""
    filled = only(np.ones(3, dtype), (slice(1, 2),), merge)
    assert filled.tolist() == [outside, 1, outside]


def test_a_reduced_axis_that_is_forgotten_is_no_access() -> None:
    """An axis that no result has must be merged."""
    with pytest.raises(ValueError, match="neither in every result nor reduced"):
        Access((3, 4), ((0,),), ((Index(0), Index(1)),))


def test_results_of_other_shapes_are_refused() -> None:
    """A kernel that gives something else than the graph says proves nothing."""
    probe = Probe(lambda given: [given[0][:1]], [], Pointwise(), Access((2,), ((0,),), ()), 0)  # type: ignore
    probe.expect(((2,),))
    with pytest.raises(IndexError):
        probe.run()
