from __future__ import annotations

import pytest

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research.schedule.zhong.fusion import Fusion, fuse
from lowtide_research.schedule.zhong.problem import ReducedProblem, problem_of
from stress_zhong import flaws, optimum, sample


def problem(
    ops: list[tuple[tuple[int, ...], int]], outputs: tuple[int, ...], inputs: tuple[int, ...] = ()
) -> ReducedProblem:
    """One op per ``(tensors read, bytes made)``; op i makes tensor i; graph inputs are tensors 100, 101, ..."""
    tensors = [Tensor(100 + i, size, Kind.INPUT) for i, size in enumerate(inputs)]
    tensors += [Tensor(i, size, Kind.OUTPUT if i in outputs else Kind.ACTIVATION) for i, (_, size) in enumerate(ops)]
    graph = Graph("toy", tuple(tensors), tuple(Op(i, read, (i,)) for i, (read, _) in enumerate(ops)))
    return problem_of(memory_model(graph, BUILT_IN["strict"]))


@pytest.mark.slow
def test_each_theorem_keeps_the_optimum() -> None:
    """The exact optimum before is the optimum after, for IV.1, for IV.2 and for both."""
    before = after = 0
    for seed in range(100):
        wrong, _, (ops, nodes) = flaws(seed)
        assert not wrong
        before, after = before + ops, after + nodes
    assert after < 0.75 * before


def test_printed_condition_of_theorem_two_is_too_weak() -> None:
    """Asked of the best order only, as equations (15) and (16) are, Theorem IV.2 loses the optimum."""
    whole = problem_of(sample(853)[1])
    best = optimum(whole)[0]
    assert optimum(fuse(whole, Limits()))[0] == best
    assert optimum(fuse(whole, Limits(), every_order=False))[0] > best


def test_fused_order_is_an_order_of_the_ops() -> None:
    """Every op once, after what it needs; the peak of the nodes is that of the ops."""
    for seed in range(100):
        whole = problem_of(sample(seed)[1])
        fused = fuse(whole, Limits())
        order = fused.expand(range(fused.n))
        assert sorted(order) == list(range(whole.n))
        step = {i: t for t, i in enumerate(order)}
        assert all(step[u] < step[v] for v, before in enumerate(whole.preds) for u in before)
        assert fused.peak(range(fused.n)) == whole.peak(order)
        assert fused.floor <= fused.peak(range(fused.n))
        assert fused.peak(fused.lift(range(whole.n))) == whole.peak(fused.expand(fused.lift(range(whole.n))))


def test_falling_chain_is_one_node() -> None:
    """Theorem IV.1: what never grows, after the largest footprint, runs at once."""
    whole = problem([((100,), 8), ((0,), 6), ((1,), 4), ((2,), 2)], (3,), (1,))
    assert fuse(whole, Limits(), fusion="monotonic").members == ((0, 1, 2, 3),)


def test_rising_chain_is_one_node() -> None:
    """Theorem IV.1, the other way: what never shrinks waits for its last op."""
    whole = problem([((100,), 2), ((0,), 4), ((1,), 6), ((2,), 8)], (3,), (1,))
    assert fuse(whole, Limits(), fusion="monotonic").members == ((0, 1, 2, 3),)


def test_valley_is_kept() -> None:
    """A chain with its least bytes in the middle is two nodes: something else may run there."""
    whole = problem([((100,), 8), ((0,), 1), ((1,), 8)], (2,), (8,))
    assert fuse(whole, Limits()).n == 2


@pytest.mark.parametrize(("fusion", "nodes"), [("none", 4), ("monotonic", 3), ("general", 1), ("both", 1)])
def test_residual_block_needs_the_second_theorem(fusion: Fusion, nodes: int) -> None:
    """Figure 6: convolution, convolution, addition with the storage's input become one op."""
    whole = problem([((100,), 4), ((0,), 4), ((1,), 4), ((2, 0), 4)], (3,), (4,))
    fused = fuse(whole, Limits(), fusion=fusion)
    assert fused.n == nodes
    assert optimum(fused)[0] == optimum(whole)[0] == 12


def test_sub_graphs_above_the_bound_are_left_alone() -> None:
    """The paper's M."""
    whole = problem([((100,), 4), ((0,), 4), ((1, 100), 4)], (2,), (4,))
    assert fuse(whole, Limits(), fusion="general", bound=1).n == 3
    assert fuse(whole, Limits(), fusion="general", bound=2).n == 1  # two at a time


def test_shared_tensor_forbids_moving_its_reader() -> None:
    """Of a rising chain the first op does not wait if it may free a tensor that somebody else reads too."""
    whole = problem([((100,), 2), ((0,), 8), ((100,), 1)], (1, 2), (4,))
    assert fuse(whole, Limits()).n == 3
    assert fuse(problem([((100,), 2), ((0,), 8)], (1,), (1,)), Limits()).n == 1


def test_no_time_fuses_nothing() -> None:
    """Once the time is over the graph is left as it is."""
    whole = problem_of(sample(3)[1])
    assert fuse(whole, Limits(seconds=0)).n == whole.n


def test_fusion_is_deterministic() -> None:
    """The same graph gives the same nodes, numbered alike."""
    for seed in range(20):
        whole = problem_of(sample(seed)[1])
        assert fuse(whole, Limits()) == fuse(whole, Limits())
