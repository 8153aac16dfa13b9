"""Plans of graphs whose ops write over bytes: a reader that comes too early or too late is seen."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

import msgspec
import pytest

from lowtide import Plan, plan
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph
from lowtide.ops.effects import in_order_of_writes
from lowtide.read.graph_json import parse_graph_json
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from lowtide.verify.check.writes import check_writes
from lowtide.write.graph_json import graph_json_bytes
from support.plan_builder import make_plan
from support.writing_graphs import CACHE, Reads, cache, drawn, reads

GENERIC = BUILT_IN["generic"]


def ordered_as(graph: Graph, order: tuple[int, ...]) -> Plan:
    """A plan in which nothing but the order is of interest."""
    return msgspec.structs.replace(make_plan(graph, GENERIC), order=list(order))


@pytest.mark.parametrize("writes", [(1,), None])
def test_a_plan_that_corrupts_a_cache_is_refused(writes: tuple[int, ...] | None) -> None:
    """The append before who reads the old value, though no `after` says so; of a graph whose append is a view the same
    plan holds."""
    free = replace(cache(()), sha256="1" * 64)
    corrupting = make_plan(free, GENERIC, (1, 2, 0, 3))
    assert verify_plan(free, corrupting, GENERIC)
    graph = replace(cache(writes), sha256="1" * 64)
    assert plan(graph, target="generic").order == [0, 1, 2, 3]
    words = "op 0 'peek' at step .* reads kv as op 1 'append' leaves it, not as in file order"
    with pytest.raises(VerificationError, match=words) as caught:
        verify_plan(graph, corrupting, GENERIC)
    assert caught.value.failure == "writes"


@pytest.mark.parametrize("words", ['"writes": [1], ', ""])
def test_a_file_is_planned_with_its_writes(words: str) -> None:
    """As the contract has it, from graph JSON to the plan; who says nothing keeps the order of the file."""
    text = graph_json_bytes(cache(None)).decode().replace('{"id":1,"inputs":[1,0]', f'{{{words}"id":1,"inputs":[1,0]')
    graph = parse_graph_json(text.encode())
    assert graph.op_by_id[1].writes == ((1,) if words else None)
    made = plan(graph, target="generic")
    assert made.order.index(0) < made.order.index(1)
    seen = {check.name: check.result for check in verify_plan(graph, made, GENERIC).checks}
    assert seen["writes"] == "3 reads of memory that ops write over, each of what it reads in file order"
    assert "taken for views" not in seen["replay"]
    assert parse_graph_json(graph_json_bytes(graph)).ops == graph.ops


def test_a_view_by_word_or_by_type_is_free() -> None:
    """Its reader may come later."""
    text = graph_json_bytes(cache(None)).decode()
    for word in ('"writes": [], ', '"type": "Reshape", '):
        graph = parse_graph_json(text.replace('{"id":1,"inputs":[1,0]', f'{{{word}"id":1,"inputs":[1,0]').encode())
        assert not any(op.after for op in graph.ops)
        assert check_writes(graph, graph, ordered_as(graph, (1, 0, 2, 3))) is None


def test_what_is_left_at_the_end_counts() -> None:
    """Two writes in another order, which nobody reads."""
    graph = cache((1,))
    second = replace(graph.ops[1], id=9, outputs=(), name="second", writes=(3,), inputs=(3,))
    graph = Graph("twice", CACHE, (graph.ops[0], graph.ops[1], graph.ops[2], graph.ops[3], second))
    assert check_writes(graph, graph, ordered_as(graph, graph.own_order))
    with pytest.raises(VerificationError, match=r"op 2 'new' .* reads kv_new as op 9 'second' leaves it"):
        check_writes(graph, graph, ordered_as(graph, (0, 1, 9, 2, 3)))
    user = cache((1,))
    whole = replace(user, ops=(*user.ops, second))
    with pytest.raises(VerificationError, match="kv ends with other bytes than in file order"):
        check_writes(user, whole, ordered_as(whole, (0, 1, 2, 3, 9)))


@pytest.mark.slow
def test_the_checker_agrees_with_a_plain_replay() -> None:
    """Of drawn programs and some of their orders: it refuses exactly those in which a read or what is left differs."""
    refused = 0
    for seed in range(60):
        graph = drawn(Random(seed))
        try:
            in_order_of_writes(graph)
        except InputError:
            continue
        expected = reads(graph, graph.own_order)
        orders = [
            order for order in permutations(graph.own_order)
            if all(order.index(graph.producer[t]) < order.index(op.id) for op in graph.ops for t in op.inputs if t)
        ]  # fmt: skip
        for order in Random(seed).sample(orders, min(8, len(orders))):
            made = ordered_as(graph, order)
            if last_writers(expected) == last_writers(reads(graph, order)):
                check_writes(graph, graph, made)
                continue
            refused += 1
            with pytest.raises(VerificationError):
                check_writes(graph, graph, made)
    assert refused > 100


def last_writers(seen: Reads) -> object:
    """Of each byte that is read or left the op that wrote it last."""
    return {key: [w[-1:] for w in value] for key, value in seen[0].items()}, [w[-1:] for w in seen[1]]
