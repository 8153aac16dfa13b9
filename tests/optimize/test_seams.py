"""The search for seams: as low as any choice of concats, and no cut that the peak does not need."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.seams import best_elimination, turns_of
from lowtide.read import read_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph
from lowtide.transform.seam_parts import apply_with_elimination
from lowtide.transform.seams import Elimination, find_elimination, operand_rows
from support.seam_nets import dense_block, seam_net

GENERIC = BUILT_IN["generic"]


def _least(graph: Graph) -> tuple[int, tuple[int, ...]]:
    memory = memory_model(graph, GENERIC)
    found = Exact().schedule(memory, Limits(seconds=20))
    peak = profile(memory, found.order).peak
    assert found.lower_bound == peak
    return peak, tuple(found.order)


@st.composite
def _nets(draw: st.DrawFn) -> Graph:
    model = seam_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((6, 9))))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return read_model(path)


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(_nets(), st.booleans())
def test_as_low_as_all_seams_and_lower_than_none(graph: Graph, accumulate: bool) -> None:
    """The peak is the part graph's least one, at most that of all seams at once, and below that of no seams; one concat
    fewer, and it would be higher or nothing were gained."""
    cutter = Cutter(graph)
    memory = memory_model(graph, GENERIC)
    uncut, order = _least(graph)
    best = best_elimination(cutter, memory, order, Limits(seconds=30), accumulate=accumulate)
    everything = find_elimination(cutter, accumulate=accumulate)
    whole = apply_with_elimination(cutter, (), everything) if everything.cuts else None
    reached = uncut if whole is None else min(uncut, _least(whole.graph)[0])
    assert best.peak <= reached
    if best.parts is None:
        assert best.elimination == Elimination(())
        assert reached == uncut
        return
    assert best.peak < uncut
    assert _least(best.parts.graph)[0] == best.peak


def _concats(cutter: Cutter) -> list[int]:
    return [op.id for op in cutter.graph.ops if operand_rows(cutter, op.id) is not None]


@pytest.mark.slow
@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(_nets())
def test_no_choice_of_concats_is_lower(graph: Graph) -> None:
    """Every set of concats, tried one by one, with operands as they are."""
    cutter = Cutter(graph)
    ids = _concats(cutter)[:5]
    uncut, order = _least(graph)
    best = best_elimination(cutter, memory_model(graph, GENERIC), order, Limits(seconds=30))
    lowest = uncut
    for many in range(len(ids) + 1):
        for without in combinations(ids, many):
            found = find_elimination(cutter, without)
            if found.cuts:
                lowest = min(lowest, _least(apply_with_elimination(cutter, (), found).graph)[0])
    assert best.peak <= lowest


def _block(tmp_path: Path) -> tuple[Cutter, PartGraph]:
    path = tmp_path / "net.onnx"
    path.write_bytes(dense_block().model().SerializeToString())
    cutter = Cutter(read_model(path))
    return cutter, apply_with_elimination(cutter, (), find_elimination(cutter))


def test_sums_follow_their_operands(tmp_path: Path) -> None:
    """In an order that makes the last operand first, its part is added first."""
    cutter, parts = _block(tmp_path)
    by_name = {op.name: op.id for op in parts.graph.ops}
    falling = sorted(parts.graph.own_order, key=lambda o: -o)
    assert by_name
    turns = turns_of(cutter, parts, falling)
    (summed,) = (c for c in parts.elimination.cuts if c.turns)
    assert sorted(turns[summed.op]) == sorted(summed.turns)
    assert turns[summed.op] != summed.turns
    assert turns_of(cutter, parts, parts.graph.own_order)[summed.op] == summed.turns


def test_a_budget_stops_the_search(tmp_path: Path) -> None:
    """What is enough needs no more cuts than what is least; too few ops allowed give none."""
    cutter, _ = _block(tmp_path)
    graph = cutter.graph
    uncut, order = _least(graph)
    memory = memory_model(graph, GENERIC)
    best = best_elimination(cutter, memory, order, Limits(seconds=20))
    assert best.parts is not None
    enough = best_elimination(cutter, memory, order, Limits(seconds=20), enough=uncut - 1)
    assert enough.parts is not None
    assert len(enough.parts.graph.ops) <= len(best.parts.graph.ops)
    assert best_elimination(cutter, memory, order, Limits(seconds=20), most_ops=3).parts is None
