"""Passes and checkpoints: the same numbers, in no more than was worked out, for no more work than was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.analyse.liveness import profile
from lowtide.api.problem import Problem
from lowtide.optimize.checkpoints import Checkpoints, Edge, Run, least
from lowtide.optimize.passes import find_passes
from lowtide.optimize.segments import find_marks, peak_of
from lowtide.read import read_model
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide.transform.statistics import expand, statistics
from lowtide.write.onnx_parts import write_onnx_parts
from support.norm_nets import NormNet, norm_net
from support.onnx_builder import constant, model, node, saved, value

pytest.importorskip("onnxruntime", reason="passes are run in onnxruntime, which is not installed")
from support.part_runs import RELATIVE, difference, feeds


def _chain(blocks: int, *, residual: bool = False) -> NormNet:
    """Of images that are larger than what comes in and goes out."""
    net = NormNet(lambda options: options[0], width=4, side=16)
    net.stretch()
    net.stretch()
    for _ in range(blocks):
        net.block("channels", residual)
    net.shrink()
    return net


def _search(path: Path, target: str = "generic") -> Checkpoints:
    rules = resolve(target)
    problem = Problem.of(rules.as_seen(read_model(path)), rules)
    return Checkpoints(problem.memory, problem.graph.own_order, Limits(seconds=60))


def test_a_statistic_behind_another_one_is_a_pass_more(tmp_path: Path):
    """The first convolution runs for each of three norms and for the result, the last one once."""
    graph = read_model(saved(_chain(3).model(), tmp_path))
    expanded = expand(graph, statistics(graph)).graph
    passes = find_passes(expanded, expanded.own_order, None, 256)
    assert passes is not None
    convolutions = [op.id for op in expanded.ops if op.type == "Conv"]
    recomputed = passes.recomputed()
    assert [recomputed.get(op, 0) for op in convolutions] == [3, 3, 3, 2, 2, 1, 1, 0, 0]
    ran = passes.sequence()
    assert set(ran) == set(expanded.own_order)
    made: set[int] = set()
    for op in ran:
        read = expanded.op_by_id[op].inputs
        assert all(t in made for t in read if t in expanded.producer)
        made.update(expanded.op_by_id[op].outputs)


def test_marks_are_where_one_tensor_is_there(tmp_path: Path):
    """Between residual blocks, and not within them."""
    graph = read_model(saved(_chain(2, residual=True).model(), tmp_path))
    marks = find_marks(graph, graph.own_order, 256)
    sums = [k + 1 for k, op in enumerate(graph.ops) if op.type == "Add"]
    inner = [m.position for m in marks[1:-1]]
    assert set(sums) <= set(inner)
    assert inner == [1, 2, 3, 4, *sums]
    assert (marks[0].position, marks[-1].position) == (0, len(graph.ops))


@pytest.mark.slow
def test_more_work_buys_a_lower_peak(tmp_path: Path):
    """Without work the statistics have to stay in whole tensors; the estimates are those of the whole plan."""
    search = _search(saved(_chain(2).model(), tmp_path))
    search.limits = _Tries(search=search, most=100)
    free, dear = least(search, search.peak, 0), least(search, search.peak, 3 * search.flops)
    assert dear is not None
    bytes_needed = [max(run.peak for run in runs) for runs in (free, dear) if runs is not None]
    assert bytes_needed[-1] < bytes_needed[0] or free is None
    assert bytes_needed[-1] < 0.8 * search.peak
    passed = search.applied(dear)
    assert peak_of(passed.parts.graph, search.memory.target) <= 1.05 * bytes_needed[-1]
    assert sum(search.recomputed(run.edge) for run in dear) <= 3 * search.flops


@dataclass(frozen=True)
class _Tries(Limits):
    """Limits that are over when so many segments were worked out: time that does not hang on the machine."""

    search: Checkpoints | None = None
    most: int = 0

    def over(self) -> bool:
        """Whether they were."""
        assert self.search is not None
        return self.search.tried >= self.most


@pytest.mark.slow
@pytest.mark.parametrize("tries", [30, 60])
def test_a_wide_bound_is_worth_no_less_in_little_time(tries: int, tmp_path: Path):
    """After as many segments the peak within more work is no higher; one of them is a way at all."""
    path = saved(_chain(3).model(), tmp_path)
    peaks = []
    for most in (0.1, 0.3, 1.0, 6.0):
        search = _search(path)
        search.limits = _Tries(search=search, most=tries)
        runs = least(search, search.peak, int(most * search.flops))
        peaks.append(search.peak if runs is None else max(run.peak for run in runs))
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < search.peak or tries < 60


def _runs_the_same(path: Path, folder: Path, part: float, most: float, target: str) -> bool:
    """Plan within a part of the peak and run it; whether there was something to plan."""
    search = _search(path, target)
    runs = search.way(int(part * search.peak), int(most * search.flops))
    if runs is None:
        return False
    passed = search.applied(runs)
    graph = passed.parts.graph
    out = folder / "passed.onnx"
    write_onnx_parts(path, passed.parts, graph.own_order, out)
    assert difference(path, out, feeds(path)) <= 10 * RELATIVE
    memory = Problem.of(graph, search.memory.target).memory
    assert profile(memory, range(len(graph.ops))).peak <= 1.3 * part * search.peak
    return True


def test_what_has_no_rows_is_handed_on_whole(tmp_path: Path):
    """A segment in passes may end with a matrix."""
    nodes = [node("Conv", "x w", "a"), node("Flatten", "a", "b"), node("Relu", "b", "c"), node("MatMul", "c m", "y")]
    weights = [constant("w", [0.1] * 8, (4, 2, 1, 1)), constant("m", [0.1] * 2048, (1024, 2))]
    net = model(nodes, [value("x", (2, 2, 16, 16))], [value("y", (2, 2))], weights)
    search = _search(saved(net, tmp_path))
    flat = [k for k, mark in enumerate(search.marks) if mark.tensor == search.graph.ops[1].outputs[0]]
    assert flat
    assert search._chunks(Run(Edge(0, flat[0], "passes"), 0, rows=4)) == 0  # type: ignore[reportPrivateUsage]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["generic", "onnxruntime"])
def test_plans_of_every_size_run_the_same(target: str, tmp_path: Path):
    """A chain of norms within ever less, each within what was asked for."""
    path = saved(_chain(2, residual=True).model(), tmp_path)
    done = [part for part in (0.9, 0.7) if _runs_the_same(path, tmp_path, part, 4.0, target)]
    assert 0.7 in done


@pytest.mark.slow
@settings(deadline=None, max_examples=5, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_networks_run_the_same(data: st.DataObject):
    """Norms of all kinds, means, residuals, images that grow."""
    pick: Callable[[Sequence[Any]], Any] = lambda options: data.draw(st.sampled_from(tuple(options)))  # noqa: E731
    with TemporaryDirectory() as folder:
        path = saved(norm_net(pick, pick((2, 3))), Path(folder))
        _runs_the_same(path, Path(folder), pick((0.4, 0.6, 0.8)), 4.0, pick(("generic", "onnxruntime")))
