"""Products that read the same, as one: what the step is then, what is refused, and that it computes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowtide.graph import Graph, Kind
from lowtide.transform.sibling_ops import NoMerge
from lowtide.transform.siblings import Siblings, apply, candidates, why_not
from lowtide_research import zoo
from lowtide_research.zoo.step_net import StepNet
from support.step_runs import random_feeds, run_step
from support.steps import SMALL, random_attention_step, random_sibling_step


def _step(residual: bool = False) -> Graph:
    """Two products of a norm's result, which may be read by a sum as well; their results are turned."""
    net = StepNet("siblings")
    x = net.norm(net.einsum(net.tensor("x", (3, 2, 4)), net.parameter((4, 4)), "nsd", "df", "nsf"))
    a, b = (net.transpose(net.einsum(x, net.parameter((4, 5)), "nsd", "df", "nsf"), (0, 2, 1)) for _ in range(2))
    y = net.einsum(a, b, "nfs", "nft", "nst")
    z = net.einsum(y, x, "nst", "ntd", "nsd")
    net.train(net.add(z, x) if residual else z)
    return net.graph()


def _of_attention(graph: Graph) -> Siblings:
    """Those that `candidates` has."""
    (found,) = [s for s in candidates(graph) if why_not(graph, s) is None]
    return found


def merged_results(graph: Graph, feeds: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Results of a step with all siblings as one, by the ids of the step as it stands."""
    beside: dict[int, tuple[int, ...]] = {}
    for siblings in candidates(graph):
        if why_not(graph, siblings) is None:
            change = apply(graph, siblings)
            graph, beside = change.graph, {**beside, **change.stacked}
    wide = {t: np.stack([feeds[w] for w in of]) for t, of in beside.items() if of[0] in feeds}
    results = run_step(graph, {**feeds, **wide})
    for t, of in beside.items():
        if t in results:
            results |= zip(of, results.pop(t), strict=True)
    return results


def test_a_step_with_one_product_for_two() -> None:
    """By hand: one of each where there were two, transposes and the sum of two gradients gone with them."""
    graph = _step()
    before, after = ([op.type for op in g.ops] for g in (graph, apply(graph, _of_attention(graph)).graph))
    gained = {kind: after.count(kind) - before.count(kind) for kind in {*before, *after}}
    assert {kind: n for kind, n in gained.items() if n} == {
        "einsum": -3, "update": -1, "permute": -4, "add": -1, "unstack": 1, "stack": 1
    }  # fmt: skip


def test_what_is_new_says_its_rows() -> None:
    """The siblings lie along a dimension of their own, first in weights; parts take rows of all others."""
    change = apply(_step(), _of_attention(_step()))
    new = {op.type: op for op in change.graph.ops if op.id in change.ops and op.type in ("stack", "unstack")}
    products = {op.attributes["equation"]: op.attributes["labels"] for op in change.graph.ops if op.type == "einsum"}
    assert products["nsd,adf->nsaf"] == "n s d, a d f -> n s a f"
    assert new["unstack"].attributes["labels"] == "a b . c -> a c b, a c b"
    assert new["stack"].attributes["labels"] == "a b c, a b c -> a c . b"
    shapes = {change.graph.tensor_by_id[t].shape for t in change.stacked}
    assert shapes == {(2, 4, 5)}
    assert {change.graph.tensor_by_id[t].kind for t in change.stacked} == {Kind.INPUT, Kind.OUTPUT}


def test_bytes_and_operations_are_those_of_all() -> None:
    """Of inputs, results, and products."""
    graph = _step()
    after = apply(graph, _of_attention(graph)).graph
    for kind in (Kind.INPUT, Kind.OUTPUT):
        sizes = [sum(t.size for t in g.tensors if t.kind is kind) for g in (graph, after)]
        assert sizes[0] == sizes[1]
    products = [sum(op.flops or 0 for op in g.ops if op.type == "einsum") for g in (graph, after)]
    assert products[0] == products[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_random_step_computes_the_same(seed: int) -> None:
    """The sums of the operand's gradient alone are added up in another order."""
    graph = (random_sibling_step if seed % 2 else random_attention_step)(seed)
    feeds = random_feeds(graph, seed)
    own, results = run_step(graph, feeds), merged_results(graph, feeds)
    assert own.keys() == results.keys()
    for t, value in own.items():
        assert np.allclose(value, results[t], rtol=0, atol=1e-11 * np.abs(value).max())


def test_the_loss_is_equal_to_the_bit() -> None:
    """Nothing in the forward pass is added up otherwise."""
    graph = _step(residual=True)
    feeds = random_feeds(graph, 2)
    own, results = run_step(graph, feeds), merged_results(graph, feeds)
    loss = next(t for t in own if graph.op_by_id[graph.producer[t]].type == "square")
    assert np.array_equal(own[loss], results[loss])


@pytest.mark.parametrize("name", SMALL)
def test_of_the_workloads_those_with_heads_have_three_at_a_time(name: str) -> None:
    """Queries, keys and values of each block; convolutions that read the same are of other widths, and stay apart."""
    graph = zoo.build(f"{name}:{SMALL[name]}").graph()
    found = [s for s in candidates(graph) if why_not(graph, s) is None]
    blocks = SMALL[name].partition("layers=")[2][:1]
    assert [len(s.products) for s in found] == [3] * int(blocks or 0)


def _with(graph: Graph, op: int, **changes: object) -> Graph:
    """One of its ops otherwise."""
    return replace(graph, ops=tuple([replace(o, **changes) if o.id == op else o for o in graph.ops]))  # type: ignore[arg-type]


def test_what_is_more_than_a_product_stays() -> None:
    """Ops in an order of the user's, updates that look at more than an element, products without an equation."""
    graph = _step()
    siblings = _of_attention(graph)
    site = apply(graph, siblings).site
    first, update = site.products[0], site.updates[0]
    other = next(op.id for op in graph.ops if op.id not in {o.id for o in site.gone} and op.type == "square")
    cases = {
        "more than a function": _with(graph, first.id, after=(graph.ops[0].id,)),
        "differ in their attributes": _with(graph, update.id, attributes={**update.attributes, "factor": 2.0}),
        "to run after one of them": _with(graph, other, after=(first.id,)),
    }
    for u in site.updates:
        wrong = {**u.attributes, "labels": ". a, . a -> . a"}
        cases["more than one element"] = _with(cases.get("more than one element", graph), u.id, attributes=wrong)
    for why, changed in cases.items():
        assert why in (why_not(changed, siblings) or ""), why
        with pytest.raises(NoMerge, match=why):
            apply(changed, siblings)


def test_what_others_read_stays() -> None:
    """A weight that is tied, a gradient that is watched, an operand whose gradients go two ways."""
    graph = _step()
    siblings = _of_attention(graph)
    site = apply(graph, siblings).site
    last = graph.ops[-1]

    def read_by_another(tensor: int) -> Graph:
        shape = graph.tensor_by_id[tensor].shape or ()
        words = " ".join("abcd"[: len(shape)])
        new = replace(graph.tensor_by_id[tensor], id=900, kind=Kind.OUTPUT, name="watched")
        op = replace(last, id=900, inputs=(tensor,), outputs=(900,), type="relu", name="watch",
                     attributes={"labels": f"{words} -> {words}"}, operands=())  # fmt: skip
        return replace(graph, tensors=(*graph.tensors, new), ops=(*graph.ops, op))

    cases = (
        (site.products[0].inputs[1], "type relu, not einsum"),
        (site.gradients[0].outputs[0], "read by others"),
        (site.gradients[0].inputs[1], "read by others"),
        (site.backs[0].outputs[0], "not added up"),
    )
    for tensor, why in cases:
        with pytest.raises(NoMerge, match=why):
            apply(read_by_another(tensor), siblings)


def test_decisions_that_are_none() -> None:
    """One product, two of different operands, ids in another order, ids of nobody."""
    graph = _step()
    a, b = _of_attention(graph).products
    products = [op.id for op in graph.ops if op.type == "einsum"]
    for ids in ((a,), (b, a), (a, a), (a, 999)):
        assert "file order" in (why_not(graph, Siblings(ids)) or "")
    other = next(v for v in products if v not in (a, b))
    pair = tuple(sorted((a, other), key=lambda v: graph.index_of[v]))
    assert why_not(graph, Siblings(pair)) is not None
