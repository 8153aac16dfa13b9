"""Peak first: what crosses the peak lies one on another, and the rest around it."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.allocate.arena import ENGINES
from lowtide.allocate.buffers import Problem, arena_buffers, block, height_of, load_bound
from lowtide.allocate.greedy import RULES, Portfolio
from lowtide.allocate.peak_first import STACKS, PeakFirst, _stacked
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from support.small_problems import check, least_height, random_buffers, with_ties


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 6), st.sampled_from([(1,), (4,), (1, 2, 8)]))
def test_random_problems(seed: int, n: int, alignments: tuple[int, ...]) -> None:
    """Every placement is valid, never below the least height, never above the engine's own first attempt."""
    problem = Problem(random_buffers(seed, n, 6, 5, alignments))
    found = PeakFirst().pack(problem, Limits())
    check(problem, found.offsets)
    assert (
        found.height_bytes
        == height_of(problem, found.offsets)
        <= PeakFirst(work=0).pack(problem, Limits()).height_bytes
    )
    assert found.lower_bound_bytes <= least_height(problem) <= found.height_bytes
    apart = Problem(problem.buffers, (), with_ties(seed, problem.buffers).apart)
    check(apart, PeakFirst().pack(apart, Limits()).offsets)


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_lies_between_the_buffers_of_the_peak(stack: str) -> None:
    """At the first highest step the fixed offsets and sizes are those of a stack from the bottom up."""
    rng = Random(1)
    buffers = tuple(
        block(f"b{i}", a := rng.randint(0, 20), a + rng.randint(1, 9), rng.randint(1, 50)) for i in range(60)
    )
    problem = Problem(buffers)
    bound = load_bound(problem)
    peak = next(s for s in range(30) if sum(b.size for b in buffers if b.start <= s < b.end) == bound)
    core = _stacked(problem, stack)
    for rule in RULES:
        offsets = core.place(core.order(rule.key), rule.best_fit)
        assert offsets is not None
        there = sorted((offsets[i], b.size) for i, b in enumerate(buffers) if b.start <= peak < b.end)
        assert [at for at, _ in there] == [sum(size for _, size in there[:k]) for k in range(len(there))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings_of", ["layers=12,ahead=1", "layers=10,micro=4,ahead=2", "layers=8,micro=3,ahead=1,seed=5"]
)
@pytest.mark.parametrize("target", ["strict", "generic"])
def test_training_steps_lose_no_byte(settings_of: str, target: str) -> None:
    """Thousands of buffers over one summit: at the load bound, where the greedy rules are above it."""
    model = memory_model(zoo.build(f"gpt_training:{settings_of},width=256,vocabulary=1000").graph(), BUILT_IN[target])
    order = range(len(model.graph.ops))
    steps = profile(model, order)
    problem = arena_buffers(model, order, steps.in_place, model.alignment, steps).problem
    found = PeakFirst().pack(problem, Limits())
    assert found.optimal
    assert found == PeakFirst().pack(problem, Limits())
    assert found.height_bytes <= Portfolio().pack(problem, Limits()).height_bytes


def test_it_says_what_it_does_not_place() -> None:
    """Pairs that may overlap, and fixed offsets; an empty problem is one attempt."""
    buffers = (block("a", 0, 2, 4), block("b", 1, 3, 4))
    assert PeakFirst().supports(Problem(buffers)) is None
    assert PeakFirst().supports(Problem((replace(buffers[0], offset=4), buffers[1]))) == "fixed offsets"
    assert PeakFirst().supports(with_ties(3, random_buffers(3, 6, 4, 4))) == "buffers that may overlap"
    assert PeakFirst().pack(Problem(()), Limits()).optimal
    assert any(isinstance(e, PeakFirst) for e in ENGINES)


def test_time_ends_it_after_one_attempt() -> None:
    """Without time there is still a placement."""
    problem = Problem(tuple(block(f"b{i}", i % 5, i % 5 + 1 + i % 4, 3 + i * 7 % 11) for i in range(40)))
    late = PeakFirst().pack(problem, Limits(seconds=1e-9))
    check(problem, late.offsets)
    assert late.counters["peak first passes"] == 1


def test_sizes_near_the_limit_are_left_to_others() -> None:
    """Stacked offsets and sizes together would be above 2^62; the greedy engine counts them, and there is a plan."""
    unit = 56_934_395_289_226_853
    sizes = {80: 3, 63: 1, 66: 3, 48: 3, 84: 3, 164: 9, 42: 7, 172: 8, 67: 9, 148: 9}
    kinds = {63: Kind.INPUT, 148: Kind.INPUT, 48: Kind.CONSTANT, 172: Kind.OUTPUT}
    tensors = tuple(Tensor(t, n * unit, kinds.get(t, Kind.ACTIVATION)) for t, n in sizes.items())
    rows = [((63, 48), (66,)), ((66,), (84,)), ((84,), (80,)), ((148,), (67, 164)), ((80, 164, 80), (42,)),
            ((148, 84), (172,))]  # fmt: skip
    ops = tuple(Op(i, read, made, workspace=5 * unit * (i == 4)) for i, (read, made) in enumerate(rows))
    plan = lowtide.research.plan(Graph("large", tensors, ops, sha256="1" * 64), target="generic,alignment=1")
    assert (plan.peak_bytes, plan.arena_bytes, plan.optimal) == (32 * unit, 32 * unit, True)
    assert PeakFirst().supports(Problem((block("a", 0, 1, 2**61),))) is not None
    assert PeakFirst().supports(Problem((block("a", 0, 1, 2**60),))) is None
