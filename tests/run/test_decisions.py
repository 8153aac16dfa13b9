"""Random decisions about training steps, executed: a sample of `stress_fission.py`; and wrong ones, which are seen."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.transform.fission import region_of
from lowtide_research import zoo
from stress_fission import Count, Flaw, check, compare
from support.decisions import random_ends, random_region
from support.step_kernels import _product
from support.step_runs import random_feeds, run_parts, run_step
from support.steps import SMALL, labelled_graph


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(9))
def test_random_decisions_compute_what_the_step_does(seed: int) -> None:
    """With plans and without; to the bit where no sum is added up in parts."""
    count = Count()
    check(1000 + seed, count)
    assert count.planned >= 1
    assert count.decisions > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_random_regions_of_the_workloads(name: str) -> None:
    """Along any class of dimensions, in parts of any sizes."""
    graph = zoo.build(f"{name}:{SMALL[name]}").graph()
    feeds = random_feeds(graph, 1)
    own, count, random = run_step(graph, feeds), Count(), Random(name)
    for _ in range(3):
        region = random_region(graph, random)
        assert region is not None
        results = run_parts(graph, region, random_ends(region.rows, random), feeds)
        compare(own, results, count, summed=bool(region.summed))
    assert count.decisions == 3


def _pair(kind: str, right: str, wrong: str, shape: tuple[int, ...], **attributes: Any) -> tuple[Graph, Graph]:
    """An op between two that may be cut anywhere, with labels that hold and with some that do not."""
    words = " ".join("abcd"[: len(shape)])
    graphs = []
    for labels in (right, wrong):
        graph = labelled_graph(
            [("relu", ["x"], "y", f"{words} -> {words}"), (kind, ["y"], "z", labels),
             ("square", ["z"], "out", f"{words} -> {words}")],
            {"x": shape, "y": shape, "z": shape, "out": shape},
        )  # fmt: skip
        ops = [replace(op, attributes={**op.attributes, **attributes}) for op in graph.ops]
        graphs.append(replace(graph, ops=tuple(ops)))
    return graphs[0], graphs[1]


WRONG = {
    "softmax by elements": (_pair("softmax", "a . -> a .", "a b -> a b", (3, 4)), 0, 1),
    "a transpose that turns nothing": (
        _pair("permute", "a b -> b a", "a b -> a b", (4, 4), permutation=(1, 0)), None, 0
    ),
    "a pool without windows": (
        _pair("mean_pool", "a b . . -> a b . .", "a b c . -> a b c .", (2, 2, 4, 4), kernel=3, stride=1, pad=1), 0, 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_rule_is_seen(case: str) -> None:
    """Results of the parts are others; with the right one they are equal to the bit."""
    (right, wrong), good, bad = WRONG[case]
    feeds = random_feeds(right, 3)
    own = run_step(right, feeds)
    if good is not None:
        region = region_of(right, {0: good, 1: good, 2: good})
        compare(own, run_parts(right, region, (1, region.rows), feeds), Count(), summed=False)
    region = region_of(wrong, {0: bad, 1: bad, 2: bad})
    with pytest.raises((Flaw, InputError)):
        compare(own, run_parts(wrong, region, (1, region.rows), feeds), Count(), summed=False)


EQUATIONS = ["nsd,df->nsf", "nhse,nhte->nhst", "ab->", "nsf,nsd->df", "a,b->ab", "ncyxij,ocij->noyx"]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_products_are_those_of_einsum(equation: str) -> None:
    """And no row hangs on which others there are."""
    sizes = dict(zip("abcdefhijnostxy", (2, 3, 2, 4, 3, 2, 2, 2, 2, 3, 2, 3, 4, 2, 2), strict=True))
    random = np.random.default_rng(1)
    reads, words = equation.split("->")
    operands = [random.standard_normal([sizes[w] for w in own]) for own in reads.split(",")]
    result = _product(equation, *operands)
    assert np.allclose(result, np.einsum(equation, *operands), rtol=1e-13, atol=1e-13)
    if words and reads.startswith(words[0]) and words[0] not in reads.split(",")[-1]:
        first = _product(equation, operands[0][:1], *operands[1:])
        assert np.array_equal(result[:1], first)
