"""A cut certificate is accepted for its flow, and refused for any flaw in it."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from lowtide.certificates import CutCertificate, FlowCase
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import BUILT_IN
from lowtide.verify.check.cut import check_cut
from lowtide.verify.check.memory import CheckedMemory, work_out
from support.brute import every_downset, must_run_before
from support.plan_builder import cut_certificate
from support.random_graphs import random_graph

GENERIC, STRICT = BUILT_IN["generic"], BUILT_IN["strict"]
change = msgspec.structs.replace


def two_branches() -> Graph:
    """Op 3 runs beside a free branch (4, 5, 6) that the graph input and op 1's output keep alive.

    Op 7 joins both. Before op 3, either the branch's tensors or what the branch will read is there.
    """
    tensors = (
        Tensor(0, 10, Kind.INPUT),
        Tensor(1, 20),
        Tensor(2, 5),
        Tensor(3, 7),
        Tensor(4, 30),
        Tensor(5, 6),
        Tensor(6, 9, Kind.OUTPUT),
    )
    ops = (
        Op(1, (0,), (1,), "", "Conv"),
        Op(2, (0,), (2,), "", "Conv"),
        Op(3, (2,), (3,), "", "Conv", workspace=100),
        Op(4, (1,), (4,), "", "Conv"),
        Op(5, (4,), (5,), "", "Conv"),
        Op(7, (3, 5), (6,), "", "Conv"),
    )
    return Graph("branches", tensors, ops)


def refusal(graph: Graph, memory: CheckedMemory, certificate: CutCertificate) -> str:
    """The message with which a certificate is refused."""
    with pytest.raises(VerificationError) as caught:
        check_cut(graph, memory, certificate)
    assert caught.value.failure == "certificate"
    return str(caught.value)


def test_a_flow_by_hand() -> None:
    """The branch holds at least 6 bytes, op 3's own tensors 12, and its workspace is there."""
    graph = two_branches()
    memory = work_out(graph, STRICT)
    certificate = CutCertificate(
        op=3,
        value_bytes=118,
        downset=[1, 2, 4, 5],
        flow=[
            (2, 2, 3, 5),  # op 3's input
            (3, 3, 7, 7),  # op 3's output
            (0, None, 1, 6),  # either the input waits for op 1 ...
            (1, 1, 4, 6),  # ... or its output for op 4 ...
            (4, 4, 5, 6),
            (5, 5, 7, 6),  # ... or what op 7 will read is there
        ],
    )
    assert "proved by a flow" in check_cut(graph, memory, certificate)
    assert cut_certificate(graph, STRICT, 3).value_bytes == 118


MUTATIONS = {
    "value": ({"value_bytes": 119}, "proves 118 bytes"),
    "op": ({"op": 9}, "no op to run"),
    "another op": ({"op": 7, "downset": [1, 2, 3, 4, 5]}, "proves"),
    "downset with the op": ({"downset": [1, 2, 3, 4, 5]}, "downset"),
    "downset without an ancestor": ({"downset": [1, 4, 5]}, "downset"),
    "downset that is none": ({"downset": [2, 4]}, "without all that it needs"),
    "downset of strangers": ({"downset": [2, 99]}, "without all that it needs"),
    "in-place case of another op": ({"in_place": 2}, "may not overwrite"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_changed_certificate_is_refused(name: str) -> None:
    """Each field matters."""
    graph = two_branches()
    memory = work_out(graph, STRICT)
    changes, words = MUTATIONS[name]
    good = cut_certificate(graph, STRICT, 3)
    assert words in refusal(graph, memory, change(good, **changes))


ARCS = {
    "more than the storage holds": ((5, 5, 7, 1), "which has 6"),
    "from an op that does not touch it": ((5, 4, 7, 0), "starts where"),
    "to an op that does not touch it": ((5, 5, 3, 0), "ends where"),
    "there at the start, which it is not": ((4, None, 5, 0), "starts where"),
    "there at the end, which it is not": ((4, 5, None, 0), "ends where"),
    "through no storage": ((77, 5, 7, 0), "no storage"),
    "less than nothing": ((2, 2, 3, -1), "less than nothing"),
    "precedence the wrong way": ((None, 4, 5, 0), "no precedence"),
    "precedence of a stranger": ((None, 5, 1, 0), "no precedence"),
    "precedence from nowhere": ((None, None, 1, 0), "no precedence"),
    "bytes out of nothing": ((4, 4, 5, 1), "not conserved"),
    "bytes lost": ((0, None, 1, 1), "not conserved"),
}


@pytest.mark.parametrize("name", ARCS)
def test_one_more_arc_that_is_wrong_is_refused(name: str) -> None:
    """A flow with a false arc proves nothing, even where the arc adds nothing."""
    graph = two_branches()
    memory = work_out(graph, STRICT)
    arc, words = ARCS[name]
    good = cut_certificate(graph, STRICT, 3)
    assert words in refusal(graph, memory, change(good, flow=[*good.flow, arc]))


def test_a_flow_that_returns_to_an_ancestor_counts_less() -> None:
    """Bytes that run back into the source side are taken off the value."""
    graph = two_branches()
    memory = work_out(graph, STRICT)
    good = cut_certificate(graph, STRICT, 3)
    flow = [*good.flow, (0, None, 2, 4)]
    assert check_cut(graph, memory, change(good, flow=flow))
    flow = [a for a in good.flow if a[0] != 2]
    assert "proves 113" in refusal(graph, memory, change(good, flow=[*flow, (2, 3, 2, 5)]))


def in_place_graph() -> Graph:
    """Op 4 adds two tensors of which each is read by one more op that may run before or after it."""
    tensors = (
        Tensor(0, 8, Kind.INPUT),
        Tensor(1, 8),
        Tensor(2, 8),
        Tensor(3, 8, Kind.OUTPUT),
        Tensor(4, 3, Kind.OUTPUT),
        Tensor(5, 2, Kind.OUTPUT),
    )
    ops = (
        Op(1, (0,), (1,), "", "Conv"),
        Op(2, (0,), (2,), "", "Conv"),
        Op(4, (1, 2), (3,), "", "Add"),
        Op(5, (1,), (4,), "", "Conv"),
        Op(6, (2,), (5,), "", "Conv"),
    )
    return Graph("adding", tensors, ops)


def test_every_input_that_may_be_overwritten_needs_a_flow() -> None:
    """With two such inputs the certificate has two flows; either alone is refused, and so is none."""
    graph = in_place_graph()
    memory = work_out(graph, GENERIC)
    assert memory.overwritable[4] == (1, 2)
    good = cut_certificate(graph, GENERIC, 4)
    assert good.value_bytes == 18
    assert (good.in_place, [c.in_place for c in good.cases]) == (1, [2])
    assert check_cut(graph, memory, good)
    assert "leaves that case out" in refusal(graph, memory, change(good, cases=[]))
    assert "leaves that case out" in refusal(graph, memory, change(good, in_place=None))
    assert "leaves that case out" in refusal(graph, memory, change(good, in_place=None, cases=[]))
    empty = FlowCase(in_place=2, flow=[])
    assert "with tensor 2 overwritten proves 0" in refusal(graph, memory, change(good, cases=[empty]))


def test_the_last_bytes_of_an_overwritten_input_may_not_end_in_the_op() -> None:
    """A flow that takes no notice of the saving is refused."""
    graph = in_place_graph()
    memory = work_out(graph, GENERIC)
    plain = cut_certificate(graph, STRICT, 4)
    assert plain.value_bytes == 24
    claim = change(plain, in_place=1, cases=[FlowCase(in_place=2, flow=plain.flow)])
    assert "which it overwrites: 0 may" in refusal(graph, memory, claim)
    assert "leaves that case out" in refusal(graph, memory, plain)


def test_one_flow_covers_all_inputs_of_one_storage() -> None:
    """An op that may overwrite a tensor or a view of it frees the same storage either way."""
    tensors = (
        Tensor(0, 8, Kind.INPUT),
        Tensor(1, 8),
        Tensor(2, 8),
        Tensor(3, 8, Kind.OUTPUT),
    )
    ops = (
        Op(1, (0,), (1,), "", "Conv"),
        Op(2, (1,), (2,), "", "Reshape"),
        Op(3, (1, 2), (3,), "", "Add"),
    )
    graph = Graph("both", tensors, ops)
    memory = work_out(graph, GENERIC)
    assert memory.overwritable[3] == (1, 2)
    good = cut_certificate(graph, GENERIC, 3)
    assert good.value_bytes == 8
    for tensor in (1, 2):
        assert "proved by a flow" in check_cut(graph, memory, change(good, in_place=tensor, cases=[]))


@pytest.mark.slow
def test_random_certificates_hold_and_are_never_above_the_truth() -> None:
    """A flow with arcs added or changed at random is refused, or proves no more than the exact minimum."""
    refused = accepted = 0
    for seed in range(400):
        rng = Random(seed)
        graph = random_graph(rng, rng.randint(2, 7))
        if not graph.ops:
            continue
        target = rng.choice([GENERIC, STRICT, BUILT_IN["hmcos"]])
        v = rng.choice(graph.ops).id
        memory, needs = work_out(graph, target), must_run_before(graph)
        good = cut_certificate(graph, target, v)
        assert "proved by a flow" in check_cut(graph, memory, good)
        least = min(
            memory.footprint(v, before) for before in every_downset(graph) if v not in before and needs[v] <= before
        )
        for _ in range(6):
            flow = list(good.flow)
            ids = [None, *(op.id for op in graph.ops)]
            for _ in range(rng.randint(0, 2)):
                tensor = rng.choice([None, *memory.storage_of])
                flow.append((tensor, rng.choice(ids), rng.choice(ids), rng.randint(0, 3)))
            if flow and rng.random() < 0.4:
                k = rng.randrange(len(flow))
                flow[k] = (*flow[k][:3], flow[k][3] + rng.choice((-1, 1, 2)))
            claim = change(good, flow=flow, value_bytes=rng.choice((least, least, rng.randint(0, least + 3))))
            try:
                check_cut(graph, memory, claim)
            except VerificationError:
                refused += 1
            else:
                accepted += 1
                assert claim.value_bytes <= least, seed
    assert refused > 100
    assert accepted > 100
