"""MAGIS's F-Tree: dominators and scores on a graph that can be seen through, and what it proposes of a step."""

from __future__ import annotations

from lowtide.api.problem import Problem
from lowtide.graph import Graph
from lowtide.optimize.fission_tree import hot_tensors, tree_regions
from lowtide.optimize.step_regions import step_regions
from lowtide.target import BUILT_IN
from lowtide.transform.fission import region_of
from lowtide_research import zoo
from support.steps import SMALL, labelled_graph, random_step


def _chain() -> Graph:
    """a - b - c, then d of b and c: large in the middle."""
    return labelled_graph(
        [
            ("a", ["x"], "t", "n k -> n ."),
            ("b", ["t"], "u", "n . -> n k"),
            ("c", ["u"], "v", "n k -> n k"),
            ("d", ["u", "v"], "w", "n k, n k -> n ."),
            ("e", ["w"], "y", "n k -> n k"),
        ],
        {"x": (8, 2), "t": (8, 1), "u": (8, 100), "v": (8, 100), "w": (8, 1), "y": (8, 1)},
    )


def test_what_is_live_at_the_peak_is_hot() -> None:
    """The two large ones, while one makes the other."""
    graph = _chain()
    model = Problem.of(graph, BUILT_IN["generic"]).memory
    hot = hot_tensors(model, range(5))
    assert {graph.tensor_by_id[t].name for t in hot} == {"u", "v", "w"}


def test_candidates_are_what_an_op_dominates() -> None:
    """Below the op that makes little of much: all that is large, and nothing large is read."""
    graph = _chain()
    regions = tree_regions(graph, Problem.of(graph, BUILT_IN["generic"]).memory, range(5))
    assert [op for op, _ in regions[0].axes] == [1, 2, 3, 4]
    assert regions[0].sliced == ((1, 0),)


def test_every_candidate_is_a_region() -> None:
    """Of random steps, checked again."""
    proposed = 0
    for seed in range(30):
        graph = random_step(seed, batch=4)
        problem = Problem.of(graph, BUILT_IN["generic"])
        for region in tree_regions(graph, problem.memory, range(len(graph.ops))):
            assert region_of(graph, dict(region.axes)) == region
            proposed += 1
    assert proposed > 30


def test_of_a_workload_it_proposes_the_ends_of_the_forward_pass() -> None:
    """Each smaller than the batch's own region, and within it."""
    graph = zoo.build(f"magis_bert_base:{SMALL['magis_bert_base'].replace('seq=6', 'seq=64')}").graph()
    whole = {op for op, _ in step_regions(graph).regions[0].axes}
    problem = Problem.of(graph, BUILT_IN["generic"])
    regions = tree_regions(graph, problem.memory, range(len(graph.ops)))
    sizes = [len(r.axes) for r in regions if r.rows == 5 and {op for op, _ in r.axes} <= whole]
    assert sizes
    assert max(sizes) < len(whole)
