"""The time of parts whose values leave memory: against each part by itself, one after the other."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from lowtide.analyse.storage import memory_model
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import estimated, priced
from lowtide.optimize.part_clock import clock_of_parts, clock_of_step, nanoseconds_of
from lowtide.optimize.recompute.sequence import sequenced
from lowtide.optimize.recompute.swaps import Bandwidth, clock, in_nanoseconds, with_swaps
from lowtide.optimize.step_regions import step_regions
from lowtide.target import BUILT_IN
from lowtide.transform.fission import Fission, Parts, body_of
from support.decisions import random_ends
from support.steps import random_step

FAMILIES = stand_in("rtx3090.json")[0].families
RECKON = estimated(FAMILIES)
TARGET = BUILT_IN["generic"]


@pytest.mark.parametrize("seed", range(12))
def test_all_parts_take_what_each_takes_by_itself(seed: int) -> None:
    """Parts of any rows, the first of which adds to no sum; a drawn sequence with stores, loads and ops again. Slow
    transfers, for which ops wait."""
    random = Random(seed)
    graph = priced(random_step(seed, batch=7), FAMILIES)
    region, bandwidth = step_regions(graph).regions[0], Bandwidth(3e6, 2e6)
    fission = Fission(region.axes, random_ends(region.rows, random))
    whole = memory_model(body_of(graph, region, fission.all, RECKON).graph, TARGET)
    own = range(len(whole.graph.ops))
    parts = clock_of_parts(graph, region, fission, RECKON, whole, own, bandwidth)
    core = parts.searched.core(whole.alignment)
    order = core.shuffle(parts.searched.without_views(own), 30, seed)[-1][0]
    seconds, units = 0.0, 0
    for number, (a, b) in enumerate(pairwise((0, *fission.ends))):
        body = body_of(graph, region, Parts(((b - a, 1),), int(number > 0)), RECKON).graph
        each = nanoseconds_of(body)
        problem = with_swaps(in_nanoseconds(sequenced(memory_model(body, TARGET), own), each), bandwidth)
        seconds += clock(problem, order) / 1e9
        units += sum(each)
    assert parts.seconds(order) == pytest.approx(seconds, rel=1e-12)
    assert sum(count for _, count in parts.alike) == len(fission.ends)
    assert parts.parts == pytest.approx(units / parts.searched.costs.total)


def test_what_never_waits_takes_what_its_ops_take() -> None:
    """A step as it stands, nothing of which leaves memory."""
    graph = priced(random_step(3), FAMILIES)
    model, own = memory_model(graph, TARGET), range(len(graph.ops))
    step = clock_of_step(graph, model, own, Bandwidth(1e9, 1e9))
    assert step.seconds(own) == pytest.approx(sum(op.cost or 0.0 for op in graph.ops), rel=1e-3)
    assert step.parts == 1
